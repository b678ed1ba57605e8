//! What clients see of engines that ask more, do less, or leave something running.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use turnlane_engine::{
    ApprovalRequest, ApprovalSubject, BackgroundTerminal, BoxFuture, Capabilities, Engine, Sink,
    TurnControl, TurnKind, TurnOutcome, TurnRequest, TurnSettings, UsageKind,
};
use turnlane_protocol::ids::{ItemId, ThreadId};
use turnlane_protocol::input::UserInput;
use turnlane_protocol::method::EngineStatus;

use crate::support::{Client, ECHO, World, turn};

/// An engine that does what it is told in a word.
#[derive(Default)]
struct Odd {
    running: Mutex<Vec<&'static str>>,
    /// How often it was asked whether it could run; it cannot the first time.
    checks: AtomicUsize,
}

impl Odd {
    fn checks(&self) -> usize {
        self.checks.load(Ordering::SeqCst)
    }
}

fn subject(word: &str) -> ApprovalSubject {
    let value = |value: Value| value.as_object().cloned().unwrap();
    match word {
        "patch" => ApprovalSubject::FileChange {
            changes: Vec::new(),
            grant_root: Some("/w/other".to_owned()),
            escalated: true,
        },
        "permissions" => ApprovalSubject::Permissions {
            cwd: "/w".to_owned(),
            permissions: value(json!({"network": {"enabled": true}})),
        },
        _ => ApprovalSubject::Command {
            command: "cat a.txt".to_owned(),
            cwd: "/w".to_owned(),
            actions: serde_json::from_value(json!([{"type": "read", "command": "cat a.txt",
                "name": "a.txt", "path": "/w/a.txt"}]))
            .unwrap(),
            words: Some(vec!["cat".to_owned(), "a.txt".to_owned()]),
            stdin: None,
            escalated: true,
            proposed_amendment: Some(vec!["cat".to_owned()]),
        },
    }
}

async fn asking(word: &str, control: &TurnControl) -> TurnOutcome {
    let request = ApprovalRequest {
        item_id: ItemId::from("call"),
        subject: subject(word),
        reason: Some("it is needed".to_owned()),
        available_decisions: None,
    };
    let decided = control.approve(request).await;
    if decided.decision.is_accept() {
        TurnOutcome::completed()
    } else {
        TurnOutcome::interrupted()
    }
}

impl Engine for Odd {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            approvals: true,
            steer: true,
            deltas: false,
            resume: true,
            fork: false,
            compact: true,
            revert: true,
            foreign: false,
            usage: UsageKind::None,
        }
    }

    fn run_turn(
        &self,
        request: TurnRequest,
        _events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        Box::pin(async move {
            if request.kind == TurnKind::Compact {
                control.cancel.cancelled().await;
                return TurnOutcome::interrupted();
            }
            match request.input.first() {
                Some(UserInput::Text { text, .. }) if text == "fail" => TurnOutcome::lost(),
                Some(UserInput::Text { text, .. }) => asking(text, &control).await,
                _ => TurnOutcome::completed(),
            }
        })
    }

    fn check<'a>(&'a self, _settings: &'a TurnSettings) -> BoxFuture<'a, EngineStatus> {
        let ok = self.checks.fetch_add(1, Ordering::SeqCst) > 0;
        Box::pin(async move {
            EngineStatus {
                ok,
                reason: (!ok).then(|| "not yet".to_owned()),
            }
        })
    }

    fn background(&self, _thread: ThreadId) -> BoxFuture<'_, Vec<BackgroundTerminal>> {
        let running = self.running.lock().unwrap().clone();
        let terminal = |id: &str| BackgroundTerminal {
            item_id: ItemId::from("call"),
            process_id: id.to_owned(),
            command: "make".to_owned(),
            cwd: "/w".to_owned(),
        };
        Box::pin(async move { running.into_iter().map(terminal).collect() })
    }

    fn end_background(&self, _thread: ThreadId, id: Option<String>) -> BoxFuture<'_, usize> {
        let mut running = self.running.lock().unwrap();
        let before = running.len();
        running.retain(|running| id.as_ref().is_some_and(|id| id != running));
        let ended = before - running.len();
        Box::pin(async move { ended })
    }
}

async fn world(engine: &Arc<Odd>) -> World {
    World::with_engines(vec![Arc::clone(engine) as _]).await
}

/// Asks about something; the request, and the turn.
async fn asked(client: &mut Client, thread: &str, word: &str, method: &str) -> (Value, String) {
    let turn = client.turn(thread, word).await;
    let request = client.told(method, json!({"turnId": turn})).await;
    (request, turn)
}

async fn answer(client: &mut Client, request: &Value, result: Value) {
    let message = json!({"id": request["id"], "result": result});
    client.0.send(&message).await.unwrap();
}

