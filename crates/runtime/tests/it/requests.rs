//! Direct turns, steers and interrupts against a running lane.

use turnlane_protocol::ids::TurnId;
use turnlane_protocol::input::UserInput;
use turnlane_runtime::{AfterInterrupt, Error, StartAnswer, StartHow};
use turnlane_store::turn::TurnStatus;
use turnlane_testkit::wait::{DEADLINE, eventually, within};

use crate::support::{Home, World, params, start};

/// The first turn waits for its gate, whatever is said meanwhile is answered by the fallback.
const GATED: &str = "version: 1\nturns:\n  - match: slow\n    steps:\n      - say: first\n      \
    - await: {gate: go}\n      - say: \"heard {input}\"\nfallback: {say: \"You said: {input}\"}\n";

async fn running(world: &World, thread: turnlane_protocol::ids::ThreadId) -> TurnId {
    let answer = world
        .handle
        .start(thread, start("slow", StartHow::OrSteer))
        .await
        .unwrap();
    match answer {
        StartAnswer::Begun(turn) => TurnId::from_uuid(turn.id.as_uuid()),
        other => panic!("the turn begins: {other:?}"),
    }
}

#[tokio::test]
async fn a_start_during_a_turn_steers_it_and_the_message_is_stored_when_answered() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    let turn = running(&world, thread).await;
    let answer = world
        .handle
        .start(thread, start("and more", StartHow::OrSteer))
        .await
        .unwrap();
    assert!(matches!(answer, StartAnswer::Steered(steered) if steered == turn));
    let said: Vec<_> = world
        .items(thread)
        .await
        .into_iter()
        .filter(|item| item.kind == "userMessage")
        .collect();
    assert_eq!(said.len(), 2, "the steer is on disk before its answer");
    world.gates.open("go");
    ear.hears("turn Completed", 1).await;
    let words = ear.words();
    let messages = |word: &str| words.iter().filter(|told| *told == word).count();
    assert_eq!(messages("started userMessage"), 2);
    assert_eq!(messages("completed userMessage"), 2);
    assert_eq!(ear.said(), "firstheard and more");
    assert_eq!(world.turns(thread).await.len(), 1);
}

#[tokio::test]
async fn a_start_during_a_turn_waits_in_the_queue_or_is_refused_as_asked() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = world.thread().await;
    running(&world, thread).await;
    let queued = world
        .handle
        .start(thread, start("later", StartHow::OrQueue))
        .await
        .unwrap();
    let StartAnswer::Queued(row) = queued else {
        panic!("it waits: {queued:?}");
    };
    assert_eq!(row.source, "direct");
    let refused = world
        .handle
        .start(thread, start("no", StartHow::OrReject))
        .await;
    assert!(matches!(refused, Err(Error::Busy { .. })), "{refused:?}");
    world.gates.open("go");
    let turns = world.ended(thread, 2).await;
    assert_eq!(turns[1].id, row.turn, "its caller waits for that id");
}

#[tokio::test]
async fn a_steer_names_its_turn() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = world.thread().await;
    let input = || vec![UserInput::text("more")];
    let other = TurnId::at(1, [9; 10]);
    let idle = world.handle.steer(thread, other, input(), None).await;
    assert!(matches!(idle, Err(Error::NoTurnToSteer)), "{idle:?}");
    let turn = running(&world, thread).await;
    let stale = world.handle.steer(thread, other, input(), None).await;
    assert!(
        matches!(stale, Err(Error::OtherTurn { active }) if active == turn),
        "{stale:?}"
    );
    let steered = world.handle.steer(thread, turn, input(), None).await;
    assert_eq!(steered.unwrap(), turn);
    world.gates.open("go");
    world.ended(thread, 1).await;
}

