//! What our own server and the service of this program can do besides.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use turnlane_exec_server::client::{ClientError, Event};
use turnlane_process::{End, Signal, Survivors, Target, TerminalSize, Until};
use turnlane_protocol::exec_server::process::{ProcessState, Reason};
use turnlane_protocol::exec_server::sandbox::SandboxIntent;
use turnlane_testkit::wait::{DEADLINE, within};

use super::common::{exit_code, gone, is_alive, printed_pid, read_until};
use super::places::Place;

pub(super) async fn much_goes_through_cat_and_back(place: &Place) {
    let process = place
        .client
        .start(place.script("cat").with_stdin())
        .await
        .unwrap();
    let input: Bytes = (0..8_000_000_u32).map(|at| (at % 251) as u8).collect();
    let ran = process
        .communicate(input.clone(), Some(DEADLINE))
        .await
        .unwrap();
    let out = &ran.snapshot.stdout;
    assert_eq!((ran.exit.code, out.total_bytes), (0, input.len() as u64));
    assert!(input.starts_with(&out.head) && input.ends_with(&out.tail));
}

pub(super) async fn closing_standard_input_ends_its_reader(place: &Place) {
    let process = place
        .client
        .start(place.script("cat; exit 2").with_stdin())
        .await
        .unwrap();
    process.write("bye").await.unwrap();
    process.close_stdin().await.unwrap();
    process.close_stdin().await.unwrap();
    assert_eq!(exit_code(&process).await, 2);
    let error = process.write("late").await.unwrap_err();
    assert!(matches!(error, ClientError::StdinClosed), "{error}");
    assert_eq!(process.snapshot().await.unwrap().stdout.text(), "bye");
}

pub(super) async fn a_terminal_changes_its_size(place: &Place) {
    let spec = place.script("stty size; read x; stty size");
    let spec = spec.on_terminal(TerminalSize { rows: 11, cols: 22 });
    let process = place.client.start(spec).await.unwrap();
    let size = TerminalSize { rows: 33, cols: 44 };
    // The first line must be out before the size changes.
    let mut events = place.client.events();
    let first = async {
        let mut text = process.snapshot().await.unwrap().terminal.text();
        while !text.contains("11 22") {
            events.next().await.unwrap();
            text = process.snapshot().await.unwrap().terminal.text();
        }
    };
    within("the first size", DEADLINE, first).await.unwrap();
    process.resize(size).await.unwrap();
    process.write("\n").await.unwrap();
    exit_code(&process).await;
    let picture = process.snapshot().await.unwrap();
    assert!(picture.terminal.text().contains("33 44"), "{picture:?}");
    assert_eq!(picture.size, Some(size));
}

pub(super) async fn every_signal_arrives(place: &Place) {
    let spec = place.script(
        "trap 'echo usr1' USR1; trap 'echo hup' HUP; trap 'echo quit; exit 7' QUIT; echo ready; \
         while :; do sleep 0.02; done",
    );
    let process = place.client.start(spec).await.unwrap();
    let mut output = process.output().unwrap();
    for (signal, word) in [
        (None, "ready"),
        (Some(Signal::Usr1), "usr1"),
        (Some(Signal::Hangup), "hup"),
        (Some(Signal::Quit), "quit"),
    ] {
        if let Some(signal) = signal {
            assert!(process.signal(signal, Target::Leader).await.unwrap());
        }
        let told = within(word, DEADLINE, output.next())
            .await
            .unwrap()
            .unwrap();
        match told {
            Some(Event::Output { bytes, .. }) => assert_eq!(bytes, format!("{word}\n")),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(exit_code(&process).await, 7);
    assert!(!process.signal(Signal::Kill, Target::All).await.unwrap());
}

pub(super) async fn a_graceful_end_lets_it_speak(place: &Place) {
    let spec =
        place.script("trap 'echo bye; exit 8' TERM; echo ready; while :; do sleep 0.02; done");
    let process = place.client.start(spec).await.unwrap();
    read_until(&process, "ready").await;
    assert!(process.end(End::GRACEFUL).await.unwrap());
    let exit = process.wait(Until::Closed, Some(DEADLINE)).await.unwrap();
    assert_eq!(exit.unwrap().code, 8);
    assert!(
        process
            .snapshot()
            .await
            .unwrap()
            .stdout
            .text()
            .contains("bye")
    );
}

pub(super) async fn a_timeout_is_124(place: &Place) {
    let mut spec = place.script("exec sleep 1000");
    spec.timeout = Some(Duration::from_millis(50));
    let process = place.client.start(spec).await.unwrap();
    let exit = process.wait(Until::Closed, Some(DEADLINE)).await.unwrap();
    let exit = exit.unwrap();
    assert_eq!((exit.code, exit.reason), (124, Some(Reason::Timeout)));
}

pub(super) async fn a_limit_is_in_force(place: &Place) {
    let mut spec = place.script("ulimit -n");
    spec.limits.open_files = Some(33);
    let process = place.client.start(spec).await.unwrap();
    exit_code(&process).await;
    assert_eq!(process.snapshot().await.unwrap().stdout.text(), "33\n");
}

pub(super) async fn the_list_shows_what_runs(place: &Place) {
    let mut spec = place.script("echo $$; exec sleep 1000");
    spec.metadata = Some(json!({"turn": "t"}));
    let process = place.client.start(spec).await.unwrap();
    let pid = printed_pid(&process).await;
    assert_eq!(process.started().pid, Some(pid));
    let listed = place.client.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].process_id, process.id().as_str());
    assert_eq!(
        (listed[0].pid, listed[0].state),
        (pid, ProcessState::Running)
    );
    assert_eq!(listed[0].metadata, Some(json!({"turn": "t"})));
}

