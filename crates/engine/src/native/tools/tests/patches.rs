//! What a patch shows, asks, writes and answers.
//!
//! The invariant here: what was said is compared in its order, and the disk with what was answered.

use super::*;

const APPLIED: [&str; 3] = ["started:inProgress", "completed:completed", "diff"];

#[tokio::test]
async fn a_patch_inside_is_shown_applied_and_told_in_this_order() {
    let mut stage = Stage::new();
    let done = stage.patch("*** Add File: sub/new.txt\n+hi").await.unwrap();
    assert!(done.success);
    assert_eq!(
        done.text,
        "Success. Updated the following files:\nA sub/new.txt\n"
    );
    assert_eq!(stage.read("sub/new.txt").as_deref(), Some("hi\n"));
    assert_eq!(stage.course(), APPLIED);
    let path = stage.cwd.join("sub/new.txt").display().to_string();
    let item = |status: &str, completed: Value| {
        json!({"type": "fileChange", "id": "item_1", "status": status, "startedAtMs": NOW_MS,
            "completedAtMs": completed,
            "changes": [{"path": path, "kind": {"type": "add"}, "diff": "hi\n"}]})
    };
    let said = |at: usize| -> Value {
        let (_, item) = stage.said[at].split_once(' ').unwrap();
        serde_json::from_str(item).unwrap()
    };
    assert_eq!(said(0), item("inProgress", Value::Null));
    assert_eq!(said(1), item("completed", json!(NOW_MS)));
    // As Codex 0.166 writes it.
    let diff = "diff diff --git a/sub/new.txt b/sub/new.txt\nnew file mode 100644\n\
        index 0000000000000000000000000000000000000000..45b983be36b73c0788dc9cbcb76cbb80fc7bb057\n\
        --- /dev/null\n+++ b/sub/new.txt\n@@ -0,0 +1 @@\n+hi\n";
    assert_eq!(stage.said[2], diff);
}

#[tokio::test]
async fn a_custom_call_sends_the_bare_text() {
    let mut stage = Stage::new();
    let text = json!("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch");
    let done = stage.call("apply_patch", text, Permission::Usual).await;
    assert!(done.unwrap().success);
    assert_eq!(stage.read("a").as_deref(), Some("x\n"));
}

#[tokio::test]
async fn what_fails_verification_makes_no_item() {
    let mut stage = Stage::new();
    stage.write("a", "one\n");
    let done = stage.patch("*** Update File: a\n@@\n-two\n+three").await;
    let text = "apply_patch verification failed: Failed to find expected lines in a:\ntwo";
    assert_eq!(done, failed(text));
    let done = stage.patch("*** Delete File: b").await.unwrap();
    assert!(
        done.text
            .starts_with("apply_patch verification failed: Failed to read b: ")
    );
    assert!(stage.said.is_empty());
    for arguments in [json!({}), json!({"input": 3}), json!([]), Value::Null] {
        let done = stage
            .call("apply_patch", arguments, Permission::Usual)
            .await;
        let text = "failed to parse function arguments: `input` must be a string";
        assert_eq!(done, failed(text));
        assert!(stage.said.is_empty());
    }
    assert_eq!(stage.read("a").as_deref(), Some("one\n"));
}

#[tokio::test]
async fn the_question_shows_what_would_be_done() {
    let mut stage = Stage::with(ApprovalPolicy::Untrusted, workspace());
    stage.write("a", "one\n");
    let asked = [
        "started:inProgress",
        "asked",
        "commit",
        "completed:completed",
        "diff",
    ];
    let done = stage
        .answer(Decision::Accept)
        .patch("*** Update File: a\n*** Move to: b\n@@\n-one\n+two")
        .await;
    assert!(done.unwrap().success);
    assert_eq!(stage.course(), asked);
    let (from, to) = (stage.cwd.join("a"), stage.cwd.join("b"));
    let changes = json!([{"path": from, "kind": {"type": "update", "move_path": to},
        "diff": "@@ -1 +1 @@\n-one\n+two\n"}]);
    assert_eq!(stage.said[1], format!("asked item_1 {changes} None None"));
    stage.answer(Decision::AcceptForSession);
    let done = stage.patch("*** Add File: ../outside/x\n+x").await;
    assert!(done.unwrap().success);
    let reason = "Some(\"changes files outside of the writable folders\")";
    assert!(stage.said[1].ends_with(reason), "{}", stage.said[1]);
}

