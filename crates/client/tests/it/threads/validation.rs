//! What is checked of calls, on both sides, and how it is switched.

use serde_json::{Value, json};
use turnlane::{CallError, CallOptions, Client, Side, Validation, methods};

use super::{answered, nothing_was_sent, refused};
use crate::double::{Double, Kind};

fn contract(error: CallError) -> (String, Side, String) {
    match error {
        CallError::Contract {
            method,
            side,
            reason,
        } => (method, side, reason),
        error => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn a_request_against_the_contract_is_never_sent() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let rows = [
        ("", json!({}), "json-rpc method must not be empty"),
        ("thread/start", json!([]), "params must be an object"),
        (
            "thread/read",
            json!({}),
            "params.threadId must be a non-empty string",
        ),
        (
            "turn/interrupt",
            json!({"threadId": "t", "turnId": ""}),
            "params.turnId must be a non-empty string",
        ),
        (
            "command/exec",
            json!({"command": []}),
            "params.command must be a non-empty array",
        ),
    ];
    for (method, params, text) in rows {
        let call = client.call_raw(method, params, CallOptions::default());
        let refused = contract(call.await.unwrap_err());
        assert_eq!(refused, (method.to_owned(), Side::Request, text.to_owned()));
    }
    let told = client.notify_raw("", json!({})).await.unwrap_err();
    assert_eq!(contract(told).2, "json-rpc method must not be empty");
    nothing_was_sent(&mut double, &client).await;
}

#[tokio::test]
async fn an_answer_against_the_contract_is_an_error() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let thread = json!({"threadId": "t"});
    let start = json!({"threadId": "t", "input": []});
    let steer = json!({"threadId": "t", "expectedTurnId": "u", "input": []});
    let rows = [
        ("thread/read", &thread, "result is missing thread id"),
        ("turn/start", &start, "result is missing turn id"),
        ("turn/steer", &steer, "result is missing turn id"),
        ("thread/list", &thread, "result.data must be an array"),
    ];
    for (method, params, text) in rows {
        let call = client.call_raw(method, params.clone(), CallOptions::default());
        let (_, result) = answered(&mut double, method, json!({}), call).await;
        let lacking = contract(result.unwrap_err());
        assert_eq!(
            lacking,
            (method.to_owned(), Side::Response, text.to_owned())
        );
    }
}

#[tokio::test]
async fn checking_can_be_switched_off_for_a_client_and_for_a_call() {
    let off = CallOptions {
        validation: Some(Validation::Off),
        ..CallOptions::default()
    };
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let call = client.call_raw(
        "turn/interrupt",
        json!({"threadId": "t", "turnId": ""}),
        off,
    );
    let (sent, result) = answered(&mut double, "turn/interrupt", json!({}), call).await;
    assert_eq!(sent["turnId"], json!(""));
    result.unwrap();

    let builder = Client::builder().validation(Validation::Off);
    let (mut double, client) = Double::connect(Kind::Codex, builder).await;
    let call = client.call_raw("thread/read", json!({}), CallOptions::default());
    let (_, result) = answered(&mut double, "thread/read", json!(7), call).await;
    assert_eq!(result.unwrap(), json!(7));
    let known = CallOptions {
        validation: Some(Validation::Known),
        ..CallOptions::default()
    };
    let call = client.call_raw("thread/read", json!({}), known);
    assert!(matches!(
        call.await,
        Err(CallError::Contract {
            side: Side::Request,
            ..
        })
    ));
}

#[tokio::test]
async fn methods_outside_the_table_pass_with_everything_they_carry() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    for params in [json!([1]), json!(7), json!({"x": 1})] {
        let call = client.call_raw("no/such", params.clone(), CallOptions::default());
        let answer = json!({"anything": [1, null]});
        let (sent, result) = answered(&mut double, "no/such", answer.clone(), call).await;
        assert_eq!((sent, result.unwrap()), (params, answer));
    }
    client.notify_raw("my/note", json!({"x": 1})).await.unwrap();
    assert_eq!(double.told().await, ("my/note".to_owned(), json!({"x": 1})));
}

/// A method of somebody else.
struct Numbers;

impl turnlane::Method for Numbers {
    const NAME: &'static str = "my/numbers";
    const READS: bool = true;
    type Params = Value;
    type Output = Vec<u32>;
}

#[tokio::test]
async fn a_typed_call_is_decoded_and_what_does_not_fit_says_so() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let params = turnlane::ThreadListParams {
        limit: Some(2),
        ..Default::default()
    };
    let call = client.call::<methods::ThreadList>(params);
    let answer = json!({"data": [{"id": "T", "brandNew": true}], "nextCursor": "c"});
    let (sent, page) = answered(&mut double, "thread/list", answer, call).await;
    assert_eq!(sent, json!({"limit": 2}));
    let page = page.unwrap();
    assert_eq!(page.data[0].id.as_str(), "T");

    let call = client.call::<Numbers>(json!({}));
    let (_, numbers) = answered(&mut double, "my/numbers", json!([1, 2]), call).await;
    assert_eq!(numbers.unwrap(), [1, 2]);
    let call = client.call::<Numbers>(json!({}));
    let (_, numbers) = answered(&mut double, "my/numbers", json!(["x"]), call).await;
    assert!(matches!(numbers, Err(CallError::Decode(_))));
}

#[tokio::test]
async fn a_refusal_keeps_code_text_and_data() {
    let (mut double, client) = Double::plain(Kind::Codex).await;
    let call = client.call_raw("x/y", json!({}), CallOptions::default());
    let error = (-32600, "no", json!({"reason": "somethingNew", "x": 1}));
    let error = refused(&mut double, "x/y", error, call).await.unwrap_err();
    assert_eq!(error.code(), Some(-32600));
    let CallError::Rpc(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.message, "no");
    assert_eq!(error.reason(), Some("somethingNew"));
}
