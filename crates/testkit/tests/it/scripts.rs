//! Which request gets which reply, and what is remembered of it.

use std::time::Duration;

use turnlane_testkit::mock_model::Options;
use turnlane_testkit::wait::{DEADLINE, within};
use turnlane_testkit::{MockModel, Reply};

use crate::http::{ask, prompt, send, write};

#[tokio::test]
async fn the_queue_answers_in_the_order_of_requests() {
    let model = MockModel::start().await.unwrap();
    model.push(Reply::text("one")).push(Reply::text("two"));
    assert_eq!(model.replies_left(), 2);
    assert_eq!(ask(&model, "a").await.message(), "one");
    assert_eq!(ask(&model, "b").await.message(), "two");
    assert_eq!(model.replies_left(), 0);
}

#[tokio::test]
async fn a_text_finds_its_reply_whatever_the_order_and_once() {
    let model = MockModel::start().await.unwrap();
    model
        .on_text("lane a", Reply::text("a1"))
        .on_text("lane b", Reply::text("b1"))
        .on_text("lane a", Reply::text("a2"))
        .push(Reply::text("queue"));
    assert_eq!(ask(&model, "for lane b").await.message(), "b1");
    assert_eq!(ask(&model, "for lane a").await.message(), "a1");
    assert_eq!(ask(&model, "for lane a").await.message(), "a2");
    assert_eq!(ask(&model, "for lane a").await.message(), "queue");
}

#[tokio::test]
async fn closures_answer_what_nothing_else_does_as_often_as_they_like() {
    let model = MockModel::start().await.unwrap();
    model
        .choose_with(|request| {
            request
                .last_user_text()
                .contains("no")
                .then(|| Reply::text("no"))
        })
        .choose_with(|request| Some(Reply::text(format!("echo {}", request.last_user_text()))))
        .push(Reply::text("queue"));
    assert_eq!(ask(&model, "yes").await.message(), "queue");
    assert_eq!(ask(&model, "yes").await.message(), "echo yes");
    assert_eq!(ask(&model, "no").await.message(), "no");
    assert_eq!(ask(&model, "no").await.message(), "no");
}

#[tokio::test]
async fn a_request_without_script_is_told_so_and_recorded() {
    let model = MockModel::start().await.unwrap();
    let answer = ask(&model, "surprise").await;
    assert_eq!(answer.status, 500);
    assert_eq!(
        answer.json()["error"]["message"],
        "the mock has no reply left for this request: \"surprise\""
    );
    assert_eq!(model.unscripted_requests().len(), 1);
    assert_eq!(model.unscripted_requests()[0].last_user_text(), "surprise");
}

#[tokio::test]
async fn a_request_is_recorded_as_it_was_sent() {
    let model = MockModel::start().await.unwrap();
    model.push(Reply::text("x"));
    let body = prompt("record me");
    send(&model, "POST", "/responses?a=b", &body.to_string())
        .await
        .whole()
        .await;
    let request = &model.requests()[0];
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("POST", "/responses")
    );
    assert_eq!(request.query, "a=b");
    assert_eq!(request.authorization(), Some("Bearer k-1"));
    assert_eq!(request.bearer_key(), Some("k-1"));
    assert_eq!(request.header("Content-Type"), Some("application/json"));
    assert_eq!(request.header("x-missing"), None);
    assert_eq!(request.body, body);
    assert_eq!(request.bytes, body.to_string());
}

#[tokio::test]
async fn waiting_for_requests_ends_when_they_came_or_says_what_came() {
    let model = MockModel::start().await.unwrap();
    model.push(Reply::text("x"));
    let waiting = model.wait_for_requests(1, DEADLINE);
    let (waited, _) = tokio::join!(waiting, ask(&model, "only"));
    waited.unwrap();
    let error = model
        .wait_for_requests(2, Duration::from_millis(10))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "waited 10ms in vain for 2 requests to the mock; 1 arrived\n- \"only\""
    );
}

#[tokio::test]
async fn the_limits_refuse_aloud() {
    let options = Options {
        request_bytes_max: 1000,
        requests_max: 1,
    };
    let model = MockModel::start_with(options).await.unwrap();
    model.push(Reply::text("x")).push(Reply::text("y"));
    assert_eq!(ask(&model, &"long".repeat(1000)).await.status, 413);
    assert_eq!(ask(&model, "first").await.status, 200);
    let refused = ask(&model, "second").await;
    assert_eq!(refused.status, 500);
    assert_eq!(
        refused.json()["error"]["message"],
        "the mock has no room to record this request"
    );
    assert_eq!(model.take_requests().len(), 1);
    assert_eq!(ask(&model, "third").await.message(), "y");
}

#[tokio::test]
async fn dropping_the_mock_ends_answers_under_way_and_frees_the_port() {
    let model = MockModel::start().await.unwrap();
    let address = model.address();
    let (reply, gate) =
        Reply::text("never").gated(turnlane_testkit::mock_model::At::AfterEvents(1));
    model.push(reply);
    let stream = write(&model, "POST", "/v1/responses", &prompt("").to_string()).await;
    within("the gate", DEADLINE, gate.reached()).await.unwrap();
    model.stop().await;
    let exchange = crate::http::Exchange::read_head(stream).await.unwrap();
    assert_eq!(exchange.whole().await.end, crate::http::End::Cut);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