#[tokio::test]
async fn a_declined_patch_is_told_with_its_reason_and_writes_nothing() {
    let mut stage = Stage::with(ApprovalPolicy::Untrusted, workspace());
    let declined = ["started:inProgress", "asked", "completed:declined"];
    let done = stage
        .answer(Decision::Decline)
        .patch("*** Add File: a\n+x")
        .await;
    assert_eq!(done, failed("patch rejected by user"));
    assert_eq!(stage.course(), declined);
    let explained = Decided {
        reason: Some("no one answered".to_owned()),
        ..Decided::new(Decision::Decline)
    };
    stage.answer(Answer::Decide(explained));
    assert_eq!(
        stage.patch("*** Add File: a\n+x").await,
        failed("no one answered")
    );
    assert_eq!(stage.course(), declined);
    assert_eq!(stage.read("a"), None);
}

#[tokio::test]
async fn a_patch_that_nobody_decided_about_in_time_is_declined_and_fails_the_turn() {
    let mut stage = Stage::with(ApprovalPolicy::Untrusted, workspace());
    stage.answer(Answer::Decide(Decided::by_time_limit("no one answered")));
    let done = stage.patch("*** Add File: a\n+x").await;
    assert_eq!(done, Err(Stop::Unanswered));
    assert_eq!(
        stage.course(),
        ["started:inProgress", "asked", "completed:declined"]
    );
    assert_eq!(stage.read("a"), None);
}

#[tokio::test]
async fn a_decision_to_cancel_declines_the_item_and_interrupts_the_turn() {
    let mut stage = Stage::with(ApprovalPolicy::Untrusted, workspace());
    let done = stage
        .answer(Decision::Cancel)
        .patch("*** Add File: a\n+x")
        .await;
    assert_eq!(done, Err(Stop::Interrupted));
    assert_eq!(
        stage.course(),
        ["started:inProgress", "asked", "completed:declined"]
    );
    assert_eq!(stage.read("a"), None);
}

#[tokio::test]
async fn a_turn_that_is_stopped_during_the_question_writes_nothing() {
    let mut stage = Stage::with(ApprovalPolicy::Untrusted, workspace());
    let done = stage
        .answer(Answer::Stop)
        .patch("*** Add File: a\n+x")
        .await;
    let text = "aborted by user after 0.0 s; it may have partly run".to_owned();
    assert_eq!(done, Err(Stop::Cancelled(text)));
    assert_eq!(
        stage.course(),
        ["started:inProgress", "asked", "completed:failed"]
    );
    assert_eq!(stage.read("a"), None);
}

#[tokio::test]
async fn a_turn_that_is_stopped_before_writing_writes_nothing() {
    let mut stage = Stage::new();
    stage.lane.cancel.cancel(CancelReason::Interrupt);
    let done = stage.patch("*** Add File: a\n+x").await;
    assert!(matches!(done, Err(Stop::Cancelled(_))), "{done:?}");
    assert!(stage.said.is_empty());
    assert_eq!(stage.read("a"), None);
}

/// Writing is held up behind its last rename by somebody who looks at the diff.
#[tokio::test]
#[expect(
    clippy::await_holding_invalid_type,
    reason = "holding the lock up is the test"
)]
async fn a_patch_that_is_being_written_when_the_turn_is_stopped_is_finished_and_told() {
    let mut stage = Stage::new();
    let turn = Arc::clone(&stage.turn);
    let looking = turn.diff.lock().await;
    let file = stage.cwd.join("a");
    let running = stage.call_apart("*** Begin Patch\n*** Add File: a\n+x\n*** End Patch");
    let written = within("the file", DEADLINE, async {
        while !file.exists() {
            tokio::task::yield_now().await;
        }
    });
    written.await.unwrap();
    stage.lane.cancel.cancel(CancelReason::Interrupt);
    drop(looking);
    let done = within("the call", DEADLINE, running).await.unwrap();
    assert!(done.unwrap().unwrap().success);
    while let Ok(said) = stage.lane.said.try_recv() {
        stage.hear(said);
    }
    assert_eq!(stage.course(), APPLIED);
}

#[tokio::test]
async fn a_worker_that_lost_the_lane_during_the_question_writes_nothing() {
    let mut stage = Stage::with(ApprovalPolicy::Untrusted, workspace());
    let done = stage
        .answer(Answer::Fence)
        .patch("*** Add File: a\n+x")
        .await;
    assert_eq!(done, Err(Stop::Fenced));
    assert_eq!(stage.course(), ["started:inProgress", "asked", "commit"]);
    assert_eq!(stage.read("a"), None);
}

