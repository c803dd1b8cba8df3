#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    gt_fuzz::run("window", data);
});
