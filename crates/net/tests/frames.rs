//! The frame decoder against everything that may come from outside (FRAME-1 to FRAME-4).

use gt_net::{Decoder, Frame, NetError};
use proptest::prelude::*;

const MAX_HEAD: u32 = 1000;

/// Feeds bytes in pieces and says what came out, ending at the first error.
fn decode(bytes: &[u8], pieces: &[usize]) -> (Vec<String>, Option<NetError>) {
    let mut decoder = Decoder::new(MAX_HEAD);
    let mut out: Vec<String> = Vec::new();
    let mut rest = bytes;
    let mut sizes = pieces.iter().copied().cycle();
    while !rest.is_empty() {
        let space = decoder.space();
        let n = sizes.next().unwrap_or(usize::MAX).clamp(1, rest.len()).min(space.len());
        space[..n].copy_from_slice(&rest[..n]);
        decoder.advance(n);
        rest = &rest[n..];
        loop {
            match decoder.next() {
                Ok(None) => break,
                // How a part is cut depends on the pieces; the bytes of the body do not.
                Ok(Some(Frame::Part { stream, bytes })) => out.extend(bytes.iter().map(|b| format!("{stream}: {b}"))),
                Ok(Some(frame)) => out.push(format!("{frame:?}")),
                // What it quotes is what had come by then.
                Err(NetError::NotGt { reason }) if pieces != [usize::MAX] => {
                    assert!(reason.starts_with("it starts with"));
                    return (out, Some(NetError::NotGt { reason: String::new() }));
                }
                Err(error) => return (out, Some(error)),
            }
        }
    }
    (out, None)
}

fn greeting() -> Vec<u8> {
    let mut out = Vec::new();
    Frame::Greeting { features: 1 }.encode(&mut out);
    out
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..60);
    let encode = |f: Frame<'_>| {
        let mut out = Vec::new();
        f.encode(&mut out);
        out
    };
    prop_oneof![
        bytes.clone().prop_map(move |b| encode(Frame::Head(&b))),
        (any::<u32>(), any::<u64>(), bytes.clone()).prop_map(move |(stream, len, b)| encode(Frame::Open {
            stream,
            len,
            head: &b
        })),
        (any::<u32>(), bytes).prop_map(move |(stream, b)| encode(Frame::Part { stream, bytes: &b })),
        any::<u32>().prop_map(move |stream| encode(Frame::Abort { stream })),
        (any::<u8>(), any::<u32>()).prop_map(move |(segment, len)| encode(Frame::Share { segment, len })),
        (any::<u32>(), any::<u8>(), any::<u32>()).prop_map(move |(stream, segment, len)| encode(Frame::Filled {
            stream,
            segment,
            len
        })),
        any::<u8>().prop_map(move |segment| encode(Frame::Release { segment })),
        any::<u64>().prop_map(move |n| encode(Frame::Ping(n))),
        any::<u64>().prop_map(move |n| encode(Frame::Pong(n))),
        (any::<u32>(), any::<u64>()).prop_map(move |(head, body)| encode(Frame::Allow { head, body })),
        any::<[u8; 32]>().prop_map(move |nonce| encode(Frame::Challenge { nonce })),
        "\\PC{0,20}".prop_map(move |reason| encode(Frame::Close { reason: &reason })),
    ]
}

proptest! {
    #[test]
    fn frames_are_the_same_however_they_are_cut(
        frames in prop::collection::vec(frame(), 0..12),
        pieces in prop::collection::vec(1usize..40, 1..8),
    ) {
        let bytes = [greeting(), frames.concat()].concat();
        let whole = decode(&bytes, &[usize::MAX]);
        prop_assert_eq!(&whole.1, &None);
        prop_assert_eq!(decode(&bytes, &pieces), whole);
    }

    #[test]
    fn random_bytes_do_no_harm(
        greeted in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        pieces in prop::collection::vec(1usize..40, 1..4),
    ) {
        let bytes = if greeted { [greeting(), bytes].concat() } else { bytes };
        prop_assert_eq!(decode(&bytes, &pieces), decode(&bytes, &[1]));
    }

    #[test]
    fn a_changed_byte_does_no_harm(frames in prop::collection::vec(frame(), 1..8), at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let mut bytes = [greeting(), frames.concat()].concat();
        let at = at.index(bytes.len());
        bytes[at] = to;
        prop_assert_eq!(decode(&bytes, &[3]), decode(&bytes, &[1]));
    }
}

/// The seed corpus: inputs that have to end in a certain error.
#[test]
fn known_bad_inputs_are_named() {
    let after_greeting = |bytes: &[u8]| [greeting(), bytes.to_vec()].concat();
    let mut future = greeting();
    future[8] = 9;
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("a browser", b"GET / HTTP/1.1\r\n".to_vec(), "does not speak the GT protocol"),
        ("TLS to a plain port", vec![0x16, 3, 1, 2, 0], "does not speak the GT protocol"),
        ("one wrong byte", vec![b'x'], "does not speak the GT protocol"),
        ("a later version", future, "version 9"),
        ("no such kind", after_greeting(&[99, 0, 0, 0, 0]), "unknown frame kind 99"),
        ("kind zero", after_greeting(&[0; 5]), "unknown frame kind 0"),
        ("an absurd head", after_greeting(&[1, 255, 255, 255, 255]), "announces 4294967295 bytes, but 0 to 1000"),
        ("one byte too long", after_greeting(&[1, 0xe9, 3, 0, 0]), "announces 1001 bytes"),
        ("a body's head too short", after_greeting(&[2, 11, 0, 0, 0]), "announces 11 bytes"),
        ("an absurd part", after_greeting(&[3, 0, 0, 0, 0x80]), "announces 2147483648 bytes"),
        ("a release with no number", after_greeting(&[7, 0, 0, 0, 0]), "1 to 1 are allowed"),
        ("a reason that is no text", after_greeting(&[11, 2, 0, 0, 0, 0xff, 0xfe]), "not UTF-8 text"),
    ];
    for (name, bytes, expected) in cases {
        for piece in [1, 7, usize::MAX] {
            let (_, error) = decode(&bytes, &[piece]);
            let error = error.unwrap_or_else(|| panic!("{name}: no error")).to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }
}

#[test]
fn what_is_not_gt_is_quoted() {
    let (_, error) = decode(b"GET / HTTP/1.1\r\n", &[usize::MAX]);
    assert!(error.unwrap().to_string().contains("\"GET / HTTP/1.1"));
}

/// FRAME-3: a head that is announced and does not come costs what has come.
#[test]
fn a_stated_length_reserves_nothing() {
    let mut decoder = Decoder::new(u32::MAX);
    let bytes = [greeting(), vec![1, 0xff, 0xff, 0xff, 0xff], vec![0; 5000]].concat();
    for chunk in bytes.chunks(1000) {
        let space = decoder.space();
        assert!(space.len() <= 64 << 10, "{} bytes of room for {} that came", space.len(), bytes.len());
        space[..chunk.len()].copy_from_slice(chunk);
        decoder.advance(chunk.len());
        while let Some(frame) = decoder.next().unwrap() {
            assert!(matches!(frame, Frame::Greeting { .. }));
        }
    }
}
