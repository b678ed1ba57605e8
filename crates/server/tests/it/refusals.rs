//! Refusals that need more than bad params: the state of a thread, its engine, its owner, the load.
//!
//! Together with `errors` this is the table of the contract. Not here, since what causes it is not
//! built yet: `blockedByHook`, `hook/trust`'s `localOnly` (hooks), the
//! turn kind `review` of `notSteerable` (reviews). `diskFull` is in `full_disk`, `bindingInUse` in
//! `bindings`.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use turnlane_engine::scripted::Scripted;
use turnlane_engine::{
    BoxFuture, Capabilities, Engine, Sink, TurnControl, TurnKind, TurnOutcome, TurnRequest,
};

use crate::support::{ECHO, World, scripted, turn};

const HELD: &str = "version: 1
turns:
  - match: hold
    steps:
      - await: {gate: go}
      - say: done
fallback: {say: \"You said: {input}\"}
";

/// Plays a script and lacks what it is told to lack; compactions take until they are let go.
struct Lacking {
    name: &'static str,
    plays: Scripted,
    able: bool,
    let_go: Arc<Semaphore>,
}

impl Engine for Lacking {
    fn name(&self) -> &str {
        self.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            steer: self.able,
            fork: self.able,
            compact: self.able,
            revert: self.able,
            ..self.plays.capabilities()
        }
    }

    fn run_turn(
        &self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        let waits = request.kind == TurnKind::Compact;
        let let_go = Arc::clone(&self.let_go);
        let run = self.plays.run_turn(request, events, control);
        Box::pin(async move {
            if waits {
                drop(let_go.acquire().await);
            }
            run.await
        })
    }
}

/// A world with the engines `scripted`, whose compactions are held, and `simple`, which can
/// neither be steered nor forked.
async fn world() -> (World, Arc<Semaphore>, turnlane_engine::scripted::Gates) {
    let let_go = Arc::new(Semaphore::new(0));
    let engine = |name, able| Lacking {
        name,
        plays: scripted(HELD),
        able,
        let_go: Arc::clone(&let_go),
    };
    let simple = engine("simple", false);
    let gates = simple.plays.gates();
    let engines: Vec<Arc<dyn Engine>> = vec![Arc::new(engine("scripted", true)), Arc::new(simple)];
    (World::with_engines(engines).await, let_go, gates)
}

#[track_caller]
fn refused(error: &Value, code: i64, message: &str, data: &Value) {
    assert_eq!(error["message"], message);
    assert_eq!(error["code"], code, "{error}");
    assert_eq!(&error["data"], data, "{error}");
}

fn unsteerable(kind: &str) -> Value {
    let info = json!({"activeTurnNotSteerable": {"turnKind": kind}});
    json!({"reason": "notSteerable", "codexErrorInfo": info})
}

fn steer(thread: &str, turn: &str) -> Value {
    let input = json!([{"type": "text", "text": "more"}]);
    json!({"threadId": thread, "expectedTurnId": turn, "input": input})
}

#[tokio::test]
async fn a_compaction_cannot_be_steered() {
    let (world, let_go, _) = world().await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let id = client.turn(&thread, "hello").await;
    client.ended(&id).await;
    let named = json!({"threadId": thread});
    let from = client.0.received().len();
    client.ok("thread/compact/start", named).await;
    let begun = client.0.find("the compaction", |message| {
        message["method"] == "turn/started" && message["params"]["turn"]["id"] != id.as_str()
    });
    let compaction = begun.await.unwrap()["params"]["turn"]["id"].clone();
    let compaction = compaction.as_str().unwrap();
    for (method, params) in [
        ("turn/steer", steer(&thread, compaction)),
        ("turn/start", turn(&thread, "more")),
    ] {
        let error = client.err(method, params).await;
        let text = "active turn cannot be steered";
        refused(&error, -32600, text, &unsteerable("compact"));
    }
    let mut busy = turn(&thread, "more");
    busy["whenBusy"] = json!("reject");
    let error = client.err("turn/start", busy).await;
    let text = "thread already has an active or pending turn";
    let data = json!({"reason": "busy", "turnId": compaction});
    refused(&error, -32600, text, &data);
    let_go.add_permits(1);
    assert_eq!(client.ended(compaction).await["status"], "completed");
    let items = client.0.received()[from..].iter();
    let items = items.filter(|message| message["method"] == "item/completed");
    let types: Vec<_> = items
        .map(|done| done["params"]["item"]["type"].clone())
        .collect();
    assert_eq!(types, ["contextCompaction"]);
}

