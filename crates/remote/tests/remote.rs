//! The client's end of a session, against a server that misbehaves on demand.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gt_client::link::{Link, WaitError};
use gt_ir::{FailureKind, Instr, TensorId, Window};
use gt_net::protocol::{FromServer, Refusal};
use gt_remote::Remote;
use support::{Server, info, of, upload, window};

const NEVER: &dyn Fn() -> bool = &|| false;

fn sorted(mut window: Window) -> Window {
    window.frees.sort();
    window
}

fn eventually(what: &str, check: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !check() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn failure(error: WaitError) -> gt_ir::Failure {
    match error {
        WaitError::Failed(failure) => failure,
        WaitError::Interrupted => panic!("interrupted"),
    }
}

#[test]
fn windows_go_whole_then_defined_then_by_name() {
    let server = Server::new();
    let remote = server.open();
    for turn in 0..5 {
        remote.send(of(window(turn)), NEVER).unwrap();
    }
    remote.send(of(Window { eager: true, ..window(5) }), NEVER).unwrap();
    remote.synchronize(NEVER).unwrap();
    let fake = server.0.lock();
    assert_eq!(fake.forms, ["send", "define", "replay", "replay", "replay", "send"]);
    let sent: Vec<Window> = (0..6).map(|turn| sorted(Window { eager: turn == 5, ..window(turn) })).collect();
    assert_eq!(fake.windows.iter().cloned().map(sorted).collect::<Vec<_>>(), sent);
}

#[test]
fn reads_are_answered_and_failures_raised() {
    let server = Server::new();
    let remote = server.open();
    let value = remote.read(TensorId(77), NEVER).unwrap();
    assert_eq!(value.bytes, [77]);
    let error = failure(remote.read(TensorId(666), NEVER).unwrap_err());
    assert_eq!((error.kind, error.message.as_str()), (FailureKind::Index, "no such row"));
    assert_eq!(remote.stats(NEVER).unwrap(), "windows 3");
}

#[test]
fn connections_that_drop_lose_and_repeat_nothing() {
    for seed in 1..60u64 {
        let server = Server::new();
        let remote = server.open();
        let mut random = seed;
        for turn in 0..60 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if random >> 60 == 0 {
                server.0.lock().drop_after = Some(1 + (random >> 33) as usize % 3);
            }
            if random >> 61 == 3 {
                server.lose_control();
            }
            remote.send(of(window(turn)), NEVER).unwrap();
        }
        server.0.lock().drop_after = None;
        remote.synchronize(NEVER).unwrap();
        let fake = server.0.lock();
        let sent: Vec<Window> = (0..60).map(window).map(sorted).collect();
        assert_eq!(fake.windows.iter().cloned().map(sorted).collect::<Vec<_>>(), sent, "seed {seed}");
    }
}

#[test]
fn a_forgotten_template_is_sent_again() {
    let server = Server::new();
    let remote = server.open();
    for turn in 0..3 {
        remote.send(of(window(turn)), NEVER).unwrap();
    }
    remote.synchronize(NEVER).unwrap();
    server.forget_templates();
    remote.send(of(window(3)), NEVER).unwrap();
    eventually("the template", || server.0.lock().forms.last() == Some(&"template"));
}

#[test]
fn large_payloads_go_by_the_data_connection() {
    let server = Server::new();
    let remote = server.open();
    eventually("attaching", || {
        remote.read(TensorId(1), NEVER).unwrap();
        true
    });
    remote.send(of(upload(50, 100)), NEVER).unwrap();
    remote.send(of(upload(51, 1 << 20)), NEVER).unwrap();
    remote.synchronize(NEVER).unwrap();
    eventually("the upload", || server.0.lock().uploads.contains_key(&TensorId(51)));
    let fake = server.0.lock();
    assert_eq!(fake.windows[0].uploads.len(), 1);
    assert!(fake.windows[1].uploads.is_empty());
    assert_eq!(fake.uploads[&TensorId(51)][..], vec![51u8; 1 << 20]);
}

/// Each rides inside its window, but a server takes no message of so many.
#[test]
fn many_small_payloads_made_a_message_that_no_server_takes() {
    let server = Server::new();
    let remote = server.open();
    let mut many = Window::default();
    for id in 1000..1100u64 {
        let one = upload(id, 60 << 10);
        many.uploads.extend(one.uploads.into_iter().map(|p| gt_ir::Payload { instr: id as u32 - 1000, ..p }));
        many.instrs.extend(one.instrs);
    }
    // Whole, as a definition, and by its template.
    for _ in 0..3 {
        remote.send(of(many.clone()), NEVER).unwrap();
    }
    remote.synchronize(NEVER).unwrap();
    eventually("the uploads", || server.0.lock().uploads.len() == 100);
    let fake = server.0.lock();
    assert_eq!(fake.forms, ["send", "define", "replay"]);
    for window in &fake.windows {
        assert!(window.uploads.iter().map(|p| p.bytes.len()).sum::<usize>() <= 1 << 20);
        assert_eq!(window.instrs.len(), 100);
    }
}

