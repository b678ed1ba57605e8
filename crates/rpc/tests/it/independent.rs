//! Our websocket framing against an implementation that is not ours, in both roles.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use turnlane_rpc::auth::WsAuth;
use turnlane_rpc::connect::{self, connect_ws};
use turnlane_rpc::listen::{Listener, Options};
use turnlane_rpc::{CallError, CloseReason, Incoming, Peer, PeerOptions};

use crate::support::{Served, loopback, within};

type Theirs = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Our echo server and their client.
async fn their_client() -> (Peer, Theirs) {
    let listener = Listener::bind_tcp(loopback(), WsAuth::None, Options::default()).unwrap();
    let mut served = Served::start(listener);
    let url = format!("ws://{}/any/path", served.addr());
    let (theirs, _) = within(tokio_tungstenite::connect_async(url)).await.unwrap();
    let (peer, mut inbox) = Peer::start(served.next().await.duplex, PeerOptions::default());
    tokio::spawn(async move {
        let _served = served;
        while let Some(message) = inbox.next().await {
            if let Incoming::Request(request) = message {
                request.responder.respond(request.params.parse::<Value>());
            }
        }
    });
    (peer, theirs)
}

async fn next(theirs: &mut Theirs) -> Message {
    within(theirs.next()).await.expect("a message").unwrap()
}

async fn echoed(theirs: &mut Theirs) -> Value {
    let message = next(theirs).await;
    serde_json::from_str(message.to_text().unwrap()).unwrap()
}

fn request(params: &Value) -> String {
    json!({"id": 1, "method": "echo", "params": params}).to_string()
}

fn piece(text: &str, kind: Data, is_last: bool) -> Message {
    Message::Frame(Frame::message(text.to_owned(), OpCode::Data(kind), is_last))
}

#[tokio::test]
async fn messages_of_every_length_are_echoed() {
    let (_peer, mut theirs) = their_client().await;
    // Around the places where the length changes its form and where payloads are shared.
    for length in [
        0,
        1,
        50,
        80,
        100,
        125,
        126,
        127,
        4_000,
        16_300,
        16_400,
        65_500,
        65_600,
        3 << 20,
    ] {
        let params = Value::from("x".repeat(length));
        theirs.send(Message::text(request(&params))).await.unwrap();
        assert_eq!(echoed(&mut theirs).await["result"], params, "{length}");
    }
}

#[tokio::test]
async fn fragments_pings_and_binary_messages_between_are_taken() {
    let (_peer, mut theirs) = their_client().await;
    let text = request(&json!("in pieces"));
    let (first, rest) = text.split_at(10);
    let (second, third) = rest.split_at(7);
    for message in [
        Message::binary(vec![0xff; 1000]),
        piece(first, Data::Text, false),
        Message::Ping("between".into()),
        piece(second, Data::Continue, false),
        piece("", Data::Continue, false),
        piece(third, Data::Continue, true),
    ] {
        theirs.send(message).await.unwrap();
    }
    // The pong may come before or after the answer.
    let (mut pong, mut answer) = (None, None);
    while pong.is_none() || answer.is_none() {
        match next(&mut theirs).await {
            Message::Pong(payload) => pong = Some(payload),
            other => answer = Some(other.into_text().unwrap()),
        }
    }
    assert_eq!(pong.unwrap(), "between");
    assert_eq!(answer.unwrap(), r#"{"id":1,"result":"in pieces"}"#);
}

#[tokio::test]
async fn a_text_that_is_not_utf8_is_answered_and_the_connection_goes_on() {
    let (_peer, mut theirs) = their_client().await;
    let bad = Frame::message(vec![b'"', 0xff, b'"'], OpCode::Data(Data::Text), true);
    theirs.send(Message::Frame(bad)).await.unwrap();
    let refusal = echoed(&mut theirs).await;
    assert_eq!(
        (&refusal["id"], &refusal["error"]["code"]),
        (&json!(null), &json!(-32700))
    );
    theirs
        .send(Message::text(request(&json!(2))))
        .await
        .unwrap();
    assert_eq!(echoed(&mut theirs).await["result"], 2);
}

#[tokio::test]
async fn the_closing_handshake_works_from_both_sides() {
    let (peer, mut theirs) = their_client().await;
    theirs.close(None).await.unwrap();
    assert!(matches!(next(&mut theirs).await, Message::Close(_)));
    assert_eq!(within(peer.closed()).await, CloseReason::Remote);

    let (peer, mut theirs) = their_client().await;
    peer.close();
    let Message::Close(Some(CloseFrame { code, .. })) = next(&mut theirs).await else {
        panic!("not a close frame");
    };
    assert_eq!(code, CloseCode::Normal);
    // Their half is closed by reading on.
    while within(theirs.next()).await.is_some_and(|next| next.is_ok()) {}
    assert_eq!(within(peer.closed()).await, CloseReason::Local);
}

#[tokio::test]
async fn our_client_speaks_to_their_server() {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut theirs = tokio_tungstenite::accept_async(stream).await.unwrap();
        while let Some(Ok(message)) = theirs.next().await {
            let Message::Text(text) = message else {
                continue;
            };
            let asked: Value = serde_json::from_str(&text).unwrap();
            let answer = json!({"id": asked["id"], "result": asked["params"]}).to_string();
            let (first, second) = answer.split_at(answer.len() / 2);
            for message in [
                piece(first, Data::Text, false),
                Message::Ping("alive?".into()),
                piece(second, Data::Continue, true),
            ] {
                theirs.send(message).await.unwrap();
            }
        }
    });
    let duplex = connect_ws(&url, &connect::Options::default())
        .await
        .unwrap();
    let (peer, _inbox) = Peer::start(duplex, PeerOptions::default());
    for length in [0, 100, 126, 20_000, 70_000, 1 << 20] {
        let params = Value::from("é".repeat(length));
        let echoed: Result<Value, CallError> = within(peer.call("echo", &params)).await;
        assert_eq!(echoed.unwrap(), params, "{length}");
    }
    peer.close();
    assert_eq!(within(peer.closed()).await, CloseReason::Local);
    within(server).await.unwrap();
}
