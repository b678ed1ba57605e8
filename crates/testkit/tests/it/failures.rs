//! Everything that can go wrong between a model and its client.

use serde_json::json;
use turnlane_testkit::mock_model::{ApiError, At, Chunks, Cut, Item, Noise};
use turnlane_testkit::{MockModel, Reply};

use crate::http::{End, Exchange, ask, prompt, write};

#[tokio::test]
async fn http_errors_have_the_status_and_the_body_of_the_api() {
    let model = MockModel::start().await.unwrap();
    let cases = [
        (
            ApiError::bad_request("reasoning.effort", "bad"),
            400,
            json!(null),
        ),
        (ApiError::unauthorized(), 401, json!("invalid_api_key")),
        (ApiError::forbidden(), 403, json!("permission_denied")),
        (
            ApiError::model_not_found("m"),
            404,
            json!("model_not_found"),
        ),
        (ApiError::rate_limited(), 429, json!("rate_limit_exceeded")),
        (
            ApiError::insufficient_quota(),
            429,
            json!("insufficient_quota"),
        ),
        (
            ApiError::usage_not_included(),
            429,
            json!("usage_not_included"),
        ),
        (
            ApiError::context_length_exceeded(),
            400,
            json!("context_length_exceeded"),
        ),
        (ApiError::invalid_prompt(), 400, json!("invalid_prompt")),
        (ApiError::server_error(), 500, json!("server_error")),
        (ApiError::overloaded(), 503, json!("server_is_overloaded")),
    ];
    for (error, status, code) in cases {
        model.push(Reply::http_error(error.clone()));
        let answer = ask(&model, "").await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let body = answer.json();
        assert_eq!(body["error"]["code"], code);
        assert_eq!(body["error"]["message"], error.message);
        assert_eq!(body["error"]["type"], error.kind);
    }
    assert!(model.unscripted_requests().is_empty());
}

#[tokio::test]
async fn a_rate_limit_says_when_to_come_back() {
    let model = MockModel::start().await.unwrap();
    model.push(Reply::http_error(ApiError::rate_limited().retry_after_s(2)));
    assert_eq!(ask(&model, "").await.header("retry-after"), Some("2"));
}

#[tokio::test]
async fn a_usage_limit_says_when_it_ends_in_every_form() {
    let model = MockModel::start().await.unwrap();
    let error = || ApiError::usage_limit_reached(1_893_531_900);
    model
        .push(Reply::http_error(error()))
        .push(Reply::failed(error()))
        .push(Reply::error_event(error()));
    let http = ask(&model, "").await.json()["error"].clone();
    let failed = ask(&model, "").await.event("response.failed")["response"]["error"].clone();
    let event = ask(&model, "").await.event("error");
    for form in [http, failed, event] {
        assert_eq!(form["code"], "usage_limit_reached");
        assert_eq!(form["resets_at"], 1_893_531_900);
    }
}

#[tokio::test]
async fn a_response_may_fail_behind_what_it_said() {
    let model = MockModel::start().await.unwrap();
    model.push(Reply::failed(ApiError::context_length_exceeded()).and(Item::text("so far")));
    let answer = ask(&model, "").await;
    assert_eq!(answer.message(), "so far");
    assert_eq!(answer.kinds().last().unwrap(), "failed");
}

#[tokio::test]
async fn a_response_may_be_incomplete_or_just_end() {
    let model = MockModel::start().await.unwrap();
    model
        .push(Reply::text("half").incomplete("max_output_tokens"))
        .push(Reply::text("half").without_end())
        .push(Reply::raw_stream::<&[u8]>([]));
    let incomplete = ask(&model, "").await.event("response.incomplete");
    let reason = &incomplete["response"]["incomplete_details"]["reason"];
    assert_eq!(reason, "max_output_tokens");
    let unended = ask(&model, "").await;
    assert_eq!(unended.kinds().last().unwrap(), "output_item.done");
    assert_eq!(unended.end, End::Proper);
    let empty = ask(&model, "").await;
    assert_eq!((empty.bytes().len(), empty.end), (0, End::Proper));
}

