//! A worker that serves: windows in all forms, reads, uploads, templates, sessions apart.

mod serving;
#[path = "../../worker/tests/support/mod.rs"]
mod support;

use gt_ir::{FailureKind, Window};
use gt_net::protocol::StreamMessage;
use serving::*;
use support::*;

/// A value named as its number, and its sum with another.
fn step(first: u64, input: Option<u64>) -> Window {
    let fill = format!("%{first} = fill() dtype=f32 shape=[2] $ {first}.0");
    let add = format!("%{} = binary(%{first}, %{}) kind=add scalar=none", first + 1, input.unwrap_or(first));
    spelled(&[&fill, &add], &[], &[])
}

#[test]
fn windows_run_in_all_three_forms_and_reads_are_answered() {
    within_time(|| {
        let stage = Stage::new();
        stage.control.open(7);
        let client = stage.attach(7);
        let control = &stage.control;
        control.send(7, 0, &step(10, None));
        control.read(7, 1, 100, 11);
        assert_eq!(client.floats(100), [20.0, 20.0]);
        let (number, template, bindings) = outline(&step(20, Some(11)));
        control.stream(7, 2, &StreamMessage::Define { number, template: &template, bindings: &bindings });
        control.read(7, 3, 101, 21);
        assert_eq!(client.floats(101), [40.0, 40.0]);
        for n in 0..3 {
            let (again, _, bindings) = outline(&step(30 + 10 * n, Some(21)));
            assert_eq!(again, number);
            control.stream(7, 4 + 2 * n, &StreamMessage::Replay { number, bindings: &bindings });
            control.read(7, 5 + 2 * n, 102, 31 + 10 * n);
            assert_eq!(client.floats(102), [70.0 + 10.0 * n as f32; 2]);
        }
        control.stream(7, 10, &StreamMessage::Synchronize { request: 103 });
        assert_eq!(client.answer(), (103, Answer::Done));
        control.stream(7, 11, &StreamMessage::Trim {});
        control.stream(7, 12, &StreamMessage::Synchronize { request: 104 });
        assert_eq!(client.answer(), (104, Answer::Done));
        control.stream(7, 13, &StreamMessage::Stats { request: 105 });
        let (105, Answer::Stats(stats)) = client.answer() else { panic!("statistics") };
        assert_eq!((stats.windows, stats.total_instructions, stats.sessions), (5, 10, 1));
        control.wait_executed(7, 14);
        assert_eq!(control.load().2, 10);
    });
}

#[test]
fn what_repeats_runs_as_its_window_would_whatever_it_is_bound_to() {
    within_time(|| {
        let stage = Stage::new();
        let control = &stage.control;
        control.open(1);
        let client = stage.attach(1);
        let values = ["%1 = fill() dtype=f32 shape=[2] $ 1.0", "%2 = fill() dtype=f32 shape=[3] $ 2.0"];
        control.send(1, 0, &spelled(&values, &[], &[]));
        let repeated = |turn: u64, input: u64, frees: &[u64]| {
            let first = 10 * turn;
            let lines = [
                format!("%{first} = upload() dtype=f32 shape=[1]"),
                format!("%{} = binary(%{first}, %{input}) kind=mul scalar=none", first + 1),
                format!("%{} = binary(%{}) kind=add scalar=right $ {turn}.0", first + 2, first + 1),
            ];
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            spelled(&lines, &[&[first, first + 1], frees].concat(), &[&[100.0 * turn as f32]])
        };
        let (number, template, bindings) = outline(&repeated(1, 1, &[]));
        control.stream(1, 1, &StreamMessage::Define { number, template: &template, bindings: &bindings });
        let mut seq = 2;
        // The same again, other types, back, a value of a turn before, which the next turn frees.
        for (turn, input, frees) in
            [(2, 1, &[][..]), (3, 1, &[12]), (4, 2, &[]), (5, 2, &[]), (6, 1, &[]), (7, 32, &[]), (8, 2, &[32])]
        {
            let (same, _, bindings) = outline(&repeated(turn, input, frees));
            assert_eq!(same, number);
            control.stream(1, seq, &StreamMessage::Replay { number, bindings: &bindings });
            control.read(1, seq + 1, turn, 10 * turn + 2);
            let n = turn as f32;
            let wanted = match input {
                1 => vec![100.0 * n + n; 2],
                2 => vec![200.0 * n + n; 3],
                _ => vec![303.0 * 100.0 * n + n; 2],
            };
            assert_eq!(client.floats(turn), wanted, "turn {turn}");
            seq += 2;
        }
        // A value that is not there harms its turn alone.
        for (turn, input) in [(9, 32), (10, 1)] {
            let (_, _, bindings) = outline(&repeated(turn, input, &[]));
            control.stream(1, seq, &StreamMessage::Replay { number, bindings: &bindings });
            control.read(1, seq + 1, turn, 10 * turn + 2);
            seq += 2;
        }
        // A failure waits until its window has ended (TABLE-3), so either may come first.
        let mut answers = [client.answer(), client.answer()];
        answers.sort_by_key(|(request, _)| *request);
        let [(9, Answer::Failed(failure)), (10, Answer::Value(value))] = &answers else { panic!("{answers:?}") };
        assert!(failure.message.contains("a worker rejected the recorded instructions"));
        assert_eq!(floats(value), [1010.0, 1010.0]);
    });
}

