//! Large values over lines that break: what has come does not come again.

mod serving;
#[path = "../../worker/tests/support/mod.rs"]
mod support;

use std::time::Duration;

use gt_ir::TensorId;
use gt_net::Address;
use gt_net::protocol::{DataRequest, Resumption, WHOLE, encode};
use serving::proxy::Proxy;
use serving::*;
use support::*;

fn stage() -> (Stage, Address) {
    let stage = Stage::with(reference_worker(), |config| config.listen_host = Some("127.0.0.1".to_string()));
    stage.control.open(1);
    let address = stage.service.info().tcp.as_ref().unwrap().parse().unwrap();
    (stage, address)
}

/// A client that comes again, and says what it has.
fn come(address: &Address, resume: Option<Resumption>) -> FakeClient {
    let client = FakeClient::connect_to(address, None);
    client.ask(&DataRequest::Attach { session: 1, key: &client_key(), resume });
    client
}

fn awaiting(requests: u64, awaited: &[(u64, u64)]) -> Option<Resumption> {
    Some(Resumption { requests, awaited: awaited.to_vec(), uploads: Vec::new() })
}

fn waiting_for(id: u64) -> Option<Resumption> {
    Some(Resumption { requests: 0, awaited: Vec::new(), uploads: vec![TensorId(id), TensorId(99)] })
}

#[test]
fn of_an_answer_that_came_in_part_the_rest_is_sent() {
    within_time(|| {
        let (stage, address) = stage();
        let client = come(&address, None);
        client.wait_attached();
        stage.control.send(1, 0, &spelled(&["%1 = fill() dtype=f32 shape=[100000] $ 2.0"], &[], &[]));
        for request in [11, 12, 13] {
            stage.control.read(1, request - 10, request, 1);
            assert_eq!(client.floats(request).len(), 100_000);
        }
        drop(client);
        // It has the first, of the second a part, and has not heard of the third when it says so.
        let client = come(&address, awaiting(13, &[(12, 100_001)]));
        client.wait_attached();
        let (request, before, rest) = client.rest();
        assert_eq!((request, before, rest.len()), (12, 100_001, 299_999));
        assert_eq!(rest[3..], bytes_of(&[2.0; 74_999])[..]);
        assert_eq!(client.floats(13).len(), 100_000);
        client.ask(&DataRequest::Got { request: 12 });
        client.ask(&DataRequest::Got { request: 13 });
        assert_eq!(*client.echo(1, vec![1].into()), [1]);
        drop(client);
        let client = come(&address, None);
        client.wait_attached();
        assert_eq!(*client.echo(2, vec![2].into()), [2], "nothing of it is kept any more");
    });
}

#[test]
fn an_answer_larger_than_all_that_may_be_kept_is_kept_while_it_is_on_its_way() {
    within_time(|| {
        let change = |config: &mut gt_serve::ServeConfig| {
            config.listen_host = Some("127.0.0.1".to_string());
            config.held.sent_bytes = 1000;
        };
        let stage = Stage::with(reference_worker(), change);
        stage.control.open(1);
        let address = stage.service.info().tcp.as_ref().unwrap().parse().unwrap();
        let client = come(&address, None);
        client.wait_attached();
        stage.control.send(1, 0, &spelled(&["%1 = fill() dtype=f32 shape=[100000] $ 2.0"], &[], &[]));
        stage.control.send(1, 1, &spelled(&["%2 = fill() dtype=f32 shape=[2] $ 6.0"], &[], &[]));
        // Many small ones after it take its place from nobody.
        stage.control.read(1, 2, 1, 1);
        assert_eq!(client.floats(1).len(), 100_000);
        for request in 2..400 {
            stage.control.read(1, request + 1, request, 2);
            assert_eq!(client.floats(request), [6.0, 6.0]);
        }
        drop(client);
        let client = come(&address, awaiting(400, &[(1, 0)]));
        client.wait_attached();
        assert_eq!(client.floats(1).len(), 100_000);
    });
}

#[test]
fn of_an_upload_that_came_in_part_the_rest_is_taken_once() {
    within_time(|| {
        let (stage, address) = stage();
        let Address::Tcp { port, .. } = &address else { panic!("it listens at a port") };
        let proxy = Proxy::cutting(*port, 300_000);
        let through: Address = format!("127.0.0.1:{}", proxy.port).parse().unwrap();
        let values: Vec<f32> = (0..1 << 20).map(|n| n as f32).collect();
        let bytes = bytes_of(&values);
        stage.control.send(1, 0, &spelled(&["%1 = upload() dtype=f32 shape=[1048576]"], &[], &[]));
        let (mut had, mut lines) = (0, 0);
        loop {
            let client = come(&through, waiting_for(1));
            let said = client.attached();
            let has = said.first().map_or(0, |(id, has)| if *id == TensorId(1) { *has } else { panic!("{said:?}") });
            assert!(has >= had, "what has come is kept: {had}, {has}");
            had = has;
            if had == WHOLE {
                break;
            }
            let upload = encode(&DataRequest::Upload { id: TensorId(1) });
            let sent = match had {
                0 => client.line.connection.send_with_body(&upload, bytes.clone()),
                from => {
                    let rest = encode(&DataRequest::Rest { from, message: &upload });
                    client.line.connection.send_with_rest(&rest, bytes.clone(), from as usize)
                }
            };
            sent.unwrap();
            // Until the line breaks, or all has left.
            let line = &client.line.connection;
            wait_until(|| !line.is_open() || line.queued_bytes() == 0);
            std::thread::sleep(Duration::from_millis(20));
            lines += 1;
            assert!(lines < 60, "it goes on");
        }
        assert!(lines > 4, "the line hardly broke");
        let client = come(&address, waiting_for(1));
        assert_eq!(client.attached(), [(TensorId(1), WHOLE)]);
        // Once more, whole and in part: nothing of it is applied.
        client.upload(1, bytes_of(&vec![-1.0; 1 << 20]));
        let message = encode(&DataRequest::Upload { id: TensorId(1) });
        let again = encode(&DataRequest::Rest { from: 4, message: &message });
        client.line.connection.send_with_body(&again, bytes_of(&[-1.0; 9])).unwrap();
        stage.control.read(1, 1, 7, 1);
        assert_eq!(client.floats(7), values);
        stage.control.wait_executed(1, 2);
    });
}

#[test]
fn a_rest_whose_beginning_is_not_here_ends_the_connection_and_nothing_else() {
    within_time(|| {
        let (stage, address) = stage();
        stage.control.send(1, 0, &spelled(&["%1 = upload() dtype=f32 shape=[2]"], &[], &[]));
        let client = come(&address, None);
        client.wait_attached();
        let message = encode(&DataRequest::Upload { id: TensorId(1) });
        let rest = encode(&DataRequest::Rest { from: 4, message: &message });
        client.line.connection.send_with_body(&rest, bytes_of(&[1.0])).unwrap();
        client.line.wait_closed();
        let client = come(&address, waiting_for(1));
        client.wait_attached();
        let wrong = encode(&DataRequest::Rest { from: 4, message: &encode(&DataRequest::Got { request: 1 }) });
        client.line.connection.send_with_body(&wrong, bytes_of(&[1.0])).unwrap();
        assert!(client.refusal().contains("only uploads"));
        let client = come(&address, None);
        client.wait_attached();
        client.upload(1, bytes_of(&[1.0, 2.0]));
        stage.control.read(1, 1, 7, 1);
        assert_eq!(client.floats(7), [1.0, 2.0]);
    });
}