#[tokio::test]
async fn what_an_engine_cannot_do_is_said() {
    let (world, _, gates) = world().await;
    let mut client = world.client().await;
    let started = client.ok("thread/start", json!({"engine": "simple"})).await;
    let thread = started["thread"]["id"].as_str().unwrap().to_owned();
    let id = client.turn(&thread, "hold").await;
    for (method, params) in [
        ("turn/steer", steer(&thread, &id)),
        ("turn/start", turn(&thread, "more")),
    ] {
        let error = client.err(method, params).await;
        let text = "active turn cannot be steered";
        refused(&error, -32600, text, &unsteerable("engine"));
    }
    gates.open("go");
    client.ended(&id).await;
    let before = client.ok("thread/read", read(&thread)).await;
    for (method, params) in [
        ("thread/fork", json!({"threadId": thread})),
        ("thread/compact/start", json!({"threadId": thread})),
        (
            "thread/rollback",
            json!({"threadId": thread, "numTurns": 1}),
        ),
        (
            "thread/revert",
            json!({"threadId": thread, "beforeTurnId": id}),
        ),
    ] {
        let error = client.err(method, params).await;
        let text = format!("engine 'simple' does not support {method}");
        let data = json!({"reason": "unsupportedByEngine", "engine": "simple"});
        refused(&error, -32600, &text, &data);
    }
    // Nothing was changed.
    assert_eq!(client.ok("thread/read", read(&thread)).await, before);
}

fn read(thread: &str) -> Value {
    json!({"threadId": thread, "includeTurns": true})
}

#[tokio::test]
async fn a_thread_of_another_live_worker_is_refused_with_its_name() {
    let ours = World::start(HELD).await;
    let theirs = ours.beside(HELD).await;
    let mut owner = ours.client().await;
    let mut other = theirs.client().await;
    let thread = owner.thread().await;
    let id = owner.turn(&thread, "hold").await;
    let named = json!({"threadId": thread});
    for (method, params) in [
        ("thread/resume", named.clone()),
        ("turn/start", turn(&thread, "mine")),
        ("turn/steer", steer(&thread, &id)),
        ("turn/interrupt", json!({"threadId": thread, "turnId": id})),
        ("turn/interrupt", json!({"threadId": thread, "turnId": ""})),
        ("thread/archive", named.clone()),
        ("thread/delete", named.clone()),
        ("thread/name/set", json!({"threadId": thread, "name": "n"})),
        ("thread/compact/start", named.clone()),
        (
            "thread/revert",
            json!({"threadId": thread, "beforeTurnId": id}),
        ),
    ] {
        let error = other.err(method, params).await;
        let text = format!("thread {thread} already has an active writer");
        assert_eq!(error["message"], text, "{method}");
        assert_eq!(error["code"], -32600, "{method}");
        assert_eq!(error["data"]["reason"], "ownedElsewhere", "{method}");
        let worker = &error["data"]["worker"];
        assert!(worker["id"].is_string(), "{method}: {error}");
        assert_eq!(worker["pid"], std::process::id(), "{method}: {error}");
        assert!(worker["host"].is_string(), "{method}: {error}");
    }
    // Everybody may look, and a row may be added.
    let read = other.ok("thread/read", named).await;
    assert_eq!(read["thread"]["id"], thread.as_str());
    let mut row = turn(&thread, "a row");
    row["whenBusy"] = json!("queue");
    let row = other.ok("turn/start", row).await;
    ours.gates.open("go");
    owner.ended(&id).await;
    owner.ended(row["turn"]["id"].as_str().unwrap()).await;
}

