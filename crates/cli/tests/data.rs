//! The data commands, as users run them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use arrow_buffer::Buffer;
use gt_data::{
    Block, Column, Elem, Extents, Field, FileAccess, Kind, LoadTimes, ParquetOptions, ParquetWriter, Picked, SourceSpec,
};
use rustix::process::{Pid, Signal, kill_process};

/// No test waits longer for one thing.
const PATIENCE: Duration = Duration::from_secs(20);

fn gt(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gt"));
    command.arg("data").args(args).current_dir(dir).env("GT_CACHE_DIR", dir.join(".cache")).stdin(Stdio::null());
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    gt(dir, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What lies in a folder, hidden files aside.
fn names(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| !n.starts_with('.')).collect();
    names.sort();
    names
}

/// Files of lines, each with the same samples, in a folder `in`.
fn data_set(dir: &Path, files: usize, lines: usize) -> PathBuf {
    std::fs::create_dir(dir.join("in")).unwrap();
    let line = |i: usize| format!("{{\"x\": {i}, \"name\": \"sample {i}\"}}\n");
    let content: String = (0..lines).map(line).collect();
    let first = dir.join("in/0.jsonl");
    std::fs::write(&first, content).unwrap();
    (1..files).for_each(|n| std::fs::hard_link(&first, dir.join(format!("in/{n}.jsonl"))).unwrap());
    first
}

struct Running(Child);

impl Running {
    fn exit_code(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "the command did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_signal_ends_every_command_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), 400, 20_000);
    assert!(run(dir.path(), &["index", "in"]).status.success());
    let commands: [&[&str]; 3] = [
        &["shuffle", "in", "out"],
        &["cache", "in", "out"],
        &["bench", "in", "--seconds", "60", "--num-workers", "0", "--shuffle", "pool"],
    ];
    for command in commands {
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let child = gt(dir.path(), command).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let mut child = Running(child);
            let until = Instant::now() + PATIENCE;
            while command[0] != "bench" && names(dir.path()).len() == 1 {
                assert!(Instant::now() < until, "{command:?} writes nothing");
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(500));
            kill_process(Pid::from_raw(child.0.id() as i32).unwrap(), signal).unwrap();
            let asked = Instant::now();
            assert_eq!(child.exit_code(), Some(code), "{command:?}");
            assert!(asked.elapsed() < Duration::from_secs(5), "{command:?} took {:?}", asked.elapsed());
            assert_eq!(names(dir.path()), ["in"], "{command:?}");
            let mut said = String::new();
            std::io::Read::read_to_string(&mut child.0.stderr.take().unwrap(), &mut said).unwrap();
            assert_eq!(said, "", "{command:?}");
        }
    }
}

#[test]
fn a_killed_shuffle_leaves_nothing_under_its_final_name() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), 100, 20_000);
    let command = ["shuffle", "in", "out", "--rows-per-file", "1000"];
    let child = gt(dir.path(), &command).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut child = Running(child);
    let until = Instant::now() + PATIENCE;
    let is_begun = || names(dir.path()).iter().any(|n| n.ends_with(".part") && !names(&dir.path().join(n)).is_empty());
    while !is_begun() {
        assert!(Instant::now() < until, "nothing is written");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.0.kill().unwrap();
    assert_eq!(child.exit_code(), None);
    assert!(!dir.path().join("out").exists());
    // What it has left is no data set, and in nobody's way.
    assert!(text(&run(dir.path(), &["index", "."]).stdout).starts_with("2000000 samples in 100 files"));
}

#[test]
fn a_shuffle_into_its_own_input_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), 2, 10);
    for command in ["shuffle", "cache"] {
        let refused = run(dir.path(), &[command, "in/*.jsonl", "in"]);
        assert_eq!(refused.status.code(), Some(1), "{command}");
        assert!(text(&refused.stderr).contains("in exists and is not empty"), "{}", text(&refused.stderr));
        assert_eq!(names(&dir.path().join("in")), ["0.jsonl", "1.jsonl"]);
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        let done = run(dir.path(), &[command, "in", "empty/"]);
        assert_eq!(text(&done.stderr), "");
        assert_eq!(names(dir.path()), ["empty", "in"]);
        std::fs::remove_dir_all(dir.path().join("empty")).unwrap();
    }
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), 1, 10);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = gt(dir.path(), &["index", "in"]).stdout(writer).output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(141), String::new()));
}