/// A script whose child outlives it, out of its session, and holds no stream.
const WITH_SURVIVOR: &str = "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!; exit 0";

pub(super) async fn survivors_live_until_they_are_ended(place: &Place) {
    let process = place
        .client
        .start(place.script(WITH_SURVIVOR))
        .await
        .unwrap();
    let pid = printed_pid(&process).await;
    assert_eq!(exit_code(&process).await, 0);
    assert!(!process.end(End::Force).await.unwrap());
    assert!(is_alive(pid), "an end after the exit leaves it alone");
    process.end_survivors().await.unwrap();
    gone(pid).await;

    let mut spec = place.script(WITH_SURVIVOR);
    spec.survivors = Survivors::End;
    let process = place.client.start(spec).await.unwrap();
    let pid = printed_pid(&process).await;
    exit_code(&process).await;
    gone(pid).await;
}

pub(super) async fn a_dropped_handle_ends_survivors_too(place: &Place) {
    let process = place
        .client
        .start(place.script(WITH_SURVIVOR))
        .await
        .unwrap();
    let pid = printed_pid(&process).await;
    assert_eq!(exit_code(&process).await, 0);
    assert!(is_alive(pid));
    drop(process);
    gone(pid).await;
}

/// Starts a tree that leaves its session, in the background; the pids of its members.
async fn tree(place: &Place, client: &turnlane_exec_server::client::ExecClient) -> [i32; 2] {
    let spec = place.script("setsid sleep 1000 & echo $! $$; sleep 1000");
    let process = client.start(spec).await.unwrap();
    let text = read_until(&process, "\n").await;
    let pids: Vec<i32> = text
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    process.into_background();
    [pids[0], pids[1]]
}

pub(super) async fn a_dropped_client_leaves_nothing(place: &Place) {
    let client = place.another().await;
    let pids = tree(place, &client).await;
    assert!(pids.into_iter().all(is_alive));
    drop(client);
    for pid in pids {
        gone(pid).await;
    }
}

pub(super) async fn a_panicking_owner_leaves_nothing(place: &Place) {
    let client = place.another().await;
    let pids = tree(place, &client).await;
    let owner = tokio::spawn(async move {
        let _owned = client;
        std::panic::resume_unwind(Box::new("the owner panics"));
    });
    assert!(owner.await.unwrap_err().is_panic());
    for pid in pids {
        gone(pid).await;
    }
}

pub(super) async fn a_sandbox_is_enforced_and_noticed(place: &Place) {
    let entry = json!({"path": {"type": "special", "value": {"kind": "root"}}, "access": "read"});
    let files = json!({"type": "restricted", "entries": [entry]});
    let mut spec = place.script("echo inside; touch made");
    spec.sandbox = Some(SandboxIntent {
        permissions: Some(
            json!({"type": "managed", "file_system": files, "network": "restricted"}),
        ),
        ..SandboxIntent::default()
    });
    let process = match place.client.start(spec).await {
        Ok(process) => process,
        // A machine without Landlock or seccomp must refuse; that is as good.
        Err(ClientError::Rpc { code, message, .. }) => {
            assert_eq!(code, -32602, "{message}");
            let said = format!("SKIPPED: no sandbox on this machine: {message}\n");
            std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes()).unwrap();
            return;
        }
        Err(other) => panic!("{other}"),
    };
    let exit = process.wait(Until::Closed, Some(DEADLINE)).await.unwrap();
    let exit = exit.unwrap();
    assert!(exit.code != 0 && exit.sandbox_denied, "{exit:?}");
    assert_eq!(process.started().is_sandboxed, Some(true));
    assert_eq!(process.snapshot().await.unwrap().stdout.text(), "inside\n");
    assert!(!place.path().join("made").exists());
}

pub(super) async fn a_refused_call_says_why(place: &Place) {
    let process = place
        .client
        .start(place.script("exec sleep 1000"))
        .await
        .unwrap();
    let size = TerminalSize { rows: 1, cols: 1 };
    match process.resize(size).await {
        Err(ClientError::Rpc { code, message, .. }) => {
            let expected = format!("process {} has no terminal", process.id());
            assert_eq!((code, message), (-32600, expected));
        }
        other => panic!("{other:?}"),
    }
    let spec = place.script("exec sleep 1000").on_terminal(size);
    let process = place.client.start(spec).await.unwrap();
    match process.close_stdin().await {
        Err(ClientError::Rpc { code, message, .. }) => {
            let expected = "stdin of a terminal cannot be closed";
            assert_eq!((code, message.as_str()), (-32600, expected));
        }
        other => panic!("{other:?}"),
    }
    match process.resize(TerminalSize { rows: 0, cols: 1 }).await {
        Err(ClientError::Rpc { code, message, .. }) => {
            let expected = "rows and cols must be 1..10000";
            assert_eq!((code, message.as_str()), (-32602, expected));
        }
        other => panic!("{other:?}"),
    }
}
