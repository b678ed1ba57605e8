//! A socket of another user: what a person reads who may not use it.
//!
//! Both tests need two users. As root the second one is `nobody`, by `setpriv`; else they are skipped
//! aloud.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};

use tempfile::TempDir;
use turnlane_testkit::wait::DEADLINE;
use turnlane_testkit::{ProcessSpec, TestProcess};

use super::Person;
use crate::serve::Daemon;
use crate::wall::world::{NOBODY, User, can_be};

/// A home of `nobody`, and the binary where that user can read it.
struct OtherUser {
    directory: TempDir,
}

impl OtherUser {
    fn new() -> Self {
        // TMPDIR may lie below a directory of which only root may see the contents.
        let directory = tempfile::Builder::new()
            .prefix("turnlane-other-")
            .tempdir_in("/var/tmp")
            .unwrap();
        let other = Self { directory };
        fs::create_dir(other.path("home")).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_turnlane"), other.path("turnlane")).unwrap();
        // A binary that was built under a strict umask is for its owner alone.
        let everyone = fs::Permissions::from_mode(0o755);
        fs::set_permissions(other.path("turnlane"), everyone).unwrap();
        for path in [other.directory.path().to_owned(), other.path("home")] {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        other
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// The binary as this user.
    fn spec(&self, arguments: &[&str]) -> ProcessSpec {
        ProcessSpec::new("setpriv")
            .args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")])
            .args(["--clear-groups"])
            .args([self.path("turnlane").to_str().unwrap()])
            .args(arguments.iter().copied())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("TURNLANE_HOME", self.path("home/.turnlane"))
            .current_dir(self.path("home"))
    }
}

#[tokio::test]
async fn a_socket_that_may_not_be_opened_is_not_taken_for_a_missing_daemon() {
    if !can_be(User::Nobody).await {
        return;
    }
    let person = Person::new();
    let script = person.script();
    let daemon = Daemon::start(&person.home, &["--script", script.to_str().unwrap()]).await;
    let other = OtherUser::new();
    let url = format!("unix:{}", daemon.socket.display());
    let ran = crate::run(other.spec(&["thread", "list", "--server", &url])).await;
    assert_eq!(ran.status.code(), Some(1), "{}", ran.stderr_tail);
    let expected = format!(
        "{url} may not be used: Permission denied (os error 13)\n  run the command as the user who \
         owns that socket and its directory\n"
    );
    assert!(ran.stderr_tail.contains(&expected), "{}", ran.stderr_tail);
}

#[tokio::test]
async fn a_daemon_of_another_user_is_named_as_such_also_for_root() {
    if !can_be(User::Nobody).await {
        return;
    }
    let other = OtherUser::new();
    let daemon = TestProcess::start(other.spec(&["serve", "--listen", "off"])).unwrap();
    let ready = |line: &str| line.starts_with("ready");
    daemon.wait_for_stderr_line(ready, DEADLINE).await.unwrap();
    let person = Person::new();
    let socket = other.path("home/.turnlane/run/app-server.sock");
    let url = format!("unix:{}", socket.display());
    let ran = crate::run(person.spec(&["thread", "list", "--server", &url])).await;
    assert_eq!(ran.status.code(), Some(1), "{}", ran.stderr_tail);
    let expected = format!(
        "{url} serves only the user who owns it (user id {NOBODY}) and refused this user\n  run the \
         command as that user, or connect to its websocket with a token\n"
    );
    assert!(ran.stderr_tail.contains(&expected), "{}", ran.stderr_tail);
}