#[test]
fn options_are_taken_as_the_pages_print_them() {
    let dir = tempfile::tempdir().unwrap();
    data_set(dir.path(), 2, 100);
    let cached = run(dir.path(), &["cache", "in", "as_it_is", "--after-transforms"]);
    assert!(cached.status.success(), "{}", text(&cached.stderr));
    let changes = ["cache", "in", "changed", "--after-transforms", "x:log1p", "--dtype", "float32"];
    assert!(run(dir.path(), &changes).status.success());
    let bench = run(dir.path(), &["bench", "in", "--batch-size", "64,128", "--num-workers", "0", "--shuffle", "off"]);
    let rows: Vec<String> = text(&bench.stdout).lines().map(str::to_owned).collect();
    assert!(rows.len() == 3 && rows[1].contains(" 64 ") && rows[2].contains(" 128 "), "{rows:?}");
    for wrong in [["--files", "0"], ["--rows-per-file", "0"], ["--rows-per-group", "0"]] {
        assert_eq!(
            run(dir.path(), &[&["shuffle", "in", "out"], &wrong[..]].concat()).status.code(),
            Some(2),
            "{wrong:?}"
        );
    }
}

/// The columns of a cached data set, each with its type.
fn cached_columns(folder: &Path) -> Vec<(String, Elem)> {
    let spec = SourceSpec::Cached { folder: folder.display().to_string(), columns: None };
    let source = spec.open(&FileAccess::everything()).unwrap();
    let mut columns: Vec<_> = source.fields().iter().map(|field| (field.name.clone(), field.elem)).collect();
    columns.sort_by(|a, b| a.0.cmp(&b.0));
    columns
}

#[test]
fn the_dtype_of_one_column_turned_labels_into_floats() {
    let dir = tempfile::tempdir().unwrap();
    let line = |i: usize| format!("{{\"charge\": {i}.5, \"label\": {i}}}\n");
    std::fs::create_dir(dir.path().join("in")).unwrap();
    std::fs::write(dir.path().join("in/0.jsonl"), (0..50).map(line).collect::<String>()).unwrap();
    let columns = |output: &str, dtypes: &[&str]| {
        let done = run(dir.path(), &[&["cache", "in", output], dtypes].concat());
        assert!(done.status.success(), "{dtypes:?}: {}", text(&done.stderr));
        cached_columns(&dir.path().join(output)).into_iter().map(|(_, elem)| elem).collect::<Vec<_>>()
    };
    assert_eq!(columns("plain", &[]), [Elem::F64, Elem::I64]);
    assert_eq!(columns("named", &["--dtype", "charge=float32"]), [Elem::F32, Elem::I64]);
    assert_eq!(columns("both", &["--dtype", "charge=float32,label=int32"]), [Elem::F32, Elem::I32]);
    // As its help says, one without a column is for all the others.
    assert_eq!(columns("all", &["--dtype", "float32"]), [Elem::F32, Elem::F32]);
    assert_eq!(columns("others", &["--dtype", "label=int32,float32"]), [Elem::F32, Elem::I32]);
    for (wrong, code, why) in [("cahrge=float32", 1, "cahrge"), ("charge=float33", 2, "\"float33\" is not a dtype")] {
        let refused = run(dir.path(), &["cache", "in", "out", "--dtype", wrong]);
        assert_eq!(refused.status.code(), Some(code), "{wrong}");
        assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
        assert!(!dir.path().join("out").exists());
    }
}

/// A file of these columns of integers.
fn write_parquet(dir: &Path, name: &str, columns: &[(&str, Vec<i64>)]) {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, _)| Field { name: (*name).into(), elem: Elem::I64, kind: Kind::Fixed, item: vec![] })
        .collect();
    let values = columns.iter().zip(&fields).map(|((_, values), field)| {
        Column::new(field, Buffer::from_vec(values.clone()), Extents::One, values.len()).unwrap()
    });
    let block = Block { columns: values.collect(), samples: columns[0].1.len() };
    let mut writer = ParquetWriter::create(&dir.join(name), &fields, 2).unwrap();
    let rows = 0..block.samples as u32;
    let rows: Vec<Picked> = rows.map(|row| Picked { block: &block, row, id: row as u64, piece: 0 }).collect();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
}

