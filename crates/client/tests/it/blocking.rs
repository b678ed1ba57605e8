//! The client without async.
//!
//! The server runs on a runtime of its own; what is tested waits on threads that have none.

use std::time::Duration;

use turnlane::blocking::Client;
use turnlane::{CallError, ConnectError, Effort, Endpoint, TurnError, TurnEvent, TurnStatus};
use turnlane_engine::scripted::Gates;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::world::World;

const SCRIPT: &str = r#"
version: 1
turns:
  - match: "hold"
    steps:
      - say: "Holding."
      - await: {gate: "held"}
"#;

/// A server and its runtime, and a blocking client of it.
struct Beside {
    runtime: tokio::runtime::Runtime,
    world: World,
}

impl Beside {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let world = runtime.block_on(World::start(SCRIPT));
        Self { runtime, world }
    }

    fn client(&self) -> Client {
        let endpoint = {
            let _runtime = self.runtime.enter();
            Endpoint::io(self.world.connect())
        };
        Client::connect(endpoint).unwrap()
    }

    fn gates(&self) -> Gates {
        self.world.gates.clone()
    }
}

#[test]
fn a_thread_without_a_runtime_asks_and_streams() {
    let beside = Beside::start();
    let client = beside.client();
    let answer = client.run(".", "one").unwrap();
    assert_eq!(answer.text.as_deref(), Some("You said: one"));

    let thread = client
        .threads()
        .start(".")
        .with(|builder| builder.effort(Effort::low()))
        .open()
        .unwrap();
    let mut text = String::new();
    let mut ended = None;
    for event in thread.turn("two").stream().unwrap() {
        match event.unwrap() {
            TurnEvent::Delta(delta) => text.push_str(delta.text()),
            TurnEvent::Ended(status) => ended = Some(status),
            _ => {}
        }
    }
    assert_eq!(
        (text.as_str(), ended),
        ("You said: two", Some(TurnStatus::Completed))
    );

    let timed = thread
        .turn("three")
        .with(|turn| turn.timeout(Duration::from_mins(1)));
    assert_eq!(
        timed.run().unwrap().text.as_deref(),
        Some("You said: three")
    );
    let again = client.threads().resume(thread.id()).open().unwrap();
    assert_eq!(again.id(), thread.id());
    thread.archive().unwrap();
    assert!(thread.is_closed());
    client.shutdown(Duration::from_secs(1)).unwrap();
}

#[test]
fn a_turn_is_interrupted_by_its_handle() {
    let beside = Beside::start();
    let client = beside.client();
    let thread = client.threads().start(".").open().unwrap();
    let mut stream = thread.turn("hold").stream().unwrap();
    while stream.turn().is_none() {
        stream.next().unwrap().unwrap();
    }
    let turn = stream.turn().unwrap();
    turn.interrupt().unwrap();
    assert_eq!(stream.outcome().unwrap().status, TurnStatus::Interrupted);
    assert_eq!(turn.outcome().unwrap().status, TurnStatus::Interrupted);
}

#[test]
fn dropping_a_stream_with_the_last_handle_still_interrupts_the_turn() {
    let beside = Beside::start();
    let client = beside.client();
    let thread = client.threads().start(".").open().unwrap();
    let id = thread.id().clone();
    let stream = thread.turn("hold").stream().unwrap();
    beside
        .runtime
        .block_on(beside.gates().reached_by("held", 1));
    drop((thread, client));
    drop(stream);
    beside.runtime.block_on(async {
        let watcher = beside.world.client().await;
        let thread = watcher.threads().resume(&id).await.unwrap();
        let free = async || thread.turn("free?").await.is_ok();
        eventually("the interrupt", DEADLINE, free).await.unwrap();
    });
}

#[test]
fn inside_a_runtime_every_method_refuses_and_none_panics() {
    let beside = Beside::start();
    let client = beside.client();
    let thread = client.threads().start(".").open().unwrap();
    let mut stream = thread.turn("hold").stream().unwrap();
    let inside = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    inside.block_on(async {
        let refused = client.run(".", "one").unwrap_err();
        let TurnError::Call(CallError::InvalidArgument { what, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(what, "blocking");
        let refused = Client::connect(Endpoint::io(beside.world.connect())).unwrap_err();
        assert!(matches!(refused, ConnectError::InvalidArgument { .. }));
        assert!(matches!(stream.next(), Some(Err(TurnError::Call(_)))));
        assert!(stream.next().is_none(), "a loop over it ends");
        // Dropping is no waiting, so it is allowed everywhere.
        drop((stream, thread, client));
    });
}