#[tokio::test]
async fn an_interrupt_is_answered_by_what_became_of_its_turn() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = world.thread().await;
    let interrupt = async |turn| {
        let queue = AfterInterrupt::Continue;
        world.handle.interrupt(thread, turn, queue, None).await
    };
    assert!(interrupt(None).await.is_ok(), "idle, whatever runs");
    let turn = running(&world, thread).await;
    let other = TurnId::at(1, [9; 10]);
    assert!(matches!(
        interrupt(Some(other)).await,
        Err(Error::OtherTurn { active }) if active == turn
    ));
    let (one, two) = tokio::join!(interrupt(Some(turn)), interrupt(Some(turn)));
    assert!(one.is_ok() && two.is_ok(), "both wait for the same end");
    assert!(interrupt(Some(turn)).await.is_ok(), "again, after its end");
    let turns = world.turns(thread).await;
    assert_eq!(turns[0].status, TurnStatus::Interrupted);

    world
        .handle
        .start(thread, start("quick", StartHow::OrSteer))
        .await
        .unwrap();
    let turns = world.ended(thread, 2).await;
    let completed = TurnId::from_uuid(turns[1].id.as_uuid());
    // The end is in the store before the lane has heard of it; until then the turn counts as running.
    let is_over = async || {
        let answer = interrupt(Some(completed)).await;
        matches!(answer, Err(Error::NoTurnToInterrupt))
    };
    eventually("the end of the turn", DEADLINE, is_over)
        .await
        .unwrap();
    world.handle.pause(thread, None, None).await.unwrap();
    let row = world.add(thread, "waits").await;
    let queued = TurnId::from_uuid(row.turn.as_uuid());
    assert!(matches!(
        interrupt(Some(queued)).await,
        Err(Error::TurnQueued)
    ));
}

#[tokio::test]
async fn a_start_during_an_interrupt_begins_the_next_turn_before_waiting_rows() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = world.thread().await;
    let turn = running(&world, thread).await;
    let row = world.add(thread, "waits").await;
    let (stopped, begun) = tokio::join!(
        world
            .handle
            .interrupt(thread, Some(turn), AfterInterrupt::Continue, None),
        world.handle.start(thread, start("next", StartHow::OrSteer)),
    );
    stopped.unwrap();
    assert!(matches!(begun.unwrap(), StartAnswer::Begun(_)));
    let turns = world.ended(thread, 3).await;
    assert_eq!(turns[1].source, "direct");
    assert_eq!(turns[2].row, Some(row.id));
}

#[tokio::test]
async fn the_same_key_starts_and_adds_once_and_other_content_is_refused() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = world.thread().await;
    let keyed = |text: &str| {
        let mut request = start(text, StartHow::OrSteer);
        request.key = Some("k".to_owned());
        request
    };
    world.handle.start(thread, keyed("one")).await.unwrap();
    let turns = world.ended(thread, 1).await;
    let again = world.handle.start(thread, keyed("one")).await.unwrap();
    let StartAnswer::Repeated(repeated) = again else {
        panic!("the first one is found: {again:?}");
    };
    assert_eq!(repeated.turn.map(|turn| turn.id), Some(turns[0].id));
    let other = world.handle.start(thread, keyed("two")).await;
    assert!(matches!(
        other,
        Err(Error::Store(turnlane_store::StoreError::KeyTaken { .. }))
    ));
    assert_eq!(world.turns(thread).await.len(), 1);
}

#[tokio::test]
async fn a_turn_that_takes_too_long_ends_as_by_an_interrupt() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = world.thread().await;
    let mut request = start("slow", StartHow::OrSteer);
    request.params.timeout_ms = Some(20);
    world.handle.start(thread, request).await.unwrap();
    let turns = world.ended(thread, 1).await;
    assert_eq!(turns[0].status, TurnStatus::Interrupted);
    let error = turns[0].error.as_ref().unwrap();
    assert!(error.as_str().contains("\"timeout\""), "{}", error.as_str());
}

#[tokio::test]
async fn settings_of_a_start_stay_with_the_thread_also_when_it_steered() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = world.thread().await;
    running(&world, thread).await;
    let mut request = start("more", StartHow::OrSteer);
    request.params.model = Some("other".to_owned());
    world.handle.start(thread, request).await.unwrap();
    world.gates.open("go");
    world.ended(thread, 1).await;
    let row = world
        .handle
        .store()
        .thread(thread.as_uuid().into())
        .await
        .unwrap()
        .unwrap();
    assert!(row.settings.as_str().contains("\"other\""));
}

#[tokio::test]
async fn an_unknown_thread_is_an_error_and_loads_nothing() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let nobody = turnlane_protocol::ids::ThreadId::at(1, [7; 10]);
    let start = world
        .handle
        .start(nobody, start("hello", StartHow::OrSteer));
    let answer = within("the answer", DEADLINE, start).await.unwrap();
    assert!(
        matches!(
            answer,
            Err(Error::Store(turnlane_store::StoreError::ThreadNotFound(_)) | Error::Lost)
        ),
        "{answer:?}"
    );
    let add = turnlane_runtime::AddTurn::new(params("x"));
    assert!(world.handle.add(nobody, add).await.is_err());
}
