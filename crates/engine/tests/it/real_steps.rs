//! Steps of a script that really happen.

use serde_json::json;
use tempfile::TempDir;
use turnlane_engine::{Decided, Engine as _, OutcomeStatus, TurnRequest};
use turnlane_process::{ContainmentKind, Options, ProcessService};
use turnlane_protocol::approval::Decision;

use crate::support::{Lane, request, steps};

fn service() -> ProcessService {
    ProcessService::start(Options {
        containment: Some(ContainmentKind::Group),
        ..Options::default()
    })
    .unwrap()
}

fn in_folder(folder: &TempDir) -> TurnRequest {
    let mut request = request("go");
    request.settings.cwd = folder.path().display().to_string();
    request
}

#[tokio::test]
async fn a_real_command_and_a_real_patch_change_files() {
    let folder = TempDir::new().unwrap();
    let patch = "*** Begin Patch\\n*** Add File: made\\n+by a patch\\n*** End Patch";
    let yaml = format!(
        "      - exec: {{cmd: 'echo hello > said; cat said', real: true}}\n      \
         - patch: {{input: \"{patch}\", real: true}}\n"
    );
    let engine = steps(&yaml).with_processes(service());
    let seen = Lane::start(engine, in_folder(&folder)).finish().await;
    assert_eq!(seen.outcome().status, OutcomeStatus::Completed);
    seen.assert_whole();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(
        (read("said"), read("made")),
        ("hello\n".to_owned(), "by a patch\n".to_owned())
    );
    let answers: Vec<_> = seen
        .entries
        .iter()
        .filter(|entry| entry.kind.as_str() == "toolOutput")
        .collect();
    assert_eq!(answers.len(), 2);
    assert!(answers[0].items.contains("Process exited with code 0"));
    assert!(answers[1].items.contains("A made"), "{}", answers[1].items);
}

#[tokio::test]
async fn a_declined_real_command_does_not_run() {
    let folder = TempDir::new().unwrap();
    let yaml = "      - approve: {cmd: touch ran, real: true, accepted: [{say: done}], \
                declined: [{say: left it}]}\n";
    for (decision, runs, says) in [
        (Decision::Decline, false, "left it"),
        (Decision::Accept, true, "done"),
    ] {
        let engine = steps(yaml).with_processes(service());
        let mut lane = Lane::start(engine, in_folder(&folder));
        lane.decision = Decided::new(decision);
        let seen = lane.finish().await;
        assert_eq!(folder.path().join("ran").exists(), runs);
        assert_eq!(seen.outcome().last_agent_message.as_deref(), Some(says));
    }
}

#[tokio::test]
async fn a_real_step_without_a_process_service_fails_the_turn() {
    let folder = TempDir::new().unwrap();
    let engine = steps("      - exec: {cmd: touch ran, real: true}\n");
    let seen = Lane::start(engine, in_folder(&folder)).finish().await;
    let outcome = seen.outcome();
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    let message = &outcome.error.as_ref().unwrap().message;
    assert!(message.contains("no process service"), "{message}");
    assert!(!folder.path().join("ran").exists());
}

#[tokio::test]
async fn a_thread_that_is_closed_runs_nothing() {
    let engine = steps("      - say: hi\n").with_processes(service());
    let thread = request("go").thread_id;
    assert!(engine.background(thread).await.is_empty());
    assert_eq!(engine.end_background(thread, None).await, 0);
    engine.close(thread).await;
    assert_eq!(json!(engine.name()), "scripted");
}
