//! `gt bench net`.
//!
//! The way is that of a session: a control connection, and a data connection to the worker that is the session's home. A server
//! gives a new session to the worker that has the fewest, so sessions are opened until every worker has had one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;
use std::sync::mpsc::{Receiver as Queue, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use gt_ir::Bytes;
use gt_net::protocol::{DataReply, DataRequest, FromServer, ToServer, WorkerInfo, decode, encode};
use gt_net::{Connection, Io, NetError, Receiver, Role, Secret, SessionKeys, SessionPass};
use gt_remote::{Dialer, Network};
use serde_json::json;

use crate::reach::{PATIENCE, ReachArgs, TokenArgs};
use crate::{size, table};

/// Sessions that may be opened to find every worker.
const MOST_SESSIONS: usize = 64;
/// How long a large body may take.
const BODY_PATIENCE: Duration = Duration::from_secs(120);

/// Measure latency and bandwidth to a server and its workers
///
/// Latency is the round-trip time of a ping to the server, or of a small message
/// that a worker sends back. Bandwidth is measured with a large message that a
/// worker sends back, and counts both directions. The server has no bandwidth
/// figure: tensors travel directly between scripts and workers.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct NetArgs {
    #[command(flatten)]
    reach: ReachArgs,

    #[command(flatten)]
    token: TokenArgs,

    /// Number of round trips to measure latency with
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Size of the message to measure bandwidth with, such as 64MiB or 1GB
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size::parse)]
    size: u64,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What one way gave.
struct Measured {
    to: String,
    address: String,
    p50: Duration,
    p99: Duration,
    bytes_per_s: Option<f64>,
}

pub(crate) fn run(args: &NetArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let io = Io::start("gt-bench")?;
    let mut found = vec![];
    let mut reached = BTreeMap::new();
    let mut sessions = Vec::new();
    loop {
        let session = Session::open(args, &io)?;
        if sessions.is_empty() {
            found.push(session.ping(args)?);
        }
        if let Entry::Vacant(first) = reached.entry(session.home.index) {
            first.insert(session.echo(args, &io)?);
        }
        let (workers, tries) = (session.workers, sessions.len() + 1);
        sessions.push(session);
        if reached.len() >= workers || tries >= MOST_SESSIONS {
            let left = workers.saturating_sub(reached.len());
            if left > 0 {
                gt_observe::say(format_args!(
                    "gt: warning: {left} workers were not measured: the server assigned none of {tries} new sessions to them"
                ));
            }
            break;
        }
    }
    found.extend(reached.into_values());
    show(args, &found, out)?;
    Ok(())
}

/// What a connection brings.
enum News {
    Head(Vec<u8>, Option<Bytes>),
    Pong(Duration),
    Closed(NetError),
}

struct Listen(Sender<News>);

impl Receiver for Listen {
    fn message(&mut self, _: &Connection, head: &[u8], body: Option<Bytes>) {
        let _ = self.0.send(News::Head(head.to_vec(), body));
    }
    fn ponged(&mut self, _: &Connection, rtt: Duration) {
        let _ = self.0.send(News::Pong(rtt));
    }
    fn closed(&mut self, _: &Connection, why: &NetError) {
        let _ = self.0.send(News::Closed(why.clone()));
    }
}

/// The next thing that comes from `who`.
fn next(news: &Queue<News>, patience: Duration, who: &str) -> anyhow::Result<News> {
    match news.recv_timeout(patience) {
        Ok(News::Closed(why)) => bail!("{who}: {why}"),
        Ok(news) => Ok(news),
        Err(_) => bail!("{who} did not answer within {patience:?}"),
    }
}

/// A session with the server; it ends with this.
struct Session {
    control: Connection,
    news: Queue<News>,
    number: u64,
    secret: Box<[u8]>,
    home: WorkerInfo,
    /// How many the server has.
    workers: usize,
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.control.send(&encode(&ToServer::Goodbye {}));
        self.control.close();
    }
}

impl Session {
    fn open(args: &NetArgs, io: &Io) -> anyhow::Result<Session> {
        let address = args.reach.address().to_string();
        let (put, news) = channel();
        let control = args.reach.connect(io, Box::new(Listen(put)))?;
        let proof = args.token.token()?.map(|token| control.prove(&token, Role::Client)).unwrap_or_default();
        let name = format!("gt bench net (process {})", std::process::id());
        control.send(&encode(&ToServer::Hello {
            proof: &proof,
            name,
            variables: Vec::new(),
            workers: 0,
            resume: None,
            pin: None,
        }))?;
        let News::Head(head, _) = next(&news, PATIENCE, &address)? else { bail!("{address} sent an unexpected reply") };
        match decode::<FromServer>(&head)? {
            FromServer::Welcome { session, secret, workers, home, .. } => {
                let home = workers.iter().find(|w| Some(w.index) == home).cloned();
                let home = home.ok_or_else(|| {
                    let port = args.reach.port;
                    anyhow!("the server at {address} has no workers. Start one with: gt worker -p {port}")
                })?;
                Ok(Session { control, news, number: session, secret, home, workers: workers.len() })
            }
            FromServer::Refused { why } => bail!("{address}: {why}"),
            _ => bail!("{address} sent an unexpected reply"),
        }
    }

