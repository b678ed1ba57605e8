//! Answers that wait for the test, and clients that do not wait for the answer.

use turnlane_testkit::mock_model::{At, Gate};
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{MockModel, Reply};

use crate::http::{End, Exchange, Next, ask, prompt, send, write};

#[tokio::test]
async fn everything_before_a_gate_has_arrived_and_nothing_behind_it() {
    let model = MockModel::start().await.unwrap();
    let (reply, gate) = Reply::streamed(["he", "llo"]).gated(At::AfterEvents(5));
    model.push(reply);
    let mut exchange = send(&model, "POST", "/v1/responses", &prompt("").to_string()).await;
    within("the gate", DEADLINE, gate.reached()).await.unwrap();
    let mut chunks = Vec::new();
    for _ in 0..5 {
        let Next::Chunk(chunk) = exchange.next().await else {
            panic!("five events are in front of the gate");
        };
        chunks.push(String::from_utf8(chunk).unwrap());
    }
    assert!(chunks[4].contains("\"delta\":\"he\""), "{}", chunks[4]);
    assert_eq!(gate.arrivals(), 1);
    gate.release();
    let rest = exchange.whole().await;
    assert_eq!(rest.message(), "llo");
    assert_eq!(rest.end, End::Proper);
}

#[tokio::test]
async fn a_gate_before_the_head_holds_back_the_status_line() {
    let model = MockModel::start().await.unwrap();
    let (reply, gate) = Reply::text("late").gated(At::Request);
    model.push(reply);
    let stream = write(&model, "POST", "/v1/responses", &prompt("").to_string()).await;
    within("the gate", DEADLINE, gate.reached()).await.unwrap();
    let mut nothing = [0; 1];
    assert!(
        stream.try_read(&mut nothing).is_err(),
        "no byte has arrived"
    );
    gate.release();
    let answer = Exchange::read_head(stream).await.unwrap().whole().await;
    assert_eq!(answer.message(), "late");
}

#[tokio::test]
async fn a_gate_before_the_last_event_and_one_at_the_end() {
    let model = MockModel::start().await.unwrap();
    let (reply, last) = Reply::text("x").gated(At::LastEvent);
    let (reply, end) = reply.gated(At::End);
    model.push(reply);
    let mut exchange = send(&model, "POST", "/v1/responses", &prompt("").to_string()).await;
    within("the last event", DEADLINE, last.reached())
        .await
        .unwrap();
    assert_eq!(end.arrivals(), 0);
    last.release();
    within("the end", DEADLINE, end.reached()).await.unwrap();
    let mut seen = String::new();
    while !seen.contains("response.completed") {
        let Next::Chunk(chunk) = exchange.next().await else {
            panic!("the terminal event is in front of the second gate");
        };
        seen.push_str(&String::from_utf8(chunk).unwrap());
    }
    end.release();
    assert_eq!(exchange.whole().await.end, End::Proper);
}

#[tokio::test]
async fn one_gate_can_hold_several_answers() {
    let model = MockModel::start().await.unwrap();
    let gate = Gate::new();
    for _ in 0..3 {
        model.push(Reply::text("x").gated_by(At::AfterEvents(1), &gate));
    }
    let release = async {
        within("three at the gate", DEADLINE, gate.reached_by(3))
            .await
            .unwrap();
        gate.release();
    };
    let (a, b, c, ()) = tokio::join!(
        ask(&model, "a"),
        ask(&model, "b"),
        ask(&model, "c"),
        release
    );
    assert!([a, b, c].iter().all(|answer| answer.message() == "x"));
    assert_eq!(model.abandoned_answers(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_at_every_kind_of_wait() {
    let model = MockModel::start().await.unwrap();
    for (count, at) in [
        (1, At::Request),
        (2, At::AfterEvents(0)),
        (3, At::LastEvent),
    ] {
        let (reply, gate) = Reply::text("unread").gated(at);
        model.push(reply);
        let stream = write(&model, "POST", "/v1/responses", &prompt("").to_string()).await;
        within("the gate", DEADLINE, gate.reached()).await.unwrap();
        assert_eq!(model.abandoned_answers(), count - 1);
        drop(stream);
        model.wait_for_abandoned(count, DEADLINE).await.unwrap();
    }
}
