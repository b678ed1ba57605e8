//! The test client: wire order, and words for what did not come.

use serde_json::{Value, json};
use turnlane_rpc::{Duplex, Incoming, Outgoing, Peer, PeerOptions};
use turnlane_testkit::{Ending, Error, TestClient};

/// A server that tells before it answers, and closes when it is told to.
fn connected() -> TestClient {
    let (near, far) = Duplex::memory();
    let (peer, mut inbox) = Peer::start(far, PeerOptions::default());
    tokio::spawn(async move {
        while let Some(message) = inbox.next().await {
            match message {
                Incoming::Request(request) => {
                    let note = format!(r#"{{"method":"before","params":"{}"}}"#, request.method);
                    peer.notify(&Outgoing::kept(note, None));
                    request.responder.respond(request.params.parse::<Value>());
                }
                Incoming::Notification(_) => peer.close(),
            }
        }
    });
    TestClient::new(near)
}

#[tokio::test]
async fn everything_is_kept_in_wire_order() {
    let mut client = connected();
    let first = client.request("a", json!(1)).await.unwrap();
    let second = client.request("b", json!(2)).await.unwrap();
    // Looked for in another order than they came.
    assert_eq!(client.answer(second).await.unwrap()["result"], 2);
    assert_eq!(client.answer(first).await.unwrap()["result"], 1);
    assert_eq!(client.message("before").await.unwrap()["params"], "a");
    let seen: Vec<Value> = client.received().to_vec();
    assert_eq!(
        seen,
        [
            json!({"method": "before", "params": "a"}),
            json!({"id": first, "result": 1}),
            json!({"method": "before", "params": "b"}),
            json!({"id": second, "result": 2}),
        ]
    );
    client.send_raw("not json").await.unwrap();
    assert_eq!(client.next().await.unwrap()["error"]["code"], -32700);
}

#[tokio::test]
async fn what_can_no_longer_come_is_an_error_that_shows_what_came() {
    let mut client = connected();
    client.call("a", json!("seen")).await.unwrap();
    client.notify("close", json!({})).await.unwrap();
    let error = client.message("never").await.unwrap_err();
    assert!(matches!(error, Error::Over { .. }));
    let text = error.to_string();
    assert!(
        text.contains("a message never cannot happen any more"),
        "{text}"
    );
    assert!(text.contains(r#""result":"seen""#), "{text}");
    assert_eq!(client.ending().await.unwrap(), Ending::Cut);
}
