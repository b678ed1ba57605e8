//! A planted key in files, patches, paths, plans and reasons.
//!
//! The invariant here: it is said nowhere. The stage looks for it in everything that was said.

use super::*;

#[tokio::test]
async fn a_key_in_files_and_patches_is_said_nowhere() {
    let mut stage = Stage::with(ApprovalPolicy::Untrusted, workspace());
    stage.write("a", &format!("key = {KEY}\nold\n"));
    for patch in [
        "*** Update File: a\n@@\n-old\n+new".to_owned(),
        format!("*** Add File: {KEY}.txt\n+{KEY}"),
        format!("*** Update File: a\n*** Move to: {KEY}\n@@\n key = {KEY}\n-new\n+newer"),
        format!("*** Delete File: {KEY}"),
    ] {
        let done = stage.answer(Decision::Accept).patch(&patch).await.unwrap();
        assert!(done.success, "{}", done.text);
        let said = stage.said.join("\n");
        assert!(said.contains("[redacted]"), "{said}");
    }
    // The file itself holds it.
    assert_eq!(stage.read(format!("{KEY}.txt")), Some(format!("{KEY}\n")));
    stage.write("a", "x\n");
    let done = stage
        .patch(&format!("*** Update File: a\n@@\n-{KEY}\n+x"))
        .await
        .unwrap();
    assert!(done.text.ends_with("in a:\n[redacted]"), "{}", done.text);
    let refused = Decided {
        reason: Some(format!("not {KEY}")),
        ..Decided::new(Decision::Decline)
    };
    stage.answer(Answer::Decide(refused));
    let done = stage.patch("*** Add File: b\n+x").await.unwrap();
    assert_eq!(done.text, "not [redacted]");
}

#[tokio::test]
async fn a_key_in_plans_and_pictures_is_said_nowhere() {
    let mut stage = Stage::new();
    let plan = json!({"explanation": KEY, "plan": [{"step": KEY, "status": "pending"}]});
    stage
        .call("update_plan", plan, Permission::Usual)
        .await
        .unwrap();
    assert!(stage.said[0].contains("[redacted]"));
    let odd = json!({"plan": [{"step": "x", "status": KEY}]});
    let done = stage
        .call("update_plan", odd, Permission::Usual)
        .await
        .unwrap();
    assert!(done.text.contains("[redacted]"));
    let path = json!({"path": format!("{KEY}.png")});
    let done = stage
        .call("view_image", path.clone(), Permission::Usual)
        .await
        .unwrap();
    assert!(done.text.starts_with("[redacted].png: "));
    std::fs::write(stage.cwd.join(format!("{KEY}.png")), b"GIF89a").unwrap();
    stage.answer(Decision::Accept);
    let done = stage
        .call("view_image", path, Permission::Asked)
        .await
        .unwrap();
    assert!(done.success);
}