/// Two flat files with a table of events beside them: events of 3 and 2 rows, and of 4.
fn flat_events(dir: &Path) {
    let write = |name: &str, columns: &[(&str, Vec<i64>)]| write_parquet(dir, name, columns);
    std::fs::create_dir(dir.join("train")).unwrap();
    write("train/batch_1.parquet", &[("charge", vec![10, 11, 12, 20, 21])]);
    write("train/batch_2.parquet", &[("charge", vec![30, 31, 32, 33])]);
    let table = [
        ("batch_id", vec![1, 1, 2]),
        ("event_id", vec![7, 8, 9]),
        ("first_index", vec![0, 3, 0]),
        ("last_index", vec![2, 4, 3]),
    ];
    write("meta.parquet", &table);
}

const EVENTS: [&str; 10] = [
    "--events",
    "meta.parquet",
    "--first",
    "first_index",
    "--last",
    "last_index",
    "--file-column",
    "batch_id",
    "--file-pattern",
    "train/batch_{}.parquet",
];

#[test]
fn rows_of_different_events_are_not_mixed_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    flat_events(dir.path());
    for command in ["shuffle", "cache"] {
        let refused = run(dir.path(), &[command, "train", "out"]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains("meta.parquet looks like a table of events"), "{said}");
        assert!(said.contains("--first first_index --last last_index") && said.contains("--rows"), "{said}");
        assert!(!dir.path().join("out").exists());
        let rows = run(dir.path(), &[command, "train", "rows", "--rows"]);
        assert_eq!((text(&rows.stderr), text(&rows.stdout).starts_with("9 samples")), (String::new(), true));
        std::fs::remove_dir_all(dir.path().join("rows")).unwrap();
    }
    let indexed = run(dir.path(), &["index", "train"]);
    assert!(indexed.status.success() && text(&indexed.stderr).contains("looks like a table of events"));
}

/// Shuffles `files` and says what was refused.
fn shuffled(dir: &Path, files: &str) -> (Option<i32>, String) {
    let done = run(dir, &["shuffle", files, "out"]);
    let _ = std::fs::remove_dir_all(dir.join("out"));
    (done.status.code(), text(&done.stderr))
}

#[test]
fn a_table_of_events_is_found_beside_many_files() {
    let dir = tempfile::tempdir().unwrap();
    flat_events(dir.path());
    std::fs::rename(dir.path().join("meta.parquet"), dir.path().join("train/train_meta.parquet")).unwrap();
    let first = dir.path().join("train/batch_1.parquet");
    (3..=40).for_each(|n| std::fs::hard_link(&first, dir.path().join(format!("train/batch_{n}.parquet"))).unwrap());
    for files in ["train/batch_*.parquet", "train/batch_1.parquet"] {
        let (code, said) = shuffled(dir.path(), files);
        assert_eq!(code, Some(1), "{files}: {said}");
        assert!(said.contains("train_meta.parquet looks like a table of events"), "{files}: {said}");
    }
}

#[test]
fn a_table_of_events_may_have_names_in_camel_case() {
    let dir = tempfile::tempdir().unwrap();
    flat_events(dir.path());
    write_parquet(dir.path(), "meta.parquet", &[("firstIndex", vec![0, 3]), ("lastIndex", vec![2, 4])]);
    let (code, said) = shuffled(dir.path(), "train");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("--first firstIndex --last lastIndex"), "{said}");
}