    fn ping(&self, args: &NetArgs) -> anyhow::Result<Measured> {
        let address = args.reach.address().to_string();
        let mut trips = Vec::new();
        while trips.len() < args.rounds as usize {
            self.control.ping()?;
            loop {
                // The server may say how far the session has come meanwhile.
                if let News::Pong(rtt) = next(&self.news, PATIENCE, &address)? {
                    trips.push(rtt);
                    break;
                }
            }
        }
        let (p50, p99) = quantiles(trips);
        Ok(Measured { to: "server".to_string(), address, p50, p99, bytes_per_s: None })
    }

    fn echo(&self, args: &NetArgs, io: &Io) -> anyhow::Result<Measured> {
        let who = &self.home.id;
        let addresses = vec![args.reach.address()];
        let network = Network { io: io.clone(), addresses, tls: args.reach.tls()?, host: gt_net::host_id() };
        let keys = SessionKeys::of_session(&Secret::from_bytes(&self.secret));
        let pass = SessionPass { session: self.number, key: keys.peer };
        let (put, news) = channel();
        let data = network
            .data(&self.home, &pass, &|| Box::new(Listen(put.clone())), PATIENCE, &|| false)
            .context(who.clone())?;
        data.send(&encode(&DataRequest::Attach { session: self.number, key: keys.client.as_bytes(), resume: None }))?;
        let News::Head(head, _) = next(&news, PATIENCE, who)? else { bail!("{who} sent an unexpected reply") };
        match decode::<DataReply<'_>>(&head)? {
            DataReply::Attached { .. } => {}
            DataReply::Refused { reason } => bail!("{who}: {reason}"),
            _ => bail!("{who} sent an unexpected reply"),
        }
        let trip = |request: u64, body: Bytes, patience: Duration| -> anyhow::Result<Duration> {
            let len_bytes = body.len();
            let began = Instant::now();
            data.send_with_body(&encode(&DataRequest::Echo { request }), body)?;
            let News::Head(head, body) = next(&news, patience, who)? else { bail!("{who} sent an unexpected reply") };
            let took = began.elapsed();
            let same = matches!(decode(&head)?, DataReply::Echo { request: back } if back == request);
            match same && body.map_or(0, |b| b.len()) == len_bytes {
                true => Ok(took),
                false => bail!("{who} sent back a different message"),
            }
        };
        let small: Bytes = Bytes::from([0u8; 16]);
        let trips: anyhow::Result<Vec<Duration>> =
            (0..args.rounds).map(|i| trip(i as u64, small.clone(), PATIENCE)).collect();
        let (p50, p99) = quantiles(trips?);
        let body: Bytes = vec![1u8; usize::try_from(args.size)?].into();
        // The first one makes segments and pages.
        let mut best = Duration::MAX;
        for request in 0..3 {
            best = best.min(trip(request, body.clone(), BODY_PATIENCE)?);
        }
        let bytes_per_s = 2.0 * args.size as f64 / best.as_secs_f64().max(1e-9);
        let address = data.peer().address.clone();
        data.close();
        Ok(Measured { to: who.clone(), address, p50, p99, bytes_per_s: Some(bytes_per_s) })
    }
}

/// The middle and the slow end.
fn quantiles(mut trips: Vec<Duration>) -> (Duration, Duration) {
    trips.sort_unstable();
    let at = |part: usize| trips.get((trips.len() * part / 100).min(trips.len().saturating_sub(1)));
    (at(50).copied().unwrap_or_default(), at(99).copied().unwrap_or_default())
}

fn show(args: &NetArgs, found: &[Measured], out: &mut dyn Write) -> anyhow::Result<()> {
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    if args.json {
        let one = |m: &Measured| {
            json!({
                "to": m.to,
                "address": m.address,
                "latency_us": { "p50": micros(m.p50), "p99": micros(m.p99) },
                "bytes_per_s": m.bytes_per_s,
            })
        };
        let ways: Vec<_> = found.iter().map(one).collect();
        writeln!(out, "{}", json!({ "rounds": args.rounds, "body_bytes": args.size, "ways": ways }))?;
        return Ok(());
    }
    let titles = ["TO", "AT", "P50", "P99", "BANDWIDTH"];
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|m| {
            let bandwidth = m.bytes_per_s.map_or("-".to_string(), |rate| format!("{}/s", size::show(rate as u64)));
            let time = |t| format!("{:.1} µs", micros(t));
            vec![m.to.clone(), m.address.clone(), time(m.p50), time(m.p99), bandwidth]
        })
        .collect();
    table::write(out, &titles, &rows)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn quantiles_are_among_the_trips() {
        let ms = Duration::from_millis;
        assert_eq!(super::quantiles((1..=100).map(ms).rev().collect()), (ms(51), ms(100)));
        assert_eq!(super::quantiles(vec![ms(3)]), (ms(3), ms(3)));
    }
}
