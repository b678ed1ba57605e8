//! What clients see while an engine is asked about a turn that a dead worker left.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Semaphore;
use turnlane_engine::scripted::Scripted;
use turnlane_engine::{
    BoxFuture, Capabilities, Engine, Reconciled, Sink, TurnControl, TurnOutcome, TurnRequest,
};
use turnlane_runtime::Options;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{ECHO, World, open, scripted, turn};

/// Another program: its turns never end, and what became of one it tells when it may.
struct Away {
    like: Scripted,
    handed_over: Arc<Semaphore>,
    may_tell: Arc<Semaphore>,
}

impl Engine for Away {
    fn name(&self) -> &'static str {
        "away"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            foreign: true,
            ..self.like.capabilities()
        }
    }

    fn run_turn(
        &self,
        _request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        let handed_over = Arc::clone(&self.handed_over);
        Box::pin(async move {
            if events.handing_over(None).await.is_ok() {
                handed_over.add_permits(1);
                control.cancel.cancelled().await;
            }
            TurnOutcome::interrupted()
        })
    }

    fn reconcile(&self, _request: TurnRequest) -> BoxFuture<'_, Reconciled> {
        Box::pin(async move {
            drop(self.may_tell.acquire().await);
            Reconciled::Ended {
                outcome: Box::new(TurnOutcome::completed()),
                items: Vec::new(),
            }
        })
    }
}

#[tokio::test]
async fn readyz_waits_for_engines_that_are_asked_and_clients_do_not() {
    let (handed_over, may_tell) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let engines = || -> Vec<Arc<dyn Engine>> {
        let away = Away {
            like: scripted(ECHO),
            handed_over: Arc::clone(&handed_over),
            may_tell: Arc::clone(&may_tell),
        };
        vec![Arc::new(scripted(ECHO)), Arc::new(away)]
    };
    let dying = World::with_engines(engines()).await;
    let mut client = dying.client().await;
    let started = client.ok("thread/start", json!({"engine": "away"})).await;
    let thread = started["thread"]["id"].as_str().unwrap().to_owned();
    let id = client.turn(&thread, "hello").await;
    handed_over.acquire().await.unwrap().forget();
    // In a copy of the database the worker is dead: its lock is not there.
    let copy = tempfile::tempdir().unwrap();
    for file in ["turnlane.db", "turnlane.db-wal"] {
        std::fs::copy(dying.folder.path().join(file), copy.path().join(file)).unwrap();
    }
    let store = open(&copy.path().join("turnlane.db"));
    let world = World::start_on(copy, store, engines(), Options::default()).await;
    let why = "not ready: engines are asked about turns that a dead worker left";
    assert_eq!(world.server.readiness(), Err(why));
    let mut client = world.client().await;
    let resumed = client
        .ok("thread/resume", json!({"threadId": thread}))
        .await;
    assert_eq!(resumed["thread"]["status"]["type"], "active");
    let busy = json!({"threadId": thread, "whenBusy": "reject",
        "input": [{"type": "text", "text": "no"}]});
    client.err("turn/start", busy).await;
    // Another thread is served meanwhile.
    let other = client.thread().await;
    let answer = client.ok("turn/start", turn(&other, "hello")).await;
    let other = answer["turn"]["id"].as_str().unwrap().to_owned();
    assert_eq!(client.ended(&other).await["status"], "completed");
    assert!(!world.server.ready());
    may_tell.add_permits(1);
    assert_eq!(client.ended(&id).await["status"], "completed");
    eventually("a ready server", DEADLINE, async || world.server.ready())
        .await
        .unwrap();
}
