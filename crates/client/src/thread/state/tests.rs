//! What is seen of a thread, in every order it can be seen in.

use serde_json::json;

use super::*;

fn told(method: &str, seq: Option<u64>, params: &Value) -> Event {
    Event::decode(method.to_owned(), params.to_string().as_bytes(), seq)
}

fn status(word: &str) -> Event {
    let params = json!({"threadId": "t", "status": {"type": word, "activeFlags": []}});
    told("thread/status/changed", None, &params)
}

fn turn(method: &str, id: &str) -> Event {
    let turn = json!({"id": id, "items": [], "status": "inProgress"});
    told(method, None, &json!({"threadId": "t", "turn": turn}))
}

fn known() -> (Registry, Arc<Known>) {
    let registry = Registry::default();
    let known = registry.open(&ThreadId::from("t"));
    (registry, known)
}

fn activity(known: &Known) -> Activity {
    known.activity().borrow().clone()
}

fn active(id: &str) -> Activity {
    Activity::Active(Some(TurnId::from(id)))
}

#[test]
fn activity_follows_what_the_server_tells() {
    let (registry, known) = known();
    assert_eq!(activity(&known), Activity::Unknown);
    registry.observe(&status("active"));
    assert_eq!(activity(&known), Activity::Active(None));
    registry.observe(&turn("turn/started", "a"));
    assert_eq!(activity(&known), active("a"));
    registry.observe(&status("active"));
    assert_eq!(activity(&known), active("a"));
    registry.observe(&status("idle"));
    assert_eq!(activity(&known), Activity::Idle);
    registry.observe(&turn("turn/started", "b"));
    registry.observe(&turn("turn/completed", "a"));
    assert_eq!(activity(&known), active("b"));
    registry.observe(&turn("turn/completed", "b"));
    assert_eq!(activity(&known), Activity::Idle);
    for word in ["systemError", "notLoaded"] {
        registry.observe(&status("active"));
        registry.observe(&status(word));
        assert_eq!(activity(&known), Activity::Idle);
    }
    registry.observe(&status("somethingNew"));
    assert_eq!(activity(&known), Activity::Idle);
}

#[test]
fn a_turn_that_was_not_seen_to_start_ends_all_the_same() {
    let (registry, known) = known();
    registry.observe(&status("active"));
    registry.observe(&turn("turn/completed", "a"));
    assert_eq!(activity(&known), Activity::Idle);
}

#[test]
fn events_of_other_threads_change_nothing() {
    let (registry, known) = known();
    registry.observe(&told(
        "thread/archived",
        None,
        &json!({"threadId": "other"}),
    ));
    registry.observe(&told("warning", None, &json!({"message": "x"})));
    assert!(!known.is_closed());
}

#[test]
fn an_answer_does_not_undo_what_was_told_after_it() {
    let (registry, known) = known();
    let answer = || Opened {
        activity: Some(Activity::Active(None)),
        ..Opened::default()
    };
    let words = known.words();
    registry.observe(&status("idle"));
    known.opened(answer(), words);
    assert_eq!(activity(&known), Activity::Idle);
    known.opened(answer(), known.words());
    assert_eq!(activity(&known), Activity::Active(None));
}

#[test]
fn every_end_closes() {
    for method in ["thread/archived", "thread/closed", "thread/deleted"] {
        let (registry, known) = known();
        assert!(known.check_open().is_ok());
        registry.observe(&told(method, None, &json!({"threadId": "t"})));
        assert!(known.is_closed(), "{method}");
        let refused = known.check_open().unwrap_err();
        assert_eq!(refused.to_string(), "session is closed");
    }
    let (registry, known) = known();
    registry.observe(&told("thread/unarchived", None, &json!({"threadId": "t"})));
    assert!(!known.is_closed());
}

#[tokio::test]
async fn whoever_waits_for_the_end_is_woken() {
    let (registry, known) = known();
    let waits = Arc::clone(&known);
    let waiting = tokio::spawn(async move { waits.closed().await });
    registry.observe(&told("thread/deleted", None, &json!({"threadId": "t"})));
    waiting.await.unwrap();
    known.closed().await;
}

