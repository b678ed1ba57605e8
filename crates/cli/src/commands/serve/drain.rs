//! The second socket of a daemon that stops: clients reach its last turns there.
//!
//! A stopping daemon gives its own socket away, so that the next daemon can start at once. Its lanes run
//! until the grace is over, and only the process that owns a lane can decide its approvals or interrupt
//! its turn. Therefore the daemon listens on `run/drain-PID.sock` until its last lane has ended.
//!
//! The invariant here: the drain socket is bound before the daemon gives its own socket away, so there is
//! no moment in which the owner of a running turn cannot be reached. The pid in the name keeps two
//! daemons that drain at the same time apart.
//!
//! Which call goes to which process is decided in `session::draining`.

use std::fs;
use std::path::{Path, PathBuf};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use turnlane_rpc::listen::{ListenUrl, Listener};
use turnlane_server::Door;

use super::record::is_alive;
use crate::args::AuthArgs;
use crate::commands::app_server::listening::bind_one;
use crate::config::ServerConfig;
use crate::home;

/// The drain socket while it is served.
pub(super) struct DrainSocket {
    path: PathBuf,
    shut: CancellationToken,
    serving: JoinHandle<()>,
}

impl DrainSocket {
    /// Listens on the drain socket of this process. A daemon that cannot do that stops all the same,
    /// and clients that are connected keep their connections.
    pub(super) async fn open(
        door: &Door,
        home: &Path,
        config: &ServerConfig,
        auth: &AuthArgs,
    ) -> Option<Self> {
        let path = home::drain_socket(home, std::process::id());
        let url = ListenUrl::Unix(Some(path.clone()));
        let listener: Listener = match bind_one(&url, home, config, auth).await {
            Ok(listener) => listener?,
            Err(error) => {
                tracing::warn!(
                    "running turns cannot be reached by new clients while they end: {error:#}"
                );
                return None;
            }
        };
        let shut = CancellationToken::new();
        let (door, until) = (door.clone(), shut.clone());
        let serving = tokio::spawn(async move { door.run_listener(listener, until).await });
        Some(Self {
            path,
            shut,
            serving,
        })
    }

    /// Stops listening and removes the files.
    pub(super) async fn close(self) {
        self.shut.cancel();
        // The task ends with its listener, which removes the socket file.
        let _ = self.serving.await;
        // No other process uses a name with this pid, so the lock file is not needed again.
        let _ = fs::remove_file(lock_file(&self.path));
    }
}

fn lock_file(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Removes the drain sockets of processes that were killed while they stopped. Only the daemon that
/// holds the socket of the home calls it.
pub(super) fn remove_leftovers(home: &Path) {
    let directory = home::drain_socket(home, 0);
    let entries = directory.parent().map(fs::read_dir);
    for entry in entries.into_iter().flatten().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(home::drain_pid);
        if pid.is_some_and(|pid| !is_alive(pid)) {
            // One that stays does no harm: it refuses connections.
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_sockets_of_dead_processes_are_removed_and_those_of_others_stay() {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().join("run");
        fs::create_dir(&run).unwrap();
        // Process ids are below 2^22, so the second one never lives.
        let alive = home::drain_socket(home.path(), std::process::id());
        let dead = home::drain_socket(home.path(), 1 << 30);
        let other = run.join("drain-x.sock");
        let files = [&alive, &dead, &lock_file(&dead), &other];
        for file in files {
            fs::write(file, "").unwrap();
        }
        remove_leftovers(home.path());
        let left = files.map(|file| file.exists());
        assert_eq!(left, [true, false, false, true]);
    }
}