#[test]
fn a_table_of_events_is_known_by_its_values() {
    let dir = tempfile::tempdir().unwrap();
    flat_events(dir.path());
    let ids = || ("event_id", vec![7, 8, 9]);
    let ranges = [ids(), ("a", vec![0, 3, 0]), ("b", vec![3, 5, 4])];
    let lengths = [ids(), ("hits", vec![3, 2, 4])];
    for (columns, said_of_it) in
        [(&ranges[..], "--first a --end b"), (&lengths[..], "\"hits\" add up to the number of rows")]
    {
        write_parquet(dir.path(), "meta.parquet", columns);
        let (code, said) = shuffled(dir.path(), "train");
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("meta.parquet looks like a table of events") && said.contains(said_of_it), "{said}");
        // The column of the data says nothing of the table.
        let some = run(dir.path(), &["shuffle", "train", "out", "--columns", "charge"]);
        assert_eq!(some.status.code(), Some(1), "{}", text(&some.stderr));
    }
}

#[test]
fn a_table_of_events_beside_json_lines_is_found() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("rows.jsonl"), "{\"charge\": 1}\n".repeat(9)).unwrap();
    for columns in
        [[("first", vec![0, 3, 5]), ("last", vec![2, 4, 8])], [("event_id", vec![0, 1, 5]), ("n", vec![3, 2, 4])]]
    {
        write_parquet(dir.path(), "events.parquet", &columns);
        for command in ["shuffle", "cache"] {
            let done = run(dir.path(), &[command, "rows.jsonl", "out"]);
            let said = text(&done.stderr);
            assert_eq!(done.status.code(), Some(1), "{said}");
            assert!(said.contains("events.parquet looks like a table of events"), "{said}");
            assert!(said.contains("--events needs Parquet files") && said.contains("--rows"), "{said}");
        }
    }
    let rows = run(dir.path(), &["shuffle", "rows.jsonl", "out", "--rows"]);
    assert_eq!((rows.status.code(), text(&rows.stderr)), (Some(0), String::new()));
}

#[test]
fn a_table_whose_numbers_agree_with_no_rows_is_no_table_of_events() {
    let dir = tempfile::tempdir().unwrap();
    flat_events(dir.path());
    write_parquet(dir.path(), "meta.parquet", &[("year", vec![2021, 2022, 2023]), ("n", vec![3, 2, 5])]);
    let (code, said) = shuffled(dir.path(), "train");
    assert_eq!((code, said), (Some(0), String::new()));
}

#[test]
fn another_part_of_the_same_data_is_no_table_of_events() {
    let dir = tempfile::tempdir().unwrap();
    let columns = [("answer_start", vec![0, 1, 0]), ("answer_end", vec![1, 2, 3])];
    write_parquet(dir.path(), "train.parquet", &columns);
    write_parquet(dir.path(), "validation.parquet", &columns);
    assert_eq!(shuffled(dir.path(), "train.parquet"), (Some(0), String::new()));
}

#[test]
fn shuffled_events_stay_whole() {
    let dir = tempfile::tempdir().unwrap();
    flat_events(dir.path());
    for command in ["index", "bench"] {
        let done = run(dir.path(), &[&[command, "train"], &EVENTS[..]].concat());
        assert_eq!((done.status.code(), text(&done.stderr)), (Some(0), String::new()), "{command}");
    }
    for command in ["shuffle", "cache"] {
        let done = run(dir.path(), &[&[command, "train", "out"], &EVENTS[..]].concat());
        assert!(text(&done.stdout).starts_with("3 samples"), "{} {}", text(&done.stdout), text(&done.stderr));
        let source =
            gt_data::open(&[dir.path().join("out").display().to_string()], &ParquetOptions::default()).unwrap();
        let names: Vec<&str> = source.fields().iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["charge", "event_id"], "{command}");
        let mut events = Vec::new();
        for number in 0..source.blocks().len() as u32 {
            let block = source.load(number, &mut LoadTimes::default()).unwrap();
            let numbers = |column: usize, row| -> Vec<i64> {
                let bytes = block.columns[column].sample(row);
                bytes.chunks(8).map(|number| i64::from_le_bytes(number.try_into().unwrap())).collect()
            };
            events.extend((0..block.samples as u32).map(|row| (numbers(1, row)[0], numbers(0, row))));
        }
        events.sort();
        assert_eq!(events, [(7, vec![10, 11, 12]), (8, vec![20, 21]), (9, vec![30, 31, 32, 33])], "{command}");
        std::fs::remove_dir_all(dir.path().join("out")).unwrap();
    }
}