#[tokio::test]
async fn a_turn_that_waits_is_not_interrupted_and_an_archived_thread_not_used() {
    let world = World::start(HELD).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let id = client.turn(&thread, "hold").await;
    let mut row = turn(&thread, "a row");
    row["whenBusy"] = json!("queue");
    let row = client.ok("turn/start", row).await["turn"]["id"].clone();
    let stop = json!({"threadId": thread, "turnId": row});
    let error = client.err("turn/interrupt", stop).await;
    let text = "turn is queued; remove it with thread/queue/delete";
    refused(&error, -32600, text, &json!({"reason": "queued"}));
    world.gates.open("go");
    client.ended(&id).await;
    client.ended(row.as_str().unwrap()).await;

    let named = json!({"threadId": thread});
    client.ok("thread/archive", named.clone()).await;
    let text = format!(
        "session {thread} is archived. Run `turnlane unarchive {thread}` to unarchive it first."
    );
    for (method, params) in [
        ("thread/resume", named.clone()),
        ("turn/start", turn(&thread, "x")),
        ("thread/compact/start", named.clone()),
    ] {
        let error = client.err(method, params).await;
        refused(&error, -32600, &text, &json!({"reason": "archived"}));
    }
    let error = client.err("thread/archive", named).await;
    assert_eq!(error["data"]["reason"], "threadNotFound", "{error}");
}

#[tokio::test]
async fn a_lane_takes_so_many_steers_and_then_says_to_come_later() {
    let world = World::start(HELD).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let id = client.turn(&thread, "hold").await;
    world.gates.reached_by("go", 1).await;
    let mut refusals = Vec::new();
    for _ in 0..1_030 {
        let answer = client.0.call("turn/steer", steer(&thread, &id)).await;
        let answer = answer.unwrap();
        if answer.get("error").is_some() {
            refusals.push(answer["error"].clone());
        }
    }
    assert!(!refusals.is_empty(), "1,024 wait, no more");
    for error in &refusals {
        assert_eq!(error["message"], "Server overloaded; retry later.");
        assert_eq!(error["code"], -32001);
        assert_eq!(error["data"]["reason"], "overloaded");
        assert_eq!(error["data"]["errorInfo"], "server_overloaded");
        assert!(error["data"]["retryAfterMs"].as_u64().unwrap() > 0);
    }
    world.gates.open("go");
    assert_eq!(client.ended(&id).await["status"], "completed");
    let items = json!({"threadId": thread, "turnId": id, "limit": 1});
    client.ok("thread/items/list", items).await;
}

#[tokio::test]
async fn a_history_longer_than_a_message_is_refused_and_can_still_be_paged() {
    // Small texts in the script, long ones in the input: 64 MiB are 64 inputs of a mebibyte.
    if crate::support::size(0, 1) == 0 {
        return turnlane_testkit::skipped("70 MiB of history: TURNLANE_TEST_FULL=1");
    }
    let world = World::start("version: 1\nfallback: {say: ok}").await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let text = "x".repeat(1_048_576);
    for _ in 0..66 {
        let id = client.turn(&thread, &text).await;
        client.ended(&id).await;
    }
    for method in ["thread/read", "thread/resume"] {
        let params = json!({"threadId": thread, "includeTurns": true});
        let error = client.err(method, params).await;
        assert_eq!(error["data"]["reason"], "tooLarge", "{method}");
        assert_eq!(error["code"], -32600, "{method}");
        let told = error["message"].as_str().unwrap();
        let begins = "thread history is too large for one message: ";
        assert!(told.starts_with(begins), "{told}");
    }
    let page = json!({"threadId": thread, "limit": 5});
    let page = client.ok("thread/turns/list", page).await;
    assert_eq!(page["data"].as_array().unwrap().len(), 5);
    let without = json!({"threadId": thread, "excludeTurns": true});
    client.ok("thread/resume", without).await;
}

#[tokio::test]
async fn errors_never_repeat_what_somebody_wrote() {
    let world = World::start(ECHO).await;
    let mut client = world.client().await;
    let thread = client.thread().await;
    let secret = "sk-this-is-nobody's-business";
    let input = json!([{"type": "image", "url": format!("https://example.org/{secret}")}]);
    for (method, params) in [
        ("turn/start", json!({"threadId": thread, "input": input})),
        ("turn/start", turn(&thread, &secret.repeat(40_000))),
        ("turn/start", json!({"threadId": thread, "input": secret})),
        (
            "turn/start",
            json!({"threadId": thread, "input": [{"type": "text", "text": [secret]}]}),
        ),
    ] {
        let error = client.err(method, params).await;
        assert!(!error.to_string().contains(secret), "{error}");
    }
}
