//! Who serves a home: a small file beside its socket, for people and for those who come second.
//!
//! The invariant here: the lock of the socket decides who serves; this file only says more about that
//! process, and what it says counts only while its pid is that of the process that listens. So a file
//! that a killed daemon left misleads nobody.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use tokio::net::UnixStream;
use turnlane_rpc::listen::Listener;
use turnlane_runtime::{Clock as _, SystemClock};

/// How long one who was there first may take to be reachable.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is known of a daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Daemon {
    pid: u32,
    started_at_ms: i64,
    listen: Vec<String>,
    version: String,
    /// When the system started the process, which tells it from a later one with the same pid.
    #[serde(default)]
    process_started: Option<u64>,
}

/// The file of a daemon; dropping it removes it, unless it is a successor's by now.
pub(super) struct Record {
    home: PathBuf,
}

/// Whoever serves a home already.
#[derive(Debug, Default)]
pub(in crate::commands) struct Other {
    pub(in crate::commands) pid: Option<u32>,
    pub(in crate::commands) since_ms: Option<i64>,
    /// Where it listens besides its socket.
    pub(in crate::commands) urls: Vec<String>,
    pub(in crate::commands) version: Option<String>,
}

/// Whether a daemon serves a home, and if not, why nothing answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// No process serves it.
    Absent,
    /// This process takes connections.
    Listening(u32),
    /// This process takes connections and is stopped by a signal, so it answers nothing.
    Suspended(u32),
    /// This process was told to stop; its last turns come to their end.
    Stopping(u32),
    /// The socket may not be used by this user.
    Denied,
}

/// Finds out at once, without asking the daemon itself.
pub(crate) fn presence(home: &Path) -> Presence {
    let socket = crate::home::socket(home);
    match std::os::unix::net::UnixStream::connect(socket) {
        Ok(stream) => match socket_peercred(&stream) {
            Ok(peer) => {
                let pid = u32::try_from(peer.pid.as_raw_nonzero().get()).unwrap_or(0);
                match look(pid) {
                    Some(process) if process.is_stopped => Presence::Suspended(pid),
                    Some(_) | None => Presence::Listening(pid),
                }
            }
            Err(_) => Presence::Absent,
        },
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Presence::Denied,
        Err(_) => {
            let daemon = read(home);
            let stopping = daemon.filter(|daemon| {
                let process = look(daemon.pid);
                process.is_some_and(|process| Some(process.started) == daemon.process_started)
            });
            stopping.map_or(Presence::Absent, |daemon| Presence::Stopping(daemon.pid))
        }
    }
}

/// What the system says about a process.
struct Process {
    started: u64,
    is_stopped: bool,
}

/// Looks at a process that lives.
fn look(pid: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; behind it are state, and 19 fields later the start.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    Some(Process {
        started,
        is_stopped: matches!(state, "T" | "t"),
    })
}

/// Whether a process with this pid lives.
pub(super) fn is_alive(pid: u32) -> bool {
    look(pid).is_some()
}

fn path(home: &Path) -> PathBuf {
    home.join("run/serve.json")
}

impl Record {
    /// Says who we are, once the socket is ours. A daemon that cannot say it, on a full disk, serves
    /// all the same.
    pub(super) fn write(home: &Path, listeners: &[Listener]) -> Self {
        let daemon = Daemon {
            pid: std::process::id(),
            started_at_ms: SystemClock.now_ms(),
            listen: listeners
                .iter()
                .map(|listener| listener.bound().to_string())
                .collect(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            process_started: look(std::process::id()).map(|process| process.started),
        };
        let path = path(home);
        let new = path.with_extension("new");
        let write = || {
            let mut file = fs::OpenOptions::new();
            let file = file.write(true).create(true).truncate(true).mode(0o600);
            let mut file = file.open(&new)?;
            serde_json::to_writer(&mut file, &daemon)?;
            file.write_all(b"\n")?;
            fs::rename(&new, &path)
        };
        if let Err(error) = write() {
            tracing::warn!(%error, path = %path.display(), "who serves this home was not written");
            // Neither half of this one nor that of one before.
            let _ = fs::remove_file(&new);
            let _ = fs::remove_file(&path);
        }
        Self {
            home: home.to_owned(),
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // While our last turns came to their end, another daemon may have begun to serve.
        if read(&self.home).is_some_and(|daemon| daemon.pid == std::process::id()) {
            // One that is left does no harm.
            let _ = fs::remove_file(path(&self.home));
        }
    }
}

/// Finds out who serves the socket of a home. One that is only about to is waited for a moment.
pub(in crate::commands) async fn other(home: &Path, socket: &Path) -> Other {
    let looking = async {
        loop {
            let pid = listener_of(socket).await;
            let daemon = read(home);
            if let (Some(pid), Some(daemon)) = (pid, daemon)
                && daemon.pid == pid
            {
                return daemon;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    match tokio::time::timeout(PATIENCE, looking).await {
        Ok(daemon) => Other {
            pid: Some(daemon.pid),
            since_ms: Some(daemon.started_at_ms),
            version: Some(daemon.version),
            urls: daemon
                .listen
                .into_iter()
                .filter(|url| !url.starts_with("unix:"))
                .collect(),
        },
        Err(_) => Other {
            pid: listener_of(socket).await,
            ..Other::default()
        },
    }
}

/// Where the daemon with this pid listens, its socket first; empty where it left no record.
pub(in crate::commands) fn listening(home: &Path, pid: u32) -> Vec<String> {
    let daemon = read(home).filter(|daemon| daemon.pid == pid);
    daemon.map(|daemon| daemon.listen).unwrap_or_default()
}

/// The process that the record names, if it still lives and is of this program.
pub(in crate::commands) fn alive(home: &Path) -> Option<u32> {
    let pid = read(home)?.pid;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    // The number may belong to another program by now.
    let own = fs::read_to_string("/proc/self/comm").ok()?;
    (name == own).then_some(pid)
}

fn read(home: &Path) -> Option<Daemon> {
    let text = fs::read(path(home)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// The process that listens on a socket. One that was killed while it started a process leaves that
/// process its socket for a moment: it takes connections, and nobody serves.
async fn listener_of(socket: &Path) -> Option<u32> {
    let stream = UnixStream::connect(socket).await.ok()?;
    let pid = stream.peer_cred().ok()?.pid()?;
    let is_gone = |pid| test_kill_process(pid) == Err(Errno::SRCH);
    if Pid::from_raw(pid).is_some_and(is_gone) {
        return None;
    }
    u32::try_from(pid).ok()
}