#[test]
fn a_client_that_runs_ahead_waits_for_credits() {
    let server = Server::new();
    server.0.lock().credits = (9, 1 << 20);
    server.0.lock().silent = true;
    let remote = Arc::new(server.open());
    for turn in 0..3 {
        remote.send(of(window(turn)), NEVER).unwrap();
    }
    assert!(remote.is_full());
    let gave_up = remote.send(of(window(3)), &|| true);
    assert!(matches!(gave_up, Err(WaitError::Interrupted)));
    let through = Arc::new(AtomicBool::new(false));
    let waiting = std::thread::spawn({
        let (remote, through) = (remote.clone(), through.clone());
        move || {
            remote.send(of(window(4)), NEVER).unwrap();
            through.store(true, Ordering::SeqCst);
        }
    });
    std::thread::sleep(Duration::from_millis(120));
    assert!(!through.load(Ordering::SeqCst));
    server.ack();
    waiting.join().unwrap();
    // The window that was given up waiting for was sent all the same.
    assert_eq!(server.0.lock().windows.len(), 5);
}

#[test]
fn a_lost_worker_names_lines_and_the_session_goes_on() {
    let server = Server::new();
    let remote = Arc::new(server.open());
    let site = gt_client::site::intern("train.py:12");
    let mut first = window(0);
    first.instrs[2].site = site;
    remote.send(of(first), NEVER).unwrap();
    remote.synchronize(NEVER).unwrap();
    server.0.lock().silent = true;
    let reader = std::thread::spawn({
        let remote = remote.clone();
        move || failure(remote.read(TensorId(102), NEVER).unwrap_err())
    });
    eventually("the read", || {
        std::thread::sleep(Duration::from_millis(20));
        true
    });
    server.say(FromServer::WorkerLost { worker: "worker_0".into(), reason: "it was killed".into() });
    let error = reader.join().unwrap();
    assert_eq!(error.kind, FailureKind::WorkerLost);
    for part in ["worker_0", "it was killed", "1 tensors", "1 from train.py:12"] {
        assert!(error.message.contains(part), "{}", error.message);
    }
    // What was lost stays lost; what comes now does not.
    server.0.lock().silent = false;
    server.say(FromServer::Home { worker: info(), from: 3 });
    assert_eq!(failure(remote.read(TensorId(102), NEVER).unwrap_err()).kind, FailureKind::WorkerLost);
    remote.send(of(window(1)), NEVER).unwrap();
    assert_eq!(remote.read(TensorId(105), NEVER).unwrap().bytes, [105]);
}

#[test]
fn a_worker_that_was_lost_while_it_was_dialed_kept_the_next_one_from_being_dialed() {
    let server = Server::new();
    server.0.lock().moves_while_dialed = true;
    let remote = server.open();
    eventually("the move", || remote.workers() == ["worker_1"]);
    let deadline = Instant::now() + Duration::from_secs(10);
    assert_eq!(remote.read(TensorId(77), &|| Instant::now() > deadline).unwrap().bytes, [77]);
}

#[test]
fn what_is_made_of_lost_values_is_lost_without_a_worker_to_say_so() {
    let server = Server::new();
    let remote = server.open();
    remote.send(of(window(0)), NEVER).unwrap();
    remote.synchronize(NEVER).unwrap();
    server.say(FromServer::WorkerLost { worker: "worker_0".into(), reason: "it left".into() });
    let made = Window { instrs: vec!["%900 = unary(%102) kind=exp".parse().unwrap()], ..Window::default() };
    remote.send(of(made), NEVER).unwrap();
    let error = failure(remote.read(TensorId(900), NEVER).unwrap_err());
    assert!(error.message.contains("worker_0 is lost (it left)"), "{}", error.message);
}

#[test]
fn a_lost_server_ends_every_wait_within_five_seconds() {
    let server = Server::new();
    let remote = Arc::new(server.open());
    remote.synchronize(NEVER).unwrap();
    server.0.lock().silent = true;
    let reader = std::thread::spawn({
        let remote = remote.clone();
        move || failure(remote.read(TensorId(1), NEVER).unwrap_err())
    });
    std::thread::sleep(Duration::from_millis(50));
    let started = Instant::now();
    server.0.lock().gone = true;
    server.lose_control();
    let error = reader.join().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(error.message.contains("lost the server at a fake"), "{}", error.message);
    // Recording goes on without a word; the next wait says why.
    remote.send(of(window(0)), NEVER).unwrap();
    assert!(failure(remote.synchronize(NEVER).unwrap_err()).message.contains("lost the server"));
}

#[test]
fn refusals_say_why() {
    let server = Server::new();
    server.0.lock().refuses = Some(Refusal::Token {});
    let error = failure(server.try_open().err().unwrap());
    assert!(error.message.contains("GT_TOKEN"), "{}", error.message);
    let absent = Server::new();
    absent.0.lock().gone = true;
    assert!(failure(absent.try_open().err().unwrap()).message.contains("cannot connect to a GT server"));
}