#[test]
fn answers_wait_for_the_client_and_large_ones_travel_as_bodies() {
    within_time(|| {
        let stage = Stage::new();
        stage.control.open(1);
        stage.control.send(1, 0, &spelled(&["%1 = fill() dtype=f32 shape=[100000] $ 2.5"], &[], &[]));
        stage.control.read(1, 1, 50, 1);
        stage.control.stream(1, 2, &StreamMessage::Synchronize { request: 51 });
        stage.control.wait_executed(1, 3);
        let client = stage.attach(1);
        let mut answers = [client.answer(), client.answer()];
        answers.sort_by_key(|(request, _)| *request);
        let [(50, Answer::Value(tensor)), (51, Answer::Done)] = &answers else { panic!("{answers:?}") };
        assert_eq!(floats(tensor), vec![2.5; 100_000]);
        // A client that comes again takes over.
        let second = stage.attach(1);
        client.line.wait_closed();
        stage.control.read(1, 3, 52, 1);
        let (52, Answer::Value(tensor)) = second.answer() else { panic!("the value") };
        assert_eq!(tensor.bytes.len(), 400_000);
    });
}

#[test]
fn uploads_come_before_or_after_their_window() {
    within_time(|| {
        let stage = Stage::new();
        stage.control.open(1);
        let client = stage.attach(1);
        let values: Vec<f32> = (0..50_000).map(|n| n as f32).collect();
        let uploads = |first: u64| {
            let lines = [
                format!("%{first} = upload() dtype=f32 shape=[50000]"),
                format!("%{} = upload() dtype=f32 shape=[2]", first + 1),
                format!("%{} = unary(%{first}) kind=neg", first + 2),
                format!("%{} = unary(%{}) kind=neg", first + 3, first + 1),
            ];
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let mut uploads = spelled(&lines, &[], &[&values, &[1.0, 2.0]]);
            uploads.uploads.remove(0);
            uploads
        };
        let negated: Vec<f32> = values.iter().map(|v| -v).collect();
        stage.control.send(1, 0, &uploads(10));
        stage.control.read(1, 1, 1, 12);
        stage.control.read(1, 2, 2, 13);
        assert!(client.line.is_silent());
        client.upload(10, bytes_of(&values));
        let mut answers = [client.answer(), client.answer()];
        answers.sort_by_key(|(request, _)| *request);
        let [(1, Answer::Value(large)), (2, Answer::Value(small))] = &answers else { panic!("{answers:?}") };
        assert_eq!((floats(large), floats(small)), (negated.clone(), vec![-1.0, -2.0]));
        // The same upload again is known, and dropped.
        client.upload(10, bytes_of(&values));
        client.upload(20, bytes_of(&values));
        assert_eq!(client.echo(9, bytes_of(&[4.0])), bytes_of(&[4.0]));
        stage.control.send(1, 3, &uploads(20));
        stage.control.read(1, 4, 3, 22);
        assert_eq!(client.floats(3), negated);
    });
}

#[test]
fn a_forgotten_template_is_asked_for_once_and_holds_the_stream() {
    within_time(|| {
        let stage = Stage::with(reference_worker(), |config| config.held.templates = 1);
        let control = &stage.control;
        control.open(1);
        control.open(2);
        let (client, other) = (stage.attach(1), stage.attach(2));
        let (first, first_template, bindings) = outline(&step(10, None));
        control.stream(1, 0, &StreamMessage::Define { number: first, template: &first_template, bindings: &bindings });
        let (second, template, bindings) = outline(&step(20, Some(11)));
        control.stream(1, 1, &StreamMessage::Define { number: second, template: &template, bindings: &bindings });
        // The first template had to go.
        let (_, _, bindings) = outline(&step(30, None));
        control.stream(1, 2, &StreamMessage::Replay { number: first, bindings: &bindings });
        let (_, _, bindings) = outline(&step(40, None));
        control.stream(1, 3, &StreamMessage::Replay { number: first, bindings: &bindings });
        control.read(1, 4, 100, 41);
        assert_eq!(control.said_otherwise(), Said::NeedTemplate(1, first));
        // The other session goes on.
        control.send(2, 0, &step(10, None));
        control.read(2, 1, 200, 11);
        assert_eq!(other.floats(200), [20.0, 20.0]);
        assert!(client.line.is_silent());
        control.stream(1, 5, &StreamMessage::Template { number: first, template: &first_template });
        assert_eq!(client.floats(100), [80.0, 80.0]);
        control.wait_executed(1, 6);
    });
}

