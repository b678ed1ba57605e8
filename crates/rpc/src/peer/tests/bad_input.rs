//! What is no request gets its answer, and the connection goes on.

use super::*;

/// The rows of the table: what is sent, the id that comes back, the code and the text.
fn rows() -> Vec<(Bytes, Value, i64, &'static str)> {
    let batch = "batch requests are not supported";
    let bad_id = "Invalid request: id must be a string or an integer";
    let no_method = "Invalid request: missing field `method`";
    let row = |frame: &'static str, id, code, text| (Bytes::from(frame), id, code, text);
    vec![
        row("not json", json!(null), -32700, "Parse error: "),
        row(
            r#"{"id":1,"method":"echo""#,
            json!(null),
            -32700,
            "Parse error: ",
        ),
        (
            Bytes::from_static(b"{\"id\":1,\"method\":\"\xff\xfe\"}"),
            json!(null),
            -32700,
            "Parse error: ",
        ),
        row("[]", json!(null), -32600, batch),
        row(
            r#"[{"id":1,"method":"echo"},{"id":2,"method":"echo"}]"#,
            json!(null),
            -32600,
            batch,
        ),
        row("{}", json!(null), -32600, no_method),
        row(r#"{"id":7}"#, json!(7), -32600, no_method),
        row(
            r#"{"id":"seven","params":{}}"#,
            json!("seven"),
            -32600,
            no_method,
        ),
        row(r#"{"id":{},"params":{}}"#, json!(null), -32600, no_method),
        row(
            r#"{"id":null,"method":"echo"}"#,
            json!(null),
            -32600,
            bad_id,
        ),
        row(r#"{"id":1.5,"method":"echo"}"#, json!(null), -32600, bad_id),
        row(r#"{"id":[1],"method":"echo"}"#, json!(null), -32600, bad_id),
        row(
            r#"{"id":true,"method":"echo"}"#,
            json!(null),
            -32600,
            bad_id,
        ),
    ]
}

#[tokio::test]
async fn every_row_is_answered_over_every_link_and_the_connection_goes_on() {
    for link in Link::ALL {
        let (server, client) = link.connected();
        let _server = echo_server(server, PeerOptions::default());
        let mut raw = Raw::new(client);
        for (frame, id, code, text) in rows() {
            raw.send(frame.clone()).await;
            let answer = raw.receive().await;
            assert_eq!(answer["id"], id, "{link:?} {frame:?}");
            assert!(answer.get("id").is_some() && answer.get("jsonrpc").is_none());
            assert_eq!(answer["error"]["code"], code, "{link:?} {frame:?}");
            let message = answer["error"]["message"].as_str().unwrap();
            match text {
                "Parse error: " => assert!(message.starts_with(text), "{link:?} {message}"),
                _ => assert_eq!(message, text, "{link:?} {frame:?}"),
            }
            assert!(answer["error"]["data"]["reason"].is_string());
            raw.check_echo().await;
        }
    }
}

#[tokio::test]
async fn answers_nobody_waits_for_are_never_answered() {
    for link in Link::ALL {
        let (server, client) = link.connected();
        let _server = echo_server(server, PeerOptions::default());
        let mut raw = Raw::new(client);
        for frame in [
            r#"{"id":99,"result":{}}"#,
            r#"{"id":null,"error":{"code":-1,"message":"m"}}"#,
            r#"{"id":1,"error":"not an object"}"#,
            r#"{"method":"unknown/notification","params":{}}"#,
        ] {
            raw.send(frame).await;
            // The next thing that comes is the echo, so nothing was answered.
            raw.check_echo().await;
        }
    }
}

#[tokio::test]
async fn empty_lines_mean_nothing_and_binary_frames_are_ignored() {
    let (server, client) = tokio::io::duplex(1024);
    let _server = echo_server(
        Link::Lines.over(server, Role::Server),
        PeerOptions::default(),
    );
    let (reader, mut writer) = tokio::io::split(client);
    tokio::io::AsyncWriteExt::write_all(&mut writer, b"\n\r\n   \n")
        .await
        .unwrap();
    Raw::new(Duplex::lines(reader, writer)).check_echo().await;

    let (server, client) = tokio::io::duplex(1024);
    let _server = echo_server(
        Link::WebSocket.over(server, Role::Server),
        PeerOptions::default(),
    );
    let (reader, mut writer) = tokio::io::split(client);
    let binary = b"\x82\x83\0\0\0\0{}x";
    tokio::io::AsyncWriteExt::write_all(&mut writer, binary)
        .await
        .unwrap();
    Raw::new(Duplex::websocket(Role::Client, &[], reader, writer))
        .check_echo()
        .await;
}

#[tokio::test]
async fn a_message_above_64_mib_is_refused_or_closes_the_websocket() {
    for link in [Link::Lines, Link::Length] {
        let (server, client) = link.connected_by(1 << 20);
        let _server = echo_server(server, PeerOptions::default());
        let mut raw = Raw::new(client);
        let mut frame = br#"{"id":5,"method":"echo","params":""#.to_vec();
        frame.resize((64 << 20) - 1, b'x');
        frame.extend_from_slice(b"\"}");
        raw.send(frame).await;
        let answer = raw.receive().await;
        assert_eq!(answer["id"], json!(null), "{link:?}");
        assert_eq!(answer["error"]["code"], -32600);
        assert_eq!(answer["error"]["message"], "message exceeds 67108864 bytes");
        raw.check_echo().await;
    }
    let (server, client) = tokio::io::duplex(1024);
    let server = echo_server(
        Link::WebSocket.over(server, Role::Server),
        PeerOptions::default(),
    );
    let (reader, mut writer) = tokio::io::split(client);
    let mut announced = b"\x81\xff".to_vec();
    announced.extend_from_slice(&((64u64 << 20) + 1).to_be_bytes());
    announced.extend_from_slice(&[0; 4]);
    tokio::io::AsyncWriteExt::write_all(&mut writer, &announced)
        .await
        .unwrap();
    let mut raw = Raw::new(Duplex::websocket(Role::Client, &[], reader, writer));
    assert_eq!(
        within("the close frame", raw.reader.next()).await.unwrap(),
        Some(Inbound::Close(1009))
    );
    assert_eq!(
        within("the end", server.closed()).await,
        CloseReason::TooLarge
    );
}

#[tokio::test]
async fn a_refusal_names_the_limit_of_its_connection() {
    let (server, client) = tokio::io::duplex(1024);
    let (reader, writer) = tokio::io::split(server);
    let _server = echo_server(
        Duplex::length_prefixed(reader, writer, 100),
        PeerOptions::default(),
    );
    let mut raw = Raw::new(Link::Length.over(client, Role::Client));
    raw.send("x".repeat(101)).await;
    let refusal = raw.receive().await;
    assert_eq!(refusal["error"]["message"], "message exceeds 100 bytes");
    raw.check_echo().await;
}

#[tokio::test]
async fn a_message_of_exactly_64_mib_is_served() {
    let (server, client) = Link::Lines.connected_by(1 << 20);
    let _server = echo_server(server, PeerOptions::default());
    let mut raw = Raw::new(client);
    let mut frame = br#"{"id":5,"method":"nobody serves this","params":""#.to_vec();
    frame.resize((64 << 20) - 2, b'x');
    frame.extend_from_slice(b"\"}");
    assert_eq!(frame.len(), 64 << 20);
    raw.send(frame).await;
    assert_eq!(raw.receive().await["id"], 5);
}

#[tokio::test]
async fn ids_are_echoed_byte_for_byte_and_may_be_used_twice() {
    let (server, client) = Link::Memory.connected();
    let _server = echo_server(server, PeerOptions::default());
    let mut raw = Raw::new(client);
    for id in [
        r#""\u0061\/""#,
        "-0",
        "9223372036854775807",
        r#""""#,
        "7",
        "7",
    ] {
        raw.send(format!(
            r#"{{"params":1,"id":{id},"jsonrpc":"2.0","method":"echo"}}"#
        ))
        .await;
        let Ok(Some(Inbound::Message(frame))) = raw.reader.next().await else {
            panic!("no answer")
        };
        assert_eq!(frame, format!(r#"{{"id":{id},"result":1}}"#));
    }
}
