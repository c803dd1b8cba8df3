//! `gt status`.

use std::io::Write;
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context, bail};
use clap::Args;
use gt_dispatcher::{SessionStatus, Status};
use gt_net::protocol::{FromServer, ToServer, decode, encode};
use gt_net::{Connection, Io, NetError, Receiver, Role};

use crate::reach::{PATIENCE, ReachArgs, TokenArgs};
use crate::{size, table};

/// Show a server's workers and sessions
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    reach: ReachArgs,

    #[command(flatten)]
    token: TokenArgs,

    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &StatusArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let json = ask(args)?;
    if args.json {
        writeln!(out, "{json}")?;
        return Ok(());
    }
    let status = Status::from_json(&json).context(
        "cannot read the status: the server may run another version of GT; --json prints the status as it is",
    )?;
    show(&status, &args.reach, out)?;
    Ok(())
}

/// Waits for one message.
struct Ask(Sender<Result<FromServer, NetError>>);

impl Receiver for Ask {
    fn message(&mut self, _: &Connection, head: &[u8], _: Option<gt_ir::Bytes>) {
        let _ = self.0.send(decode(head));
    }
    fn closed(&mut self, _: &Connection, why: &NetError) {
        let _ = self.0.send(Err(why.clone()));
    }
}

fn ask(StatusArgs { reach, token, .. }: &StatusArgs) -> anyhow::Result<String> {
    let io = Io::start("gt-status")?;
    let address = reach.address();
    let (put, answers) = channel();
    let connection = reach.connect(&io, Box::new(Ask(put)))?;
    let proof = token.token()?.map(|token| connection.prove(&token, Role::Observer)).unwrap_or_default();
    connection.send(&encode(&ToServer::Observe { proof: &proof }))?;
    match answers.recv_timeout(PATIENCE) {
        Ok(Ok(FromServer::Status { json })) => Ok(json),
        Ok(Ok(FromServer::Refused { why })) => bail!("{address}: {why}"),
        Ok(Ok(_)) => bail!("{address} sent an unexpected reply"),
        Ok(Err(error)) => bail!("{address}: {error}"),
        Err(_) => bail!("{address} did not answer within {PATIENCE:?}"),
    }
}

fn show(status: &Status, reach: &ReachArgs, out: &mut dyn Write) -> std::io::Result<()> {
    let server = &status.server;
    writeln!(
        out,
        "gt server {} at {}, up {}, {} queued",
        server.version,
        server.addresses.join(" and "),
        duration(server.uptime_s),
        size::show(server.held_bytes)
    )?;
    writeln!(out)?;
    match status.workers.is_empty() {
        true => writeln!(out, "no workers; start one with: gt worker{}", reach.options())?,
        false => {
            let titles = ["WORKER", "STATE", "ENGINE", "THREADS", "MEMORY", "LIMIT", "BUSY", "SESSIONS", "UP", "HOST"];
            let rows: Vec<Vec<String>> = status
                .workers
                .iter()
                .map(|w| {
                    vec![
                        w.id.clone(),
                        w.state.clone(),
                        w.engine.clone(),
                        w.threads.to_string(),
                        size::show(w.live_bytes),
                        size::show(w.memory_limit),
                        format!("{:.0}%", w.busy * 100.0),
                        w.sessions.to_string(),
                        duration(w.age_s),
                        w.host.chars().take(12).collect(),
                    ]
                })
                .collect();
            table::write(out, &titles, &rows)?;
        }
    }
    writeln!(out)?;
    if status.sessions.is_empty() {
        return writeln!(out, "no sessions");
    }
    let titles = ["SESSION", "STATE", "HOME", "AGE", "INSTRUCTIONS", "EXECUTED", "QUEUED", "CLIENT"];
    let rows: Vec<Vec<String>> = status
        .sessions
        .iter()
        .map(|s| {
            vec![
                s.id.to_string(),
                s.state.clone(),
                home(s),
                duration(s.age_s),
                s.instructions_received.to_string(),
                s.instructions_executed.to_string(),
                size::show(s.held_bytes),
                s.name.clone(),
            ]
        })
        .collect();
    table::write(out, &titles, &rows)
}

/// Where a session lives, and on how many workers besides.
fn home(session: &SessionStatus) -> String {
    let home = session.home.clone().unwrap_or_else(|| "-".to_string());
    match session.workers.iter().filter(|worker| Some(*worker) != session.home.as_ref()).count() {
        0 => home,
        others => format!("{home} +{others}"),
    }
}

fn duration(seconds: f64) -> String {
    let s = seconds.max(0.0) as u64;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m {}s", s / 60, s % 60),
        3600..86400 => format!("{}h {}m", s / 3600, s / 60 % 60),
        _ => format!("{}d {}h", s / 86400, s / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_have_two_parts_at_most() {
        for (seconds, text) in [(0.4, "0s"), (61.0, "1m 1s"), (7260.0, "2h 1m"), (90_000.0, "1d 1h"), (-1.0, "0s")] {
            assert_eq!(duration(seconds), text);
        }
    }
}
