//! Servers in a shell: how they start, how they end, what they leave behind.

mod gone;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::time::Instant;
use turnlane_testkit::wait::eventually;

use super::*;
use crate::endpoint::{Env, SpawnSpec, Supervision};
use crate::link::Connection;

/// Answers every request; dies, exits and tells on demand. It ends at the end of its input.
const SERVER: &str = include_str!("../../../tests/it/server.sh");

/// Initialises, then ignores the end of its input and SIGTERM, as its children do.
const STUBBORN: &str = include_str!("../../../tests/it/stubborn.sh");

/// A place for what servers write down.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("pids")
    }

    /// Whoever was started here, in order.
    fn pids(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        text.lines().map(|pid| pid.parse().unwrap()).collect()
    }

    fn spec(&self, script: &str) -> SpawnSpec {
        SpawnSpec {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            cwd: None,
            env: Env::InheritWith(vec![("PIDS".into(), self.path().into())]),
            supervision: Supervision::Never,
        }
    }

    fn options(&self, script: &str) -> LinkOptions {
        options(Endpoint::Spawn(self.spec(script)))
    }

    fn supervised(&self, script: &str, max_restarts: u32) -> LinkOptions {
        options(Endpoint::Spawn(SpawnSpec {
            supervision: Supervision::OnCrash {
                max_restarts,
                base: Duration::from_millis(1),
                max: Duration::from_millis(5),
            },
            ..self.spec(script)
        }))
    }

    /// Until nobody that was started here is left, zombies included.
    async fn emptied(&self, limit: Duration) {
        let pids = self.pids();
        assert!(!pids.is_empty());
        let gone = async || !pids.iter().any(|pid| is_there(*pid));
        eventually("the end of the child", limit, gone)
            .await
            .unwrap();
    }
}

