//! Files behind HTTP: the same samples as from a disk, and errors that name the URL.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gt_data::*;
use support::{ids, spec, write};

/// A server of one file, which answers every request by `Connection: close`.
struct Server {
    url: String,
    content: Arc<Mutex<Vec<u8>>>,
    /// Whether it breaks off in the middle of each answer.
    breaks: Arc<AtomicBool>,
}

impl Server {
    fn start(file: &Path) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let url = format!("http://{}/{name}", listener.local_addr().unwrap());
        let content = Arc::new(Mutex::new(std::fs::read(file).unwrap()));
        let breaks = Arc::new(AtomicBool::new(false));
        let server = Server { url, content: content.clone(), breaks: breaks.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let whole = content.lock().unwrap().clone();
                // A client that hangs up is its own affair.
                let _ = answer(stream, &whole, breaks.load(Ordering::Relaxed));
            }
        });
        server
    }
}

fn answer(mut stream: TcpStream, whole: &[u8], breaks: bool) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let head = lines.next().transpose()?.unwrap_or_default();
    let mut range = None;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(wanted) = line.strip_prefix("range: bytes=") {
            let (first, last) = wanted.split_once('-').unwrap();
            range = Some((first.parse::<usize>().unwrap(), last.parse::<usize>().unwrap().min(whole.len() - 1)));
        }
    }
    let (status, part, extra) = match range {
        Some((first, last)) if first <= last => {
            let extra = format!("Content-Range: bytes {first}-{last}/{}\r\n", whole.len());
            ("206 Partial Content", &whole[first..=last], extra)
        }
        Some(_) => ("416 Range Not Satisfiable", &whole[..0], String::new()),
        None => ("200 OK", whole, String::new()),
    };
    let modified = "Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT";
    write!(
        stream,
        "HTTP/1.1 {status}\r\n{modified}\r\n{extra}Content-Length: {}\r\nConnection: close\r\n\r\n",
        part.len()
    )?;
    match head.starts_with("HEAD") {
        true => Ok(()),
        false if breaks => stream.write_all(&part[..part.len() / 2]),
        false => stream.write_all(part),
    }
}

fn options() -> ParquetOptions {
    ParquetOptions { no_index_cache: true, ..ParquetOptions::default() }
}

#[test]
fn a_file_behind_a_url_gives_the_samples_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), &[100], 10).remove(0);
    let server = Server::start(&path);
    let here = open(&[path.display().to_string()], &options()).unwrap();
    let there = open(std::slice::from_ref(&server.url), &options()).unwrap();
    assert_eq!(there.file(0), server.url);
    assert_eq!(there.fingerprint(), here.fingerprint());
    let of = |source: &Arc<dyn Source>, threads| {
        let mut how = spec(source, Shuffle::Pool { blocks: 4, lanes: 2 }, 7);
        how.threads = threads;
        ids(source, &how)
    };
    assert_eq!(of(&there, 0), of(&here, 0));
    assert_eq!(of(&there, 3), of(&here, 0));
}

#[test]
fn a_file_that_changes_or_breaks_off_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&write(dir.path(), &[100], 10)[0]);
    let source = open(std::slice::from_ref(&server.url), &options()).unwrap();
    let load = || source.load(3, &mut LoadTimes::default()).map(|b| b.samples);
    assert_eq!(load(), Ok(10));
    server.breaks.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let broken = load().unwrap_err().to_string();
    assert!(broken.starts_with(&server.url), "{broken}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    server.breaks.store(false, Ordering::Relaxed);
    server.content.lock().unwrap().push(0);
    let changed = load().unwrap_err().to_string();
    assert!(changed.starts_with(&server.url) && changed.contains("changed"), "{changed}");
    server.content.lock().unwrap().truncate(9);
    assert!(load().unwrap_err().to_string().contains("changed"));
}

#[test]
fn nobody_listens_is_said_soon() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{address}/x.parquet");
    let begun = Instant::now();
    let Err(refused) = open(std::slice::from_ref(&url), &options()) else { panic!("there is no such server") };
    assert!(refused.to_string().starts_with(&url) && refused.to_string().contains("refused"), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn an_interrupt_ends_a_wait() {
    // It takes the question and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x.parquet", silent.local_addr().unwrap());
    let begun = Instant::now();
    let ended = interruptible(|| true, || open(std::slice::from_ref(&url), &options()).map(|_| ()));
    assert_eq!(ended, Err(DataError::Interrupted));
    assert!(begun.elapsed() < Duration::from_secs(10));
}
