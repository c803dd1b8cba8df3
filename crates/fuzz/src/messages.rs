//! Messages between processes, and the frames they travel in.

use gt_net::protocol::{
    DataReply, DataRequest, FromRelay, FromServer, FromWorker, ReadAnswer, StreamMessage, ToRelay, ToServer, ToWorker,
    decode, encode,
};
use gt_net::{Decoder, Frame};

/// Whether the bytes are a message of this type; what was understood is said again in the same words (PROTO-1).
macro_rules! round_trip {
    ($message:ident, $bytes:expr) => {{
        let Ok(message) = decode::<$message>($bytes) else { return false };
        let once = encode(&message);
        let again = decode::<$message>(&once).expect("what was encoded can be decoded");
        assert_eq!(once, encode(&again), "PROTO-1");
    }};
}

/// A message of the kind that the first byte chooses.
pub fn messages(bytes: &[u8]) -> bool {
    let Some((&kind, bytes)) = bytes.split_first() else { return false };
    match kind % 10 {
        0 => round_trip!(ToServer, bytes),
        1 => round_trip!(FromServer, bytes),
        2 => round_trip!(FromWorker, bytes),
        3 => round_trip!(ToWorker, bytes),
        4 => round_trip!(StreamMessage, bytes),
        5 => round_trip!(DataRequest, bytes),
        6 => round_trip!(ReadAnswer, bytes),
        7 => round_trip!(DataReply, bytes),
        8 => round_trip!(ToRelay, bytes),
        _ => round_trip!(FromRelay, bytes),
    }
    true
}

/// What a socket gives, in pieces whose sizes the first byte chooses.
pub fn frames(bytes: &[u8]) -> bool {
    let Some((&pieces, mut rest)) = bytes.split_first() else { return false };
    let mut decoder = Decoder::new(if pieces & 1 == 0 { 1 << 10 } else { u32::MAX });
    let mut heard = false;
    while !rest.is_empty() {
        let space = decoder.space();
        let n = (1 + pieces as usize).min(rest.len()).min(space.len());
        space[..n].copy_from_slice(&rest[..n]);
        decoder.advance(n);
        rest = &rest[n..];
        loop {
            match decoder.next() {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    heard = !matches!(frame, Frame::Greeting { .. });
                    let mut out = Vec::new();
                    frame.encode(&mut out);
                }
                Err(_) => return heard,
            }
        }
    }
    heard
}
