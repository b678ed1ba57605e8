//! Queued turns run by themselves, one at a time, in order, and are told in the documented order.

use turnlane_runtime::{AfterInterrupt, StartAnswer, StartHow};
use turnlane_store::turn::TurnStatus;

use crate::support::{Home, start};

const SAY: &str = "version: 1\nfallback: {say: \"You said: {input}\"}\n";
const GATED: &str = "version: 1\nturns:\n  - match: slow\n    steps:\n      - await: {gate: go}\n      \
    - say: done\nfallback: {say: \"You said: {input}\"}\n";

#[tokio::test]
async fn a_row_added_to_an_idle_lane_is_shown_then_gone_then_runs() {
    let home = Home::new();
    let world = home.start(SAY).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;

    let row = world.add(thread, "hello").await;
    ear.hears("turn Completed", 1).await;

    assert_eq!(
        ear.words(),
        [
            "queue 1",
            "queue 0",
            "status active",
            "turn/started",
            "started userMessage",
            "completed userMessage",
            "started agentMessage",
            "delta AgentMessage",
            "completed agentMessage",
            "thread/tokenUsage/updated",
            "status idle",
            "turn Completed",
        ]
    );
    assert_eq!(ear.said(), "You said: hello");
    let turns = world.turns(thread).await;
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].id, row.turn, "the reserved turn id is used");
    assert_eq!(turns[0].row, Some(row.id));
    assert_eq!(turns[0].status, TurnStatus::Completed);
    let kinds: Vec<_> = world
        .items(thread)
        .await
        .into_iter()
        .map(|item| item.kind)
        .collect();
    assert_eq!(kinds, ["userMessage", "agentMessage"]);
    assert!(world.queue(thread).await.rows.is_empty());
    let seqs: Vec<_> = ear.notices().iter().map(|notice| notice.seq).collect();
    let expected: Vec<_> = (seqs[0]..).take(seqs.len()).collect();
    assert_eq!(seqs, expected, "numbers have no gap");
}

#[tokio::test]
async fn rows_run_one_at_a_time_in_the_order_of_their_adds() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    let mut rows = vec![world.add(thread, "slow").await];
    ear.hears("turn/started", 1).await;
    for number in 0..20 {
        rows.push(world.add(thread, &format!("n {number}")).await);
    }
    assert_eq!(world.queue(thread).await.rows.len(), 20);
    world.gates.open("go");
    let turns = world.ended(thread, 21).await;
    let ran: Vec<_> = turns.iter().map(|turn| turn.row.unwrap()).collect();
    let added: Vec<_> = rows.iter().map(|row| row.id).collect();
    assert_eq!(ran, added);
    let words = ear.words();
    let mut running = 0;
    for word in words {
        match word.as_str() {
            "turn/started" => running += 1,
            "turn Completed" => running -= 1,
            _ => {}
        }
        assert!((0..=1).contains(&running));
    }
}

#[tokio::test]
async fn a_direct_turn_is_answered_when_it_is_stored_and_goes_before_waiting_rows() {
    let home = Home::new();
    let world = home.start(SAY).await;
    let thread = world.thread().await;
    world.handle.pause(thread, None, None).await.unwrap();
    world.add(thread, "waits").await;
    let answer = world
        .handle
        .start(thread, start("direct", StartHow::OrSteer))
        .await
        .unwrap();
    let StartAnswer::Begun(turn) = answer else {
        panic!("the turn begins: {answer:?}");
    };
    let turns = world.ended(thread, 1).await;
    assert_eq!(turns[0].id, turn.id);
    assert_eq!(turns[0].source, "direct");
    assert_eq!(world.queue(thread).await.rows.len(), 1, "the pause goes on");
    world.handle.resume(thread).await.unwrap();
    world.ended(thread, 2).await;
}

#[tokio::test]
async fn an_interrupt_is_answered_when_the_end_is_stored_and_may_pause_the_queue() {
    let home = Home::new();
    let world = home.start(GATED).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    world.add(thread, "slow").await;
    ear.hears("turn/started", 1).await;
    world.add(thread, "next").await;
    world
        .handle
        .interrupt(thread, None, AfterInterrupt::Pause, Some("me".to_owned()))
        .await
        .unwrap();
    let turns = world.turns(thread).await;
    assert_eq!(turns.len(), 1);
    assert_eq!(turns[0].status, TurnStatus::Interrupted);
    let page = world.queue(thread).await;
    assert_eq!(page.rows.len(), 1);
    let paused = page.lane.paused.unwrap();
    assert_eq!(
        (paused.reason.as_str(), paused.by.as_deref()),
        ("interrupt", Some("me"))
    );
    world.handle.resume(thread).await.unwrap();
    let turns = world.ended(thread, 2).await;
    assert_eq!(turns[1].status, TurnStatus::Completed);
}
