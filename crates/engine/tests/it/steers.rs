//! More input for a turn that runs.

use turnlane_engine::{
    BYTES_MAX, MESSAGES_MAX, NoHooks, OutcomeStatus, Said, Steer, SteerRefused, Steering, channel,
};
use turnlane_protocol::input::UserInput;

use crate::support::{Lane, request, steer, steps};

#[tokio::test(start_paused = true)]
async fn an_awaited_steer_is_announced_and_heard() {
    let engine = steps("      - await: {steer: true}\n      - say: \"then: {input}\"");
    let mut lane = Lane::start(engine, request("first"));
    lane.step().await.unwrap();
    lane.steer("more").unwrap();
    let note = Steer::Note("a hook says".to_owned());
    lane.end.steer.reserve(note).unwrap().hand_over();
    let seen = lane.finish().await;
    seen.assert_whole();
    assert_eq!(seen.started[0], "more");
    assert_eq!(
        seen.outcome().last_agent_message.as_deref(),
        Some("then: words of more")
    );
    let kinds: Vec<_> = seen
        .entries
        .iter()
        .map(|entry| entry.kind.as_str())
        .collect();
    assert_eq!(kinds, ["user", "user", "note", "output"]);
    assert_eq!(seen.entries[1].item_id, Some("more".into()));
}

#[tokio::test(start_paused = true)]
async fn a_steer_accepted_at_the_last_moment_is_answered() {
    let mut lane = Lane::start(steps("      - say: bye"), request("first"));
    let reply = loop {
        match lane.hear().await.unwrap() {
            Said::CloseSteer(reply) => break reply,
            said => lane.reply(said),
        }
    };
    // Accepted, but still being written: the engine is told before it can have it.
    let accepted = lane.end.steer.reserve(steer("late")).unwrap();
    assert_eq!(lane.end.steer.waiting(), 1);
    reply.send(Steering::More).unwrap();
    tokio::task::yield_now().await;
    accepted.hand_over();
    let seen = lane.finish().await;
    seen.assert_whole();
    assert_eq!(
        seen.outcome().last_agent_message.as_deref(),
        Some("You said: words of late")
    );
}

#[tokio::test(start_paused = true)]
async fn a_steer_after_any_word_is_taken_or_refused() {
    const STEPS: &str = "      - say: {text: one two, chunk: 2, delta_ms: 1}\n      \
                         - exec: {cmd: make, output: x, ms: 2}\n      - say: three";
    let mut refused = 0;
    let words = Lane::start(steps(STEPS), request("x"))
        .finish()
        .await
        .lines
        .len();
    for at in 0..words {
        let mut lane = Lane::start(steps(STEPS), request("x"));
        for _ in 0..at {
            lane.step().await.unwrap();
        }
        let taken = lane.steer("more").is_ok();
        let seen = lane.finish().await;
        seen.assert_whole();
        assert_eq!(seen.started.contains(&"more".to_owned()), taken, "{at}");
        assert_eq!(seen.outcome().status, OutcomeStatus::Completed);
        refused += usize::from(!taken);
    }
    // Only between the closing and the end.
    assert_eq!(refused, 1);
}

#[tokio::test]
async fn steers_have_two_bounds_and_give_their_places_back() {
    let (_sink, mut control, lane) = channel(std::sync::Arc::new(NoHooks));
    for _ in 0..MESSAGES_MAX {
        lane.steer.reserve(steer("a")).unwrap().hand_over();
    }
    let full = lane.steer.reserve(steer("a")).unwrap_err();
    assert_eq!(full, SteerRefused::Full);
    assert_eq!(lane.steer.waiting(), MESSAGES_MAX);
    while control.steer.try_recv().is_some() {}
    assert_eq!(lane.steer.waiting(), 0);

    let long = || Steer::Input {
        input: vec![UserInput::text("x".repeat(BYTES_MAX - 1))],
        item_id: "long".into(),
        client_id: None,
    };
    let first = lane.steer.reserve(long()).unwrap();
    assert_eq!(lane.steer.reserve(long()).unwrap_err(), SteerRefused::Full);
    assert_eq!(lane.steer.waiting(), 1, "a refused one takes no place");
    lane.steer.reserve(Steer::Note("y".to_owned())).unwrap();
    drop(first);
    assert_eq!(lane.steer.waiting(), 0);
    lane.steer.reserve(long()).unwrap().hand_over();

    drop(control);
    assert_eq!(lane.steer.waiting(), 0);
    assert_eq!(
        lane.steer.reserve(steer("a")).unwrap_err(),
        SteerRefused::Gone
    );
}