#[tokio::test]
async fn a_cut_is_exact_to_the_byte_wherever_it_is() {
    let model = MockModel::start().await.unwrap();
    model.push(Reply::text("hello"));
    // Ids count requests, so offsets are taken from answers with ids of the same length.
    let whole = ask(&model, "").await.bytes().len();
    for offset in [0, 1, 100, whole - 1, whole] {
        model.push(Reply::text("hello").cut(Cut::AtByte(offset)));
        let answer = ask(&model, "").await;
        assert_eq!((answer.bytes().len(), answer.end), (offset, End::Cut));
    }
}

#[tokio::test]
async fn a_cut_loses_nothing_in_front_of_it_however_much_that_is() {
    let model = MockModel::start().await.unwrap();
    let offset = 5 << 20;
    model.push(Reply::huge_text(2).cut(Cut::AtByte(offset)));
    let answer = ask(&model, "").await;
    assert_eq!((answer.bytes().len(), answer.end), (offset, End::Cut));
}

#[tokio::test]
async fn a_cut_can_count_events_and_a_hang_up_answers_nothing() {
    let model = MockModel::start().await.unwrap();
    model
        .push(Reply::text("hello").cut(Cut::AfterEvents(3)))
        .push(Reply::hang_up());
    let answer = ask(&model, "").await;
    assert_eq!((answer.events().len(), answer.end), (3, End::Cut));
    let stream = write(&model, "POST", "/v1/responses", &prompt("").to_string()).await;
    assert!(Exchange::read_head(stream).await.is_none());
    assert_eq!(
        model.abandoned_answers(),
        0,
        "the mock, not the client, ended these"
    );
}

#[tokio::test]
async fn noise_stands_between_the_events_where_it_was_put() {
    let model = MockModel::start().await.unwrap();
    let noises = [
        (Noise::ByteOrderMark, "\u{feff}"),
        (Noise::Comment, ": keep-alive\n\n"),
        (Noise::BadJson, "data: {\"type\":\n\n"),
        (Noise::UnknownType, "response.mock.unknown"),
        (
            Noise::MissingFields,
            "data: {\"type\":\"response.output_text.delta\"}\n\n",
        ),
        (Noise::BadUtf8, "response.mock.\u{fffd}"),
        (Noise::DoneMarker, "data: [DONE]\n\n"),
    ];
    for (noise, looks) in noises {
        model.push(Reply::text("still").insert(At::AfterEvents(4), noise));
        let answer = ask(&model, "").await;
        let text = String::from_utf8_lossy(&answer.chunks[4]).into_owned();
        assert!(text.contains(looks), "{noise:?}: {text}");
        assert_eq!(answer.message(), "still");
    }
}

#[tokio::test]
async fn raw_bytes_redirects_and_plain_json_are_sent_as_they_are() {
    let model = MockModel::start().await.unwrap();
    let raw = Reply::raw_stream([&b"\xff\x00"[..], b"data: x\n\n"]);
    model
        .push(raw.clone())
        .push(raw.chunks(Chunks::OfBytes(1)))
        .push(Reply::redirect("http://127.0.0.1:1/elsewhere"))
        .push(Reply::json(
            200,
            &json!({"id": "resp_1", "status": "completed"}),
        ))
        .push(Reply::json(200, &json!("<html>")).header("content-type", "text/html"));
    let answer = ask(&model, "").await;
    assert_eq!(answer.chunks, [&b"\xff\x00"[..], b"data: x\n\n"]);
    assert_eq!(ask(&model, "").await.chunks.len(), 11);
    let redirect = ask(&model, "").await;
    assert_eq!(redirect.status, 307);
    assert_eq!(
        redirect.header("location"),
        Some("http://127.0.0.1:1/elsewhere")
    );
    assert_eq!(ask(&model, "").await.json()["status"], "completed");
    assert_eq!(
        ask(&model, "").await.header("content-type"),
        Some("text/html")
    );
}
