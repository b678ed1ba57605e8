//! Threads as servers write them, and as odd servers do.

use serde_json::json;

use super::*;

#[test]
fn a_thread_of_codex_is_read() {
    let thread = json!({"id": "t", "preview": "hello", "name": "n", "cwd": "/srv",
        "status": {"type": "active", "activeFlags": ["waitingOnApproval", "new"]},
        "model": "m", "modelProvider": "p", "createdAt": 1, "updatedAt": 2, "ephemeral": true,
        "forkedFromId": "s", "turns": [{"id": "u", "status": "completed"}, {"status": "x"}],
        "brandNew": {"x": 1}});
    let view: ThreadView =
        serde_json::from_value(json!({"thread": thread, "readState": null})).unwrap();
    assert_eq!(view.id().as_str(), "t");
    assert_eq!(
        view.summary,
        ThreadSummary {
            id: ThreadId::from("t"),
            preview: "hello".to_owned(),
            name: Some("n".to_owned()),
            cwd: "/srv".to_owned(),
            status: ThreadStatus::Active {
                flags: vec!["waitingOnApproval".to_owned(), "new".to_owned()]
            },
            model: Some("m".to_owned()),
            model_provider: "p".to_owned(),
            created_at: Some(1),
            updated_at: Some(2),
            ephemeral: true,
            forked_from: Some(ThreadId::from("s")),
        }
    );
    assert_eq!(view.turns.len(), 1);
}

#[test]
fn only_a_missing_id_keeps_a_thread_from_being_read() {
    let odd = json!({"id": "any text", "preview": 7, "status": "idle", "createdAt": "now",
        "ephemeral": "yes", "turns": {}});
    let summary = ThreadSummary::from_json(&odd).unwrap();
    assert_eq!(summary.status, ThreadStatus::Unknown(String::new()));
    assert_eq!(summary.created_at, None);
    assert!(!summary.ephemeral);
    for none in [
        json!(null),
        json!({}),
        json!({"id": ""}),
        json!({"id": 7}),
        json!([]),
    ] {
        assert!(ThreadSummary::from_json(&none).is_none());
        assert!(serde_json::from_value::<ThreadView>(none).is_err());
    }
}

#[test]
fn every_status_has_its_word() {
    let status = |word: &str| ThreadStatus::from_json(Some(&json!({ "type": word })));
    assert_eq!(status("notLoaded"), ThreadStatus::NotLoaded);
    assert_eq!(status("idle"), ThreadStatus::Idle);
    assert_eq!(status("systemError"), ThreadStatus::SystemError);
    assert_eq!(status("active"), ThreadStatus::Active { flags: vec![] });
    assert_eq!(status("new"), ThreadStatus::Unknown("new".to_owned()));
}

#[test]
fn pages_leave_out_what_has_no_id() {
    let page: ThreadPage = serde_json::from_value(
        json!({"data": [{"id": "a"}, {}, 7, {"id": "b"}], "nextCursor": "c", "more": 1}),
    )
    .unwrap();
    let ids: Vec<_> = page.data.iter().map(|thread| thread.id.as_str()).collect();
    assert_eq!(
        (ids, page.next_cursor.as_deref()),
        (vec!["a", "b"], Some("c"))
    );
    let ids: ThreadIdPage = serde_json::from_value(json!({"data": ["a", 7]})).unwrap();
    assert_eq!(ids.data, [ThreadId::from("a")]);
    let items = json!({"data": [
        {"turnId": "u", "item": {"id": "i", "type": "plan", "text": "x"}}, {"turnId": "u"}]});
    let items: ItemPage = serde_json::from_value(items).unwrap();
    assert_eq!(items.data.len(), 1);
    assert_eq!(items.data[0].turn.as_str(), "u");
    let turns: TurnPage = serde_json::from_value(json!({"data": null})).unwrap();
    assert!(turns.data.is_empty());
}