#[test]
fn sessions_do_not_see_each_other() {
    within_time(|| {
        let stage = Stage::new();
        for session in [1, 2] {
            stage.control.open(session);
            let fill = format!("%1 = fill() dtype=f32 shape=[1] $ {session}.0");
            stage.control.send(session, 0, &spelled(&[&fill], &[], &[]));
        }
        let clients = [stage.attach(1), stage.attach(2)];
        for session in [1, 2] {
            stage.control.read(session, 1, 10 + session, 1);
            assert_eq!(clients[session as usize - 1].floats(10 + session), [session as f32]);
        }
        stage.control.tell(&gt_net::protocol::ToWorker::Close { session: 1 });
        clients[0].line.wait_closed();
        wait_until(|| stage.service.sessions() == [2]);
        stage.control.read(2, 2, 13, 1);
        assert_eq!(clients[1].floats(13), [2.0]);
        wait_until(|| stage.worker.stats().sessions == 1);
    });
}

#[test]
fn a_session_that_lost_its_worker_goes_on_from_its_next_message() {
    within_time(|| {
        let stage = Stage::new();
        let lost = gt_ir::Failure::new(FailureKind::WorkerLost, "it was on worker_3, which is gone");
        stage.control.open_from(4, 1000, &[], Some(lost.clone()));
        let client = stage.attach(4);
        let lines = [
            "%50 = fill() dtype=f32 shape=[2] $ 3.0",
            "%51 = binary(%50, %7) kind=add scalar=none",
            "%52 = unary(%50) kind=neg",
        ];
        stage.control.send(4, 1000, &spelled(&lines, &[7], &[]));
        for (seq, request, id) in [(1001, 1, 51), (1002, 2, 52), (1003, 3, 8)] {
            stage.control.read(4, seq, request, id);
        }
        // A value may come before a failure that has to wait until it is certain.
        let mut answers = [client.answer(), client.answer(), client.answer()];
        answers.sort_by_key(|(request, _)| *request);
        assert_eq!(answers[0], (1, Answer::Failed(lost.clone())));
        assert!(matches!(&answers[1], (2, Answer::Value(value)) if floats(value) == [-3.0, -3.0]));
        assert_eq!(answers[2], (3, Answer::Failed(lost)));
        stage.control.wait_executed(4, 1004);
    });
}

#[test]
fn what_has_no_room_is_held_and_runs_in_order() {
    within_time(|| {
        let (engine, gate) = Gated::new();
        let worker = gt_worker::WorkerHandle::spawn(move || engine, gt_worker::WorkerConfig::default());
        let stage = Stage::with(worker, |_| {});
        stage.control.open_from(1, 0, &[("CREDITS", "4")], None);
        let client = stage.attach(1);
        for n in 0..50u64 {
            let lines = [
                format!("%{} = fill() dtype=f32 shape=[2] $ {n}.0", 2 * n + 1),
                format!("%{} = reshape(%{}) shape=[2, 1]", 2 * n + 2, 2 * n + 1),
            ];
            let frees: &[u64] = if n == 0 { &[] } else { &[2 * n, 2 * n - 1] };
            stage.control.send(1, 2 * n, &spelled(&[&lines[0], &lines[1]], frees, &[]));
            stage.control.read(1, 2 * n + 1, n, 2 * n + 2);
        }
        gate.open();
        for n in 0..50 {
            assert_eq!(client.floats(n), [n as f32; 2]);
        }
        stage.control.wait_executed(1, 100);
    });
}

#[test]
fn reports_of_what_ran_are_rare() {
    within_time(|| {
        let stage = Stage::new();
        stage.control.open(1);
        let client = stage.attach(1);
        for n in 0..1000u64 {
            stage.control.send(1, n, &spelled(&[&format!("%{n} = fill() dtype=f32 shape=[1] $ 1.0")], &[], &[]));
        }
        stage.control.stream(1, 1000, &StreamMessage::Synchronize { request: 1 });
        assert_eq!(client.answer(), (1, Answer::Done));
        let mut reports = 0;
        loop {
            let said = stage.control.said();
            reports += 1;
            if said == Said::Executed(1, 1001) {
                break;
            }
        }
        assert!(reports < 300, "{reports} reports of 1000 windows");
    });
}
