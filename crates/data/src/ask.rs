//! Asks memory for what will be read or written soon, so that it is in the processor's cache by then. Changes nothing else.

/// Bytes that come from memory together.
const LINE_BYTES: usize = 64;

/// For the beginning of bytes, up to so many; what follows, the processor asks for by itself.
#[inline(always)]
pub(crate) fn ask_for_bytes(bytes: &[u8], most: usize) {
    bytes[..bytes.len().min(most)].chunks(LINE_BYTES).for_each(|line| ask(line.as_ptr()));
}

/// For something that lies in one line.
#[inline(always)]
pub(crate) fn ask_for<T>(thing: &T) {
    ask(std::ptr::from_ref(thing).cast());
}

/// What is at an address may be anything: it is not read.
#[inline(always)]
fn ask(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect but on caches, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