#[test]
fn waits_can_be_given_up() {
    let server = Server::new();
    server.0.lock().silent = true;
    let remote = server.open();
    let started = Instant::now();
    let gave_up = remote.read(TensorId(1), &|| started.elapsed() > Duration::from_millis(100));
    assert!(matches!(gave_up, Err(WaitError::Interrupted)));
}

#[test]
fn a_closed_session_says_so() {
    let server = Server::new();
    let remote = server.open();
    remote.close();
    assert!(failure(remote.synchronize(NEVER).unwrap_err()).message.contains("disconnect"));
}

#[test]
fn many_small_payloads_travel_apart_together() {
    let server = Server::new();
    let remote = server.open();
    remote.synchronize(NEVER).unwrap();
    let mut crowd = Window::default();
    for i in 0..100 {
        let one = upload(1000 + i, 60_000);
        let payload = gt_ir::Payload { instr: i as u32, ..one.uploads[0].clone() };
        crowd.instrs.extend(one.instrs);
        crowd.uploads.push(payload);
    }
    remote.send(of(crowd), NEVER).unwrap();
    remote.synchronize(NEVER).unwrap();
    eventually("the uploads", || server.0.lock().uploads.len() == 100);
    assert!(server.0.lock().windows[0].uploads.is_empty());
}

/// A payload that is lent.
const LENT: TensorId = TensorId(51);

/// A session that has sent a window whose payload is to follow.
fn expecting(server: &Server) -> Remote {
    let remote = server.open();
    eventually("attaching", || remote.lends());
    remote.send(of(Window { uploads: Vec::new(), ..upload(LENT.0, 1 << 20) }), NEVER).unwrap();
    remote
}

#[test]
fn a_lent_payload_is_there_when_the_call_returns() {
    let server = Server::new();
    let remote = expecting(&server);
    remote.lend(LENT, &[51; 1 << 20], NEVER).unwrap();
    assert_eq!(server.0.lock().uploads[&LENT][..], [51; 1 << 20]);
    // Nothing was kept that a new connection would get again.
    assert_eq!(server.0.lock().came[&LENT], 1);
}

#[test]
fn a_lent_payload_counts_against_the_credits_of_its_window() {
    let server = Server::new();
    server.0.lock().credits = (1 << 10, 1 << 20);
    server.0.lock().silent = true;
    let remote = expecting(&server);
    assert!(remote.is_full());
    server.ack();
    assert!(!remote.is_full());
}

#[test]
fn a_lent_payload_that_is_lost_with_its_connection_goes_out_again() {
    let server = Server::new();
    let remote = expecting(&server);
    server.0.lock().lose_upload = true;
    remote.lend(LENT, &[51; 1 << 20], NEVER).unwrap();
    eventually("the upload", || server.0.lock().uploads.contains_key(&LENT));
    assert_eq!(server.0.lock().uploads[&LENT][..], [51; 1 << 20]);
}

#[test]
fn who_gives_up_waiting_has_the_payload_sent_all_the_same() {
    let server = Server::new();
    let remote = expecting(&server);
    server.0.lock().silent = true;
    let gave_up = remote.lend(LENT, &[51; 1 << 20], &|| true);
    assert!(matches!(gave_up, Err(WaitError::Interrupted)), "{gave_up:?}");
    eventually("the upload", || server.0.lock().uploads.contains_key(&LENT));
}

#[test]
fn lending_to_a_session_that_has_ended_returns() {
    let server = Server::new();
    let remote = expecting(&server);
    remote.close();
    remote.lend(LENT, &[51; 1 << 20], NEVER).unwrap();
    assert!(!remote.lends());
}

#[test]
fn a_worker_that_did_not_answer_held_up_all_threads_and_could_not_be_interrupted() {
    let server = Server::new();
    server.0.lock().ignores_pins = true;
    let group = Arc::new(server.open_group());
    let far: Instr = "%1 = fill() dtype=f32 shape=[4] $ 1.0".parse().unwrap();
    let far = Instr { scope: gt_client::signal::worker(1).unwrap(), ..far };
    let interrupted = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let sender = std::thread::spawn({
        let (group, interrupted) = (group.clone(), interrupted.clone());
        move || {
            group.send(of(Window { instrs: vec![far], ..Window::default() }), &|| interrupted.load(Ordering::SeqCst))
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    assert!(!sender.is_finished(), "the server has not answered");
    let asked = Instant::now();
    let _ = (group.values(), group.traffic(), group.report(false));
    assert!(asked.elapsed() < Duration::from_secs(1), "another thread waited {:?}", asked.elapsed());
    interrupted.store(true, Ordering::SeqCst);
    let sent = sender.join().unwrap();
    assert!(matches!(sent, Err(WaitError::Interrupted)), "{sent:?} after {:?}", started.elapsed());
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    // The window was sent all the same, to where it can run.
    eventually("the window", || server.0.lock().forms.contains(&"placed"));
}
