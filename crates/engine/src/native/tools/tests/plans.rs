//! What `update_plan` tells.
//!
//! The invariant here: a plan that cannot be read, or is not allowed, is not told.

use super::*;

#[tokio::test]
async fn a_plan_is_told_in_the_words_of_the_wire() {
    let mut stage = Stage::new();
    let arguments = json!({"explanation": "because", "unknown": true, "plan": [
        {"step": "look", "status": "completed"},
        {"step": "change", "status": "in_progress"},
        {"step": "check", "status": "pending"},
    ]});
    let done = stage
        .call("update_plan", arguments, Permission::Usual)
        .await;
    assert_eq!(done, Ok(Output::success("Plan updated")));
    let plan = json!([
        {"step": "look", "status": "completed"},
        {"step": "change", "status": "inProgress"},
        {"step": "check", "status": "pending"},
    ]);
    assert_eq!(stage.said, [format!("plan \"because\" {plan}")]);
    let done = stage
        .call("update_plan", json!({"plan": []}), Permission::Usual)
        .await;
    assert!(done.unwrap().success);
    assert_eq!(stage.said, ["plan null []"]);
}

#[tokio::test]
async fn what_is_no_plan_is_not_told() {
    let mut stage = Stage::new();
    for (arguments, why) in [
        (json!({}), "missing field `plan`"),
        (json!({"plan": [{"step": "x"}]}), "missing field `status`"),
        (
            json!({"plan": "x"}),
            "invalid type: string \"x\", expected a sequence",
        ),
    ] {
        let done = stage
            .call("update_plan", arguments, Permission::Usual)
            .await;
        assert_eq!(
            done,
            failed(&format!("failed to parse function arguments: {why}"))
        );
    }
    let odd = json!({"plan": [{"step": "x", "status": "soon"}]});
    let done = stage
        .call("update_plan", odd, Permission::Usual)
        .await
        .unwrap();
    assert!(
        done.text.contains("unknown variant `soon`"),
        "{}",
        done.text
    );
    let blocked = Permission::Blocked("no plans".to_owned());
    let done = stage
        .call("update_plan", json!({"plan": []}), blocked)
        .await;
    assert_eq!(done, failed("no plans"));
    let done = stage
        .call("update_plan", json!({"plan": []}), Permission::Asked)
        .await;
    assert_eq!(done, failed("refused: nobody can be asked about a plan"));
    assert!(stage.said.is_empty());
}
