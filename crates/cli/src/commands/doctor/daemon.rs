//! The daemon of a home: whether one runs, answers, and takes new work.
//!
//! The invariant here: "none runs" is said only when no process listens and the record beside the
//! socket names no living one. A daemon that was stopped, lost its socket, or belongs to another user
//! is reported as such.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::UnixStream;
use turnlane::{CallOptions, Client};
use turnlane_protocol::method::{ServerStatusAnswer, server_status};

use super::{Finding, Mark, Part};
use crate::commands::serve::record;
use crate::home;
use crate::linked::Linked;
use crate::shown::Screen;

/// How long a daemon that said hello may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Adds the finding; what the daemon says of itself where one answers.
pub(super) async fn look(
    part: &mut Part,
    home: &Path,
    screen: &Screen,
) -> Option<ServerStatusAnswer> {
    let socket = home::socket(home);
    if let Err(error) = UnixStream::connect(&socket).await {
        part.findings.push(unreachable(home, &socket, error.kind()));
        part.facts.insert("daemon".to_owned(), Value::Null);
        return None;
    }
    let other = record::other(home, &socket).await;
    let mut places = vec![socket.display().to_string()];
    places.extend(other.urls.iter().cloned());
    let pid = other
        .pid
        .map_or_else(|| "a process".to_owned(), |pid| format!("process {pid}"));
    let mut facts = json!({"pid": other.pid, "startedAtMs": other.since_ms, "listen": places});
    let asked = ask(home).await;
    facts["answers"] = json!(asked.is_some());
    let Some((version, status)) = asked else {
        part.findings.push(silent(&pid, other.pid));
        part.facts.insert("daemon".to_owned(), facts);
        return None;
    };
    facts["version"] = json!(version);
    let since = match other.since_ms {
        Some(at_ms) => format!("started {}", screen.ago(at_ms)),
        None => "an app-server, which runs what its clients load".to_owned(),
    };
    let shown = version.as_deref().unwrap_or("unknown");
    let text = format!(
        "{pid}, version {shown}, {since}, on {}",
        places.join(" and ")
    );
    part.findings.push(Finding::new(Mark::Yes, "daemon", text));
    if version
        .as_deref()
        .is_some_and(|theirs| theirs != env!("CARGO_PKG_VERSION"))
    {
        let ours = env!("CARGO_PKG_VERSION");
        let found = Finding::new(
            Mark::Fine,
            "version",
            format!("this program is version {ours}, the daemon is {shown}"),
        );
        let next = "stop the daemon and start `turnlane serve` to use the newer one";
        part.findings.push(found.next(next));
    }
    if let Some(trouble) = status.as_ref().and_then(|status| status.trouble.as_deref()) {
        part.findings
            .push(Finding::new(Mark::Fix, "health", trouble));
    }
    facts["trouble"] = json!(status.as_ref().and_then(|status| status.trouble.clone()));
    part.facts.insert("daemon".to_owned(), facts);
    status
}

/// The daemon's version and what it says of itself; none where it does not answer.
async fn ask(home: &Path) -> Option<(Option<String>, Option<ServerStatusAnswer>)> {
    let builder = Client::builder()
        .client_info("turnlane", env!("CARGO_PKG_VERSION"))
        .reviews_elsewhere();
    let linked = Linked::daemon(home, builder).await?;
    let version = linked.client.server().product_version;
    let cwd = std::env::current_dir().ok();
    let params = json!({"cwd": cwd});
    let call = linked
        .client
        .call_raw(server_status::METHOD, params, CallOptions::default());
    // A daemon of an earlier version does not know the method; its version is known all the same.
    let status = match tokio::time::timeout(ANSWER_MAX, call).await {
        Ok(answer) => answer
            .ok()
            .and_then(|answer| serde_json::from_value(answer).ok()),
        Err(_) => return None,
    };
    linked.end().await;
    Some((version, status))
}

/// No process accepted the connection.
fn unreachable(home: &Path, socket: &Path, error: ErrorKind) -> Finding {
    let shown = socket.display();
    let alive = record::alive(home);
    match (error, alive) {
        (ErrorKind::PermissionDenied, _) => Finding::new(
            Mark::Fix,
            "daemon",
            format!("{shown} does not let this user in"),
        )
        .next("use the user whose daemon it is, or another directory in TURNLANE_HOME"),
        (_, Some(pid)) => Finding::new(
            Mark::Fix,
            "daemon",
            format!("process {pid} serves this home, but its socket {shown} is gone"),
        )
        .next(format!(
            "run: kill {pid}; turnlane serve (running turns end in order first)"
        )),
        (ErrorKind::ConnectionRefused, None) => Finding::new(
            Mark::Fine,
            "daemon",
            format!("none runs: queued turns wait; {shown} is what a killed one left"),
        )
        .next("start one with `turnlane serve`, which replaces it"),
        _ => Finding::new(Mark::Fine, "daemon", "none runs: queued turns wait")
            .next("start one with `turnlane serve`"),
    }
}

/// A process takes connections and does not answer.
fn silent(named: &str, pid: Option<u32>) -> Finding {
    let stopped = pid.filter(|pid| is_stopped(*pid));
    match (stopped, pid) {
        (Some(pid), _) => Finding::new(
            Mark::Fix,
            "daemon",
            format!("process {pid} is stopped by a signal (SIGSTOP or Ctrl-Z) and runs nothing"),
        )
        .next(format!("run: kill -CONT {pid}")),
        (None, Some(pid)) => Finding::new(
            Mark::Fix,
            "daemon",
            format!("{named} takes connections and does not answer"),
        )
        .next(format!(
            "look at its log; if it stays so, run: kill {pid}; turnlane serve"
        )),
        (None, None) => Finding::new(
            Mark::Fix,
            "daemon",
            format!("{named} takes connections and does not answer"),
        )
        .next("look at its log, or start it again"),
    }
}

/// Whether a process is stopped by a signal or a debugger.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name stands in parentheses and may hold any character; the state follows it.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|state| state.starts_with('T') || state.starts_with('t'))
}