fn is_there(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

async fn opened(options: LinkOptions) -> (Link, Heard) {
    let opening = open(options);
    within("a connection", DEADLINE, opening)
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_told_at_once() {
    let place = Place::new();
    let plain = place.0.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    let missing = place.0.path().join("missing");
    let rows = [
        // With its path: a search answers "permission denied" where a directory of PATH is another
        // user's.
        (missing.into_os_string(), std::io::ErrorKind::NotFound),
        (plain.into_os_string(), std::io::ErrorKind::PermissionDenied),
    ];
    for (program, kind) in rows {
        let error = refused(options(Endpoint::command(program.clone(), &[]))).await;
        assert!(
            matches!(&error, ConnectError::Spawn { program: told, source }
                if told.as_os_str() == program && source.kind() == kind),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_program_that_ends_at_its_start_is_told_at_once_with_its_last_words() {
    let place = Place::new();
    // The second leaves somebody behind who holds its output.
    for script in [
        "echo nope >&2; exit 3",
        "sleep 1000 & echo nope >&2; exit 3",
    ] {
        let error = within("the failure", 20 * SECOND, refused(place.options(script))).await;
        let ConnectError::ServerExited {
            status,
            stderr_tail,
        } = error.unwrap()
        else {
            panic!("{script}");
        };
        assert_eq!(status.unwrap().code(), Some(3), "{script}");
        assert_eq!(stderr_tail, "nope\n");
    }
}

#[tokio::test]
async fn a_program_that_closes_its_output_is_gone_though_it_runs() {
    let place = Place::new();
    let script = r#"echo $$ >> "$PIDS"; exec 1>&-; echo still here >&2; exec sleep 1000"#;
    let error = within("the failure", 20 * SECOND, refused(place.options(script))).await;
    assert!(matches!(
        error.unwrap(),
        ConnectError::ServerExited { status: None, .. }
    ));
    place.emptied(DEADLINE).await;
}

#[tokio::test]
async fn standard_error_is_always_read_and_its_end_is_kept() {
    let place = Place::new();
    // More than any pipe holds, before the answer.
    let script = format!("yes 0123456789 | head -c 1000000 >&2; echo end >&2\n{SERVER}");
    let (link, _) = opened(place.options(&script)).await;
    let report = link.shutdown(20 * SECOND).await.unwrap();
    assert_eq!(report.stderr_tail.len(), 16 * 1024);
    assert!(report.stderr_tail.ends_with("end\n"));
}

#[tokio::test]
async fn a_child_has_the_folder_and_the_environment_it_was_given() {
    let place = Place::new();
    let folder = TempDir::new().unwrap();
    let script = r#"
        read -r line
        echo "{\"id\":0,\"result\":{\"userAgent\":\"sh/1.2.3\",\"codexHome\":\"$(pwd) ${HOME-none} $OWN\"}}"
    "#;
    let own = (OsString::from("OWN"), OsString::from("mine"));
    let path = (OsString::from("PATH"), std::env::var_os("PATH").unwrap());
    let home = std::env::var("HOME").unwrap_or_else(|_| "none".to_owned());
    let rows = [
        (Env::InheritWith(vec![own.clone()]), home),
        (Env::Only(vec![own, path]), "none".to_owned()),
    ];
    for (env, home) in rows {
        let spec = SpawnSpec {
            cwd: Some(folder.path().to_owned()),
            env,
            ..place.spec(script)
        };
        let (link, _) = opened(options(Endpoint::Spawn(spec))).await;
        let here = folder.path().canonicalize().unwrap();
        let told = link.server().codex_home;
        assert_eq!(told, format!("{} {home} mine", here.display()));
    }
}

#[tokio::test]
async fn a_child_that_is_killed_is_noticed_within_a_second() {
    let place = Place::new();
    let (link, heard) = opened(place.options(SERVER)).await;
    let waiting = spawned(&link, call("wait"));
    let dying = spawned(&link, call("die"));
    for call in [waiting, dying] {
        let error = within("the end of a call", SECOND, call).await.unwrap();
        let error = error.unwrap().unwrap_err();
        assert!(
            matches!(error, CallError::Transport(TransportError::Closed { .. })),
            "{error:?}"
        );
    }
    within("the end", SECOND, heard.until("closed"))
        .await
        .unwrap();
    assert_eq!(
        heard.words(),
        ["closed: the connection was closed: the server ended: signal: 9 (SIGKILL)"]
    );
    // Later calls fail too, and at once.
    let error = link.call(call("later")).await.unwrap_err();
    assert!(matches!(error, CallError::Transport(_)));
    let report = link.shutdown(SECOND).await.unwrap();
    assert_eq!(
        (report.forced, report.status.unwrap().code()),
        (false, None)
    );
    place.emptied(DEADLINE).await;
}

#[tokio::test]
async fn a_clean_exit_is_not_restarted() {
    let place = Place::new();
    let (link, heard) = opened(place.supervised(SERVER, 3)).await;
    assert!(link.call(call("exit")).await.is_err());
    heard.until("closed").await;
    assert_eq!(
        heard.words(),
        ["closed: the connection was closed: the server ended: exit status: 0"]
    );
    assert_eq!(place.pids().len(), 1);
}

#[tokio::test]
async fn a_crash_is_restarted_and_old_handles_go_on() {
    let place = Place::new();
    let (link, heard) = opened(place.supervised(SERVER, 3)).await;
    for (crash, generation) in [("die", 2), ("fail", 3), ("silent", 4)] {
        assert!(link.call(call(crash)).await.is_err());
        // Waits for the next connection by itself.
        link.call(call("hello")).await.unwrap();
        let ready = Connection::Ready { generation };
        assert_eq!(*link.connection().borrow(), ready);
    }
    assert_eq!(
        heard.words(),
        [
            "lost",
            "reconnected 2",
            "lost",
            "reconnected 3",
            "lost",
            "reconnected 4"
        ]
    );
    assert_eq!((place.pids().len(), link.metrics().reconnects), (4, 3));
    link.close();
    place.emptied(DEADLINE).await;
}

#[tokio::test]
async fn a_child_that_keeps_crashing_is_given_up() {
    let place = Place::new();
    let (link, heard) = opened(place.supervised(SERVER, 2)).await;
    for _ in 0..2 {
        assert!(link.call(call("fail")).await.is_err());
        link.call(call("hello")).await.unwrap();
    }
    assert!(link.call(call("fail")).await.is_err());
    heard.until("closed").await;
    let last = heard.words().pop().unwrap();
    assert_eq!(
        last,
        "closed: the connection was closed: the server ended: exit status: 3; \
         it was restarted 2 times"
    );
    assert_eq!((place.pids().len(), heard.count("closed")), (3, 1));
    let error = link.call(call("later")).await.unwrap_err();
    assert!(matches!(error, CallError::Transport(_)));
}

#[tokio::test]
async fn a_server_that_ends_with_its_input_is_not_forced() {
    let place = Place::new();
    let (link, heard) = opened(place.options(SERVER)).await;
    let report = link.shutdown(20 * SECOND).await.unwrap();
    assert!(report.status.unwrap().success());
    assert!(!report.forced);
    assert_eq!(heard.count("closed"), 1);
    place.emptied(Duration::ZERO).await;
}

#[tokio::test]
async fn a_stubborn_server_is_terminated_and_then_killed() {
    let place = Place::new();
    let (link, _) = opened(place.options(STUBBORN)).await;
    let started = Instant::now();
    let report = link.shutdown(Duration::from_millis(100)).await.unwrap();
    assert!(report.forced);
    assert_eq!(report.status.unwrap().signal(), Some(9));
    // The grace, and the pause between the two signals.
    assert!(started.elapsed() >= Duration::from_millis(350));
    place.emptied(DEADLINE).await;
}

#[tokio::test]
async fn a_server_that_ignores_its_input_but_not_the_signal_is_terminated() {
    let place = Place::new();
    let script = STUBBORN.replace("trap '' TERM", "trap 'exit 7' TERM");
    let (link, _) = opened(place.options(&script)).await;
    let report = link.shutdown(Duration::from_millis(100)).await.unwrap();
    assert_eq!(
        (report.forced, report.status.unwrap().code()),
        (true, Some(7))
    );
}

#[tokio::test]
async fn a_child_that_reads_nothing_any_more_fails_its_connection() {
    let place = Place::new();
    let script = r#"
        echo $$ >> "$PIDS"
        read -r line
        echo '{"id":0,"result":{"userAgent":"sh/1.2.3"}}'
        exec 0<&-
        exec sleep 1000
    "#;
    let (link, heard) = opened(place.options(script)).await;
    // The first is lost in the pipe, and only its time tells; those after it find out.
    let brief = || Call {
        timeout: Some(Duration::from_millis(50)),
        ..call("anything")
    };
    let ended = async {
        while let Err(CallError::Timeout { .. }) = link.call(brief()).await {}
        heard.until("closed").await;
    };
    within("the end", 20 * SECOND, ended).await.unwrap();
    place.emptied(DEADLINE).await;
}