#[tokio::test]
async fn a_hook_blocks_with_its_own_text() {
    let mut stage = Stage::new();
    let blocked = || Permission::Blocked("not on a Friday".to_owned());
    let done = stage.patch_with(blocked(), "*** Add File: a\n+x").await;
    assert_eq!(done, failed("not on a Friday"));
    assert_eq!(stage.course(), ["started:inProgress", "completed:declined"]);
    // There is nothing to show of a patch that is none.
    let done = stage.patch_with(blocked(), "nonsense").await;
    assert_eq!(done, failed("not on a Friday"));
    assert!(stage.said.is_empty());
    assert_eq!(stage.read("a"), None);
}

#[tokio::test]
async fn a_hook_forces_a_question_but_no_permission() {
    let mut stage = Stage::with(ApprovalPolicy::Never, workspace());
    stage.answer(Decision::Decline);
    let done = stage
        .patch_with(Permission::Asked, "*** Add File: a\n+x")
        .await;
    assert_eq!(done, failed("patch rejected by user"));
    stage.answer(Decision::Accept);
    let done = stage
        .patch_with(Permission::Asked, "*** Add File: a\n+x")
        .await;
    assert!(done.unwrap().success);
    // What the policy refuses stays refused.
    let outside = "*** Add File: ../outside/a\n+x";
    let done = stage.patch_with(Permission::Asked, outside).await;
    assert_eq!(
        done,
        failed("refused: needs approval and approvalPolicy is never")
    );
    assert!(stage.strays().is_empty());
}

#[tokio::test]
async fn files_that_changed_during_the_question_are_not_overwritten() {
    let mut stage = Stage::with(ApprovalPolicy::Untrusted, workspace());
    for name in ["a", "b", "c"] {
        stage.write(name, "old\n");
    }
    let third = stage.cwd.join("c");
    let work = move || std::fs::write(third, "theirs\n").unwrap();
    stage.answer(Answer::After(
        Box::new(work),
        Decided::new(Decision::Accept),
    ));
    let update = |name: &str| format!("*** Update File: {name}\n@@\n-old\n+new");
    let done = stage
        .patch(&[update("a"), update("b"), update("c")].join("\n"))
        .await
        .unwrap();
    let text = "apply_patch failed: Failed to write c: the file changed after the patch was \
        verified. No files were modified.";
    assert_eq!(done.text, text);
    assert_eq!(
        stage.course(),
        ["started:inProgress", "asked", "commit", "completed:failed"]
    );
    let now = ["a", "b", "c"].map(|name| stage.read(name).unwrap());
    assert_eq!(now, ["old\n", "old\n", "theirs\n"]);
}

#[tokio::test]
async fn a_patch_behind_a_cd_starts_there() {
    let mut stage = Stage::new();
    stage.write("sub/a", "one\n");
    let text = "*** Begin Patch\n*** Update File: a\n@@\n-one\n+two\n*** End Patch";
    let called = called("exec_command", Value::Null, Permission::Usual);
    let done = patch::apply(&stage.turn, &called, Some("sub"), text).await;
    let done = done.unwrap();
    assert_eq!(done.text, "Success. Updated the following files:\nM a\n");
    assert_eq!(stage.read("sub/a").as_deref(), Some("two\n"));
    while let Ok(said) = stage.lane.said.try_recv() {
        stage.hear(said);
    }
    assert_eq!(stage.course(), APPLIED);
}

#[tokio::test]
async fn the_diff_of_the_turn_holds_all_its_patches_and_is_told_when_it_changed() {
    let mut stage = Stage::new();
    stage.write("a", "one\n");
    stage
        .patch("*** Update File: a\n@@\n-one\n+two")
        .await
        .unwrap();
    stage.patch("*** Add File: b\n+x").await.unwrap();
    assert!(stage.said[2].contains("a/a b/a") && stage.said[2].contains("a/b b/b"));
    stage
        .patch("*** Update File: a\n@@\n-two\n+one")
        .await
        .unwrap();
    assert!(!stage.said[2].contains("a/a b/a") && stage.said[2].contains("a/b b/b"));
    stage.patch("*** Delete File: b").await.unwrap();
    assert_eq!(stage.said[2], "diff ");
    // A patch that changes nothing has nothing new to tell.
    stage.patch("*** Update File: a\n@@\n one").await.unwrap();
    assert_eq!(
        stage.course(),
        ["started:inProgress", "completed:completed"]
    );
}

#[tokio::test]
async fn an_answer_to_the_model_is_cut() {
    let mut stage = Stage::new();
    stage.write("a", "one\n");
    let lines = "-not there\n".repeat(20_000);
    let done = stage
        .patch(&format!("*** Update File: a\n@@\n{lines}+x"))
        .await
        .unwrap();
    assert!(done.text.len() < 41_000, "{}", done.text.len());
    assert!(done.text.contains("tokens truncated"));
}
