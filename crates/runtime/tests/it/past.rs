//! What an engine gets of earlier turns is what the store has, however long a lane drains.

use std::sync::{Arc, Mutex, OnceLock};

use turnlane_engine::scripted::Scripted;
use turnlane_engine::{
    BoxFuture, Capabilities, Engine, Sink, TurnControl, TurnOutcome, TurnRequest,
};
use turnlane_protocol::ids::{ItemId, ThreadId, TurnId};
use turnlane_runtime::{Options, RevertTo};
use turnlane_store::Store;

use crate::support::{Home, World, scripted};

const SCRIPT: &str = "version: 1\nturns:\n  - match: hold\n    steps:\n      - await: {gate: go}\n      \
    - say: done\n  - match: broken\n    steps:\n      - say: half\n      \
    - error: {info: other, message: no}\n\
    fallback: {say: \"You said: {input}\"}\n";

/// How many entries a turn got, and how many messages without one.
type Got = (usize, usize);

/// Plays a script, and compares what every turn gets with what is stored when it begins.
struct Compares {
    plays: Scripted,
    store: Arc<OnceLock<Arc<dyn Store>>>,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Engine for Compares {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn capabilities(&self) -> Capabilities {
        self.plays.capabilities()
    }

    fn run_turn(
        &self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        let (store, got) = (Arc::clone(&self.store), Arc::clone(&self.got));
        let thread = request.thread_id.as_uuid().into();
        let entries = request.history.iter().map(|entry| entry.items.clone());
        let entries: Vec<_> = entries.collect();
        let unrecorded = request.unrecorded.len();
        let own = request.item_id.clone();
        let played = self.plays.run_turn(request, events, control);
        Box::pin(async move {
            let stored = store.get().unwrap().history(thread).await.unwrap();
            let all = stored.entries.iter().map(|row| row.items.as_str());
            assert_eq!(entries, all.collect::<Vec<_>>());
            let others = stored.unrecorded.iter();
            let own = own.as_ref().map(ItemId::as_str);
            let others = others.filter(|message| Some(message.item.id.as_str()) != own);
            assert_eq!(unrecorded, others.count());
            got.lock().unwrap().push((entries.len(), unrecorded));
            played.await
        })
    }
}

/// Adds rows behind one that waits, and lets them all run.
async fn drain(world: &World, thread: ThreadId, texts: &[&str], turns: usize) {
    for text in texts {
        world.add(thread, text).await;
    }
    world.gates.open("go");
    world.ended(thread, turns).await;
}

#[tokio::test]
async fn every_drained_turn_gets_the_history_as_it_is_stored() {
    let home = Home::new();
    let plays = scripted(SCRIPT, &home.clock);
    let gates = plays.gates();
    let store = Arc::new(OnceLock::new());
    let got = Arc::new(Mutex::new(Vec::new()));
    let engine = Compares {
        plays,
        store: Arc::clone(&store),
        got: Arc::clone(&got),
    };
    let world = home
        .start_engine(Arc::new(engine), Options::default())
        .await;
    let world = World { gates, ..world };
    store.get_or_init(|| Arc::clone(world.handle.store()));
    let thread = world.thread().await;

    let rows = ["hold", "a", "b", "broken", "c", "d", "e"];
    drain(&world, thread, &rows, 7).await;
    let lengths: Vec<_> = got.lock().unwrap().drain(..).collect();
    assert_eq!(lengths.len(), 7, "{lengths:?}");
    assert!(lengths.is_sorted(), "{lengths:?}");
    assert!(lengths[6].0 > lengths[4].0, "{lengths:?}");

    world.handle.compact(thread).await.unwrap();
    drain(&world, thread, &["hold", "f", "g", "h"], 12).await;
    let after: Vec<_> = got.lock().unwrap().drain(..).collect();
    assert_eq!(after.len(), 5, "{after:?}");
    assert!(after[4].0 < after[0].0, "{after:?}");

    let turns = world.turns(thread).await;
    let fifth = RevertTo::Before(TurnId::from_uuid(turns[4].id.as_uuid()));
    world.handle.revert(thread, fifth).await.unwrap();
    drain(&world, thread, &["hold", "i", "j", "k"], 8).await;
    let again: Vec<_> = got.lock().unwrap().drain(..).collect();
    assert_eq!(again.len(), 4, "{again:?}");
    assert_eq!(again[0].0, lengths[4].0, "{again:?}");
    assert!(again.is_sorted(), "{again:?}");
}
