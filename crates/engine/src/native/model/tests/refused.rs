//! Fields that a provider refuses, and redirects.

use turnlane_testkit::mock_model::{ApiError, MockModel, Reply};

use super::*;

fn refuses(param: &str) -> Reply {
    Reply::http_error(ApiError::bad_request(param, "unknown parameter"))
}

#[tokio::test]
async fn a_refused_field_is_left_out_at_once_and_from_then_on() {
    let mock = MockModel::start().await.unwrap();
    let stage = Stage::of(&mock);
    mock.push(refuses("prompt_cache_key"))
        .push(refuses("reasoning.effort"))
        .push(Reply::text("ok"))
        .push(Reply::text("ok"));
    let played = stage.play().await;
    played.response();
    assert!(played.retries().is_empty());
    assert_eq!(
        played.warnings(),
        [
            "mock does not take `prompt_cache_key` for m-1: it is left out from now on",
            "mock does not take `reasoning.effort` for m-1: it is left out from now on",
        ]
    );
    let played = stage.play().await;
    assert!(played.warnings().is_empty());
    let requests = mock.requests();
    assert_eq!(requests.len(), 4);
    let has = |nth: usize, name: &str| !requests[nth].body[name].is_null();
    let cached: Vec<bool> = (0..4).map(|nth| has(nth, "prompt_cache_key")).collect();
    assert_eq!(cached, [true, false, false, false]);
    assert_eq!(requests[1].body["reasoning"]["effort"], "medium");
    assert_eq!(requests[3].body["reasoning"], json!({"summary": "auto"}));
    assert_eq!(requests[0].body["input"], requests[3].body["input"]);
    assert_eq!(stage.models.learned.omissions("mock", MODEL).len(), 2);
    assert!(stage.models.learned.omissions("mock", "other").is_empty());
}

#[tokio::test]
async fn a_field_that_is_refused_although_it_was_left_out_fails_the_call() {
    let mock = MockModel::start().await.unwrap();
    mock.push(refuses("store")).push(refuses("store"));
    let played = Stage::of(&mock).play().await;
    let details = played.failure().details().unwrap();
    assert_eq!(details, "http_status=400; attempts=2");
    assert_eq!(played.warnings().len(), 1);
}

#[tokio::test]
async fn refused_reasoning_is_taken_out_of_the_history() {
    let mock = MockModel::start().await.unwrap();
    let invalid = ApiError::bad_request("input", "no").code("invalid_encrypted_content");
    mock.push(Reply::http_error(invalid))
        .push(Reply::text("ok"))
        .push(Reply::text("ok"));
    let mut stage = Stage::of(&mock);
    stage.history = vec![author().note("a"), thought(), author().note("b")];
    let played = stage.play().await;
    played.response();
    assert_eq!(played.warnings().len(), 1);
    stage.play().await.response();
    let requests = mock.requests();
    assert_eq!(requests[0].input().len(), 4);
    for request in &requests[1..] {
        let kinds: Vec<&Value> = request.input().iter().map(|item| &item["type"]).collect();
        assert_eq!(kinds, ["message", "message", "message"]);
        assert!(request.body["include"].is_null());
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_key_stays() {
    let elsewhere = MockModel::start().await.unwrap();
    elsewhere.push(Reply::text("stolen"));
    let mock = MockModel::start().await.unwrap();
    for status in [301, 302, 303, 307, 308] {
        let location = format!("{}/responses", elsewhere.base_url());
        mock.push(Reply::redirect(&location).status(status));
        let played = Stage::of(&mock).play().await;
        assert_eq!(played.failure().http_status, Some(status));
    }
    assert_eq!(mock.requests().len(), 5);
    assert!(elsewhere.requests().is_empty() && elsewhere.other_requests().is_empty());
}

#[tokio::test]
async fn a_warning_about_the_provider_is_told_once() {
    let mock = MockModel::start().await.unwrap();
    mock.push(Reply::text("a")).push(Reply::text("b"));
    let mut stage = Stage::of(&mock);
    Arc::make_mut(&mut stage.provider).warnings = vec!["careful".to_owned()];
    assert_eq!(stage.play().await.warnings(), ["careful"]);
    assert!(stage.play().await.warnings().is_empty());
}