#[tokio::test]
async fn a_command_is_asked_about_with_its_actions_and_what_could_be_allowed() {
    let world = world(&Arc::default()).await;
    let mut client = world.client().await;
    let mut watcher = world.knowing_client().await;
    let thread = client.thread().await;
    let method = "item/commandExecution/requestApproval";
    let (request, turn) = asked(&mut client, &thread, "command", method).await;
    let params = &request["params"];
    assert_eq!(params["commandActions"][0]["type"], "read");
    assert_eq!(params["commandActions"][0]["path"], "/w/a.txt");
    assert_eq!(params["proposedExecpolicyAmendment"], json!(["cat"]));
    assert_eq!(params["reason"], "it is needed");
    let amended = json!({"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["cat"]}});
    let offered = json!(["accept", "acceptForSession", amended, "decline", "cancel"]);
    assert_eq!(params["availableDecisions"], offered);

    let listed = watcher.ok("approval/list", json!({})).await;
    let listed = listed["data"][0].as_object().unwrap();
    assert_eq!(listed["availableDecisions"], offered);
    assert!(!listed.contains_key("commandActions"), "{listed:?}");

    answer(&mut client, &request, json!({"decision": amended})).await;
    assert_eq!(client.ended(&turn).await["status"], "completed");
    let again = client.turn(&thread, "command").await;
    assert_eq!(client.ended(&again).await["status"], "completed");
    let requests = client.words(0);
    let count = requests.iter().filter(|word| *word == method).count();
    assert_eq!(count, 1, "allowed from now on");
}

#[tokio::test]
async fn a_patch_is_asked_about_with_the_directory_it_wants() {
    let world = world(&Arc::default()).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let method = "item/fileChange/requestApproval";
    let (request, turn) = asked(&mut client, &thread, "patch", method).await;
    assert_eq!(request["params"]["grantRoot"], "/w/other");
    assert_eq!(request["params"]["reason"], "it is needed");
    answer(&mut client, &request, json!({"decision": "decline"})).await;
    assert_eq!(client.ended(&turn).await["status"], "interrupted");
}

#[tokio::test]
async fn permissions_are_asked_for_and_granted_in_their_own_shape() {
    let world = world(&Arc::default()).await;
    let mut client = world.client().await;
    let mut watcher = world.knowing_client().await;
    let thread = client.thread().await;
    let method = "item/permissions/requestApproval";
    let (request, turn) = asked(&mut client, &thread, "permissions", method).await;
    let wanted = json!({"network": {"enabled": true}});
    assert_eq!(request["params"]["permissions"], wanted);
    assert_eq!(request["params"]["cwd"], "/w");
    assert_eq!(request["params"].get("grantRoot"), None);
    let listed = watcher.ok("approval/list", json!({})).await;
    assert_eq!(listed["data"][0]["kind"], "permissions");
    assert_eq!(listed["data"][0]["cwd"], json!(null));
    answer(&mut client, &request, json!({"permissions": {}})).await;
    assert_eq!(client.ended(&turn).await["status"], "interrupted");

    let (request, turn) = asked(&mut client, &thread, "permissions", method).await;
    let granted = json!({"permissions": wanted, "scope": "session"});
    answer(&mut client, &request, granted).await;
    assert_eq!(client.ended(&turn).await["status"], "completed");
    let again = client.turn(&thread, "permissions").await;
    assert_eq!(client.ended(&again).await["status"], "completed");
}

#[tokio::test]
async fn an_approval_of_another_live_worker_is_refused_with_its_name() {
    let world = world(&Arc::default()).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let method = "item/commandExecution/requestApproval";
    let (request, running) = asked(&mut client, &thread, "command", method).await;
    let other = world.beside(ECHO).await;
    let mut outside = other.knowing_client().await;
    let id = &request["params"]["approvalId"];
    let listed = outside.ok("approval/list", json!({})).await;
    assert_eq!(&listed["data"][0]["approvalId"], id);
    let decide = json!({"approvalId": id, "decision": "accept"});
    let named = json!({"threadId": thread});
    for (method, params) in [
        ("approval/respond", decide),
        ("turn/start", turn(&thread, "command")),
        ("thread/resume", named),
    ] {
        let error = outside.err(method, params).await;
        let text = format!("thread {thread} already has an active writer");
        assert_eq!(error["message"], text, "{method}");
        let told = &error["data"];
        assert_eq!(told["reason"], "ownedElsewhere");
        assert_eq!(told["worker"]["pid"], std::process::id(), "{method}");
        assert!(told["worker"]["id"].is_string() && told["worker"]["host"].is_string());
        assert_eq!(told["worker"]["endpoint"], json!(null));
    }
    answer(&mut client, &request, json!({"decision": "accept"})).await;
    assert_eq!(client.ended(&running).await["status"], "completed");
}

#[tokio::test]
async fn processes_that_outlived_their_turn_are_listed_and_ended() {
    let engine = Arc::new(Odd::default());
    let world = world(&engine).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    *engine.running.lock().unwrap() = vec!["9", "10", "7"];
    let page = json!({"threadId": thread, "limit": 2});
    let listed = client.ok("thread/backgroundTerminals/list", page).await;
    let ids = |listed: &Value| -> Vec<String> {
        let all = listed["data"].as_array().unwrap().iter();
        all.map(|one| one["processId"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&listed), ["7", "9"]);
    assert_eq!(listed["data"][0]["command"], "make");
    let rest = json!({"threadId": thread, "cursor": listed["nextCursor"]});
    let rest = client.ok("thread/backgroundTerminals/list", rest).await;
    assert_eq!(ids(&rest), ["10"]);
    assert_eq!(rest["nextCursor"], json!(null));
    for terminated in [true, false] {
        let one = json!({"threadId": thread, "processId": "9"});
        let ended = client.ok("thread/backgroundTerminals/terminate", one).await;
        assert_eq!(ended["terminated"], terminated);
    }
    let all = json!({"threadId": thread});
    let clean = client.ok("thread/backgroundTerminals/clean", all).await;
    assert_eq!(clean, json!({}));
    assert_eq!(engine.running.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_good_status_is_kept_until_a_turn_fails_and_a_bad_one_is_asked_anew() {
    let engine = Arc::new(Odd::default());
    let world = world(&engine).await;
    let mut client = world.client().await;
    let started = client.ok("thread/start", json!({})).await;
    let bad = json!({"ok": false, "reason": "not yet"});
    assert_eq!(started["engineStatus"], bad);
    let thread = started["thread"]["id"].as_str().unwrap().to_owned();
    let resume = json!({"threadId": thread, "excludeTurns": true});
    for _ in 0..3 {
        let resumed = client.ok("thread/resume", resume.clone()).await;
        assert_eq!(resumed["engineStatus"], json!({"ok": true, "reason": null}));
    }
    assert_eq!(engine.checks(), 2, "the yes is kept");
    let other = json!({"model": "another"});
    client.ok("thread/start", other).await;
    assert_eq!(engine.checks(), 3, "for those settings only");
    let failed = client.turn(&thread, "fail").await;
    assert_eq!(client.ended(&failed).await["status"], "failed");
    client.ok("thread/resume", resume).await;
    assert_eq!(engine.checks(), 4);
}

#[tokio::test]
async fn what_an_engine_cannot_do_is_an_error_with_its_name() {
    let world = world(&Arc::default()).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let error = client.err("thread/fork", json!({"threadId": thread})).await;
    let text = "engine 'scripted' does not support thread/fork";
    assert_eq!(error["message"], text);
    assert_eq!(error["data"]["reason"], "unsupportedByEngine");
    assert_eq!(error["data"]["engine"], "scripted");
}

#[tokio::test]
async fn a_turn_that_shortens_the_history_takes_no_more_input() {
    let world = world(&Arc::default()).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let named = json!({"threadId": thread});
    assert_eq!(client.ok("thread/compact/start", named).await, json!({}));
    let started = client.told("turn/started", json!({})).await;
    let id = &started["params"]["turn"]["id"];
    let steer = json!({"threadId": thread, "expectedTurnId": id,
        "input": [{"type": "text", "text": "more"}]});
    let error = client.err("turn/steer", steer).await;
    assert_eq!(error["message"], "active turn cannot be steered");
    assert_eq!(error["data"]["reason"], "notSteerable");
    let kind = json!({"activeTurnNotSteerable": {"turnKind": "compact"}});
    assert_eq!(error["data"]["codexErrorInfo"], kind);
    let stop = json!({"threadId": thread, "turnId": id});
    client.ok("turn/interrupt", stop).await;
    let id = id.as_str().unwrap().to_owned();
    assert_eq!(client.ended(&id).await["status"], "interrupted");
}

#[tokio::test]
async fn a_thread_whose_last_turn_failed_still_says_so_when_it_is_loaded_again() {
    let engine = Arc::new(Odd::default());
    let first = world(&engine).await;
    let mut client = first.client().await;
    let thread = client.thread().await;
    let failed = client.turn(&thread, "fail").await;
    client.ended(&failed).await;
    drop(client);
    let world = first.restart(ECHO).await;
    let mut client = world.client().await;
    let named = json!({"threadId": thread});
    let resumed = client.ok("thread/resume", named.clone()).await;
    let error = json!({"type": "systemError"});
    assert_eq!(resumed["thread"]["status"], error);
    let turn = client.turn(&thread, "hello").await;
    client.ended(&turn).await;
    let resumed = client.ok("thread/resume", named).await;
    assert_eq!(resumed["thread"]["status"], json!({"type": "idle"}));
}
