//! A lane that another worker took over while this one was being asked things.
//!
//! The invariant here: any worker may add to any lane, so an add that was submitted is answered by
//! its own end, whoever has the lane by then. Only what needs the lane is answered as lost.

use turnlane_protocol::ids::TurnId;
use turnlane_protocol::input::UserInput;
use turnlane_runtime::{AddTurn, Error};
use turnlane_store::Store;
use turnlane_store::recovery::{Deciding, Decision, FoundFate, Recover, Whose};

use crate::support::{Home, NOW_MS, World, params};

const SCRIPT: &str = "
version: 1
turns:
  - match: gated
    steps: [{await: {gate: never}}]
fallback: {say: 'You said: {input}'}
";
/// So many that some are under way when the loss is noticed.
const ADDS: usize = 64;

/// Another worker takes the lane of a turn that runs; the owner does not know yet.
async fn take_away(home: &Home, world: &World) {
    let deciding = Deciding::new(|_| Decision {
        muted: false,
        turn_error: Some("{}".to_owned().into()),
        row: FoundFate::Done,
    });
    let recovered = home.store().recover(Recover {
        whose: Whose::Of(world.handle.store().worker()),
        deciding,
        limit: 500,
        at_ms: NOW_MS,
    });
    assert_eq!(recovered.await.unwrap().lanes.len(), 1);
}

#[tokio::test]
async fn adds_under_way_when_the_lane_is_lost_are_answered_and_run_once() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let row = world.add(thread, "gated").await;
    world.gates.reached_by("never", 1).await;
    take_away(&home, &world).await;

    // The steer is refused by the fence. The adds before it keep the store busy, so that those behind
    // it are submitted before the refusal is known.
    let mut adds = tokio::task::JoinSet::new();
    let add = |adds: &mut tokio::task::JoinSet<_>, number: usize| {
        let handle = world.handle.clone();
        let add = AddTurn::new(params(&format!("n {number}")));
        adds.spawn(async move { handle.add(thread, add).await });
    };
    (0..ADDS / 2).for_each(|number| add(&mut adds, number));
    let handle = world.handle.clone();
    let turn = TurnId::from_uuid(row.turn.as_uuid());
    let input = vec![UserInput::text("more")];
    let steered = tokio::spawn(async move { handle.steer(thread, turn, input, None).await });
    (ADDS / 2..ADDS).for_each(|number| add(&mut adds, number));
    let steered = steered.await.unwrap();
    assert!(
        matches!(steered, Err(Error::Lost | Error::Store(_))),
        "{steered:?}"
    );
    let answers = adds.join_all().await;
    let refused: Vec<_> = answers
        .iter()
        .filter_map(|add| add.as_ref().err())
        .collect();
    assert!(refused.is_empty(), "stored, and yet refused: {refused:?}");
    let turns = world.ended(thread, 1 + ADDS).await;
    assert_eq!(turns.len(), 1 + ADDS, "each of them once");
}

#[tokio::test]
async fn whoever_listens_to_a_lost_lane_is_told_that_it_is_closed() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    let row = world.add(thread, "gated").await;
    world.gates.reached_by("never", 1).await;
    take_away(&home, &world).await;
    let turn = TurnId::from_uuid(row.turn.as_uuid());
    let input = vec![UserInput::text("more")];
    let steered = world.handle.steer(thread, turn, input, None).await;
    assert!(steered.is_err(), "{steered:?}");
    ear.hears("thread/closed", 1).await;
    let words = ear.words();
    assert!(words.ends_with(&["status notLoaded".to_owned(), "thread/closed".to_owned()]));
    assert!(
        !words.iter().any(|word| word.starts_with("turn ")),
        "{words:?}"
    );
}
