//! A server of one's own: it ends with its owner, whatever the owner does.

use std::collections::BTreeMap;
use std::time::Duration;

use turnlane_exec_server::client::launch::{LaunchCommand, LocalServer, spawn_local_on};
use turnlane_exec_server::client::{ClientError, ClientOptions, Event, StartSpec};
use turnlane_process::{ProcessService, Until};
use turnlane_testkit::wait::{DEADLINE, within};

use super::suite::{gone, is_alive, read_until};
use crate::support::service;

fn host() -> LaunchCommand {
    LaunchCommand {
        program: env!("CARGO_BIN_EXE_exec_host").into(),
        args: vec!["stdio".into()],
        env: BTreeMap::new(),
    }
}

fn options() -> ClientOptions {
    ClientOptions::new("a test")
}

/// A server with a tree of two that leaves its session; the pids of all three.
async fn with_a_tree(service: &ProcessService) -> (LocalServer, [i32; 3]) {
    let local = spawn_local_on(service, host(), options()).await.unwrap();
    let script = "setsid sleep 1000 & echo $! $$; sleep 1000";
    let path = std::env::var("PATH").unwrap();
    let spec = StartSpec::new(["/bin/sh", "-c", script], "/").env("PATH", path);
    let process = local.client.start(spec).await.unwrap();
    let text = read_until(&process, "\n").await;
    let pids: Vec<i32> = text
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    process.into_background();
    let server = local.info().pid;
    (local, [server, pids[0], pids[1]])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_local_server_leaves_nothing() {
    let service = service();
    let (local, pids) = with_a_tree(&service).await;
    assert!(pids.into_iter().all(is_alive));
    let client = local.client.clone();
    drop(local);
    for pid in pids {
        gone(pid).await;
    }
    let mut events = client.events();
    let ended = within("the connection to end", DEADLINE, async {
        while events.next().await.is_some() {}
    });
    ended.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panicking_owner_of_a_local_server_leaves_nothing() {
    let service = service();
    let (local, pids) = with_a_tree(&service).await;
    let owner = tokio::spawn(async move {
        let _owned = local;
        std::panic::resume_unwind(Box::new("the owner panics"));
    });
    assert!(owner.await.unwrap_err().is_panic());
    for pid in pids {
        gone(pid).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_pending_calls_end_when_the_server_is_killed() {
    let service = service();
    let (local, [server, first, second]) = with_a_tree(&service).await;
    let mut events = local.client.events();
    let path = std::env::var("PATH").unwrap();
    let spec = StartSpec::new(["/bin/sh", "-c", "exec sleep 1000"], "/").env("PATH", path);
    let process = local.client.start(spec.clone().with_stdin()).await.unwrap();
    let mut output = process.output().unwrap();
    let asking = async {
        tokio::join!(
            process.wait(Until::Exited, None),
            // More than the process and every queue on the way will take.
            process.write(vec![0; 8 * 1024 * 1024]),
            output.next(),
        )
    };
    let killing = async {
        // Pending by then: the write was begun before the answer to this came.
        local.client.list().await.unwrap();
        let pid = rustix::process::Pid::from_raw(server).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    };
    let ended = within("every call to end", DEADLINE, async {
        tokio::join!(asking, killing).0
    });
    let (waited, written, read) = ended.await.unwrap();
    assert!(
        matches!(waited, Err(ClientError::Closed { .. })),
        "{waited:?}"
    );
    assert!(
        matches!(written, Err(ClientError::Closed { .. })),
        "{written:?}"
    );
    assert!(matches!(read, Err(ClientError::Closed { .. })), "{read:?}");
    let error = local.client.start(spec).await.unwrap_err();
    assert!(matches!(error, ClientError::Closed { .. }), "{error}");
    assert!(matches!(
        events.next().await,
        Some(Event::Disconnected { .. })
    ));
    for pid in [server, first, second] {
        gone(pid).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_no_server_is_ended_again() {
    let service = service();
    let silent = LaunchCommand {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), "sleep 1000 & cat >/dev/null".into()],
        env: BTreeMap::new(),
    };
    let short = ClientOptions {
        initialize_timeout: Duration::from_millis(200),
        ..options()
    };
    let error = spawn_local_on(&service, silent, short).await.unwrap_err();
    assert!(
        matches!(error, ClientError::InitializeTimeout { .. }),
        "{error}"
    );
    for listed in service.list() {
        gone(listed.info.pid).await;
    }

    let leaving = LaunchCommand {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), "echo wrong usage >&2; exit 2".into()],
        env: BTreeMap::new(),
    };
    let error = spawn_local_on(&service, leaving, options()).await;
    let error = error.unwrap_err();
    assert!(matches!(error, ClientError::Closed { .. }), "{error}");

    let missing = LaunchCommand {
        program: "/no/such/program".into(),
        ..LaunchCommand::default()
    };
    let error = spawn_local_on(&service, missing, options()).await;
    assert!(matches!(error, Err(ClientError::Spawn(_))));
}