#[test]
fn handles_share_what_is_known_until_the_thread_ends() {
    let (registry, known) = known();
    let id = ThreadId::from("t");
    assert!(Arc::ptr_eq(&known, &registry.open(&id)));
    known.close();
    let again = registry.open(&id);
    assert!(!Arc::ptr_eq(&known, &again));
    assert!(!again.is_closed());
    assert!(known.is_closed());
    assert!(Arc::ptr_eq(&again, &registry.find(&id).unwrap()));
}

#[test]
fn threads_without_a_handle_are_forgotten() {
    let registry = Registry::default();
    let kept = registry.open(&ThreadId::from("kept"));
    for number in 0..10 * PRUNE_MIN {
        drop(registry.open(&ThreadId::from(number.to_string())));
    }
    assert!(registry.threads().by_id.len() <= 2 * PRUNE_MIN);
    assert_eq!(registry.live().len(), 1);
    assert!(registry.find(&kept.id).is_some());
    assert!(registry.find(&ThreadId::from("7")).is_none());
}

#[test]
fn numbers_are_kept_with_what_they_belong_to() {
    let (registry, known) = known();
    let seen = |seq| {
        registry.observe(&told("x", Some(seq), &json!({"threadId": "t"})));
    };
    seen(3);
    assert_eq!(known.position().seq, Some(3));
    let at = |seq, epoch: &str| Opened {
        position: Some(Position {
            seq: Some(seq),
            epoch: Some(epoch.to_owned()),
        }),
        ..Opened::default()
    };
    known.opened(at(5, "e1"), 0);
    assert_eq!(
        known.position(),
        Position {
            seq: Some(5),
            epoch: Some("e1".to_owned())
        }
    );
    // A snapshot repeats the number of its cut.
    seen(5);
    seen(8);
    assert_eq!(known.position().epoch.as_deref(), Some("e1"));
    // The answer was read after events that came behind it.
    known.opened(at(6, "e1"), 0);
    assert_eq!(known.position().seq, Some(8));
    // Numbers began again: which epoch that is, nobody said.
    seen(1);
    assert_eq!(
        known.position(),
        Position {
            seq: Some(1),
            epoch: None
        }
    );
    known.opened(at(4, "e2"), 0);
    assert_eq!(known.position().seq, Some(4));
    known.opened(at(2, "e3"), 0);
    assert_eq!(known.position().seq, Some(2));
}

#[test]
fn attention_stays_once_it_was_needed() {
    let (_registry, known) = known();
    assert_eq!(known.attention(), Attention::None);
    let needed = Opened {
        attention: Attention::Needed,
        ..Opened::default()
    };
    known.opened(needed, 0);
    known.opened(Opened::default(), 0);
    assert_eq!(known.attention(), Attention::Needed);
}

#[test]
fn changed_settings_are_what_is_in_effect() {
    let (registry, known) = known();
    let before = EffectivePolicy {
        cwd: "/srv".to_owned(),
        model: "m".to_owned(),
        sandbox: json!({"type": "readOnly"}),
        ..EffectivePolicy::default()
    };
    let opened = Opened {
        effective: before,
        ..Opened::default()
    };
    known.opened(opened, 0);
    let settings = json!({"cwd": "/other", "model": 7, "approvalPolicy": "untrusted",
        "sandboxPolicy": null});
    let params = json!({"threadId": "t", "threadSettings": settings});
    registry.observe(&told("thread/settings/updated", None, &params));
    registry.observe(&told(
        "thread/settings/updated",
        None,
        &json!({"threadId": "t"}),
    ));
    let effective = known.effective();
    assert_eq!(
        (effective.cwd.as_str(), effective.model.as_str()),
        ("/other", "m")
    );
    assert_eq!(effective.approval, json!("untrusted"));
    assert_eq!(effective.sandbox, json!({"type": "readOnly"}));
}
