//! What a caller learns when there is no connection.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use turnlane_rpc::auth::{Secret, WsAuth};
use turnlane_rpc::connect::{ConnectError, Options, connect_unix, connect_unix_lines, connect_ws};
use turnlane_rpc::listen::{self, ConnectionLimit, Listener};

use crate::support::{Served, TOKEN, loopback, within};

fn with_token(token: &str) -> Options {
    Options {
        token: Some(Secret::from(token)),
        ..Options::default()
    }
}

async fn failure(url: &str, options: &Options) -> ConnectError {
    within(connect_ws(url, options)).await.unwrap_err()
}

/// A server that reads a request and answers with `answer`, whatever was asked.
async fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    url
}

#[tokio::test]
async fn a_token_opens_the_connection() {
    let mut served = Served::with_token(listen::Options::default());
    let url = format!("ws://{}/path?query", served.addr());
    let _client = within(connect_ws(&url, &with_token(TOKEN))).await.unwrap();
    served.next().await;
    let url = format!("ws://localhost:{}", served.addr().port());
    let _client = within(connect_ws(&url, &with_token(TOKEN))).await.unwrap();
    served.next().await;
}

#[tokio::test]
async fn refusals_carry_what_the_server_said() {
    let served = Served::with_token(listen::Options::default());
    let url = format!("ws://{}", served.addr());
    let rows = [
        (Options::default(), "missing websocket bearer token"),
        (with_token("other"), "invalid websocket bearer token"),
    ];
    for (options, expected) in rows {
        let error = failure(&url, &options).await;
        assert!(
            matches!(&error, ConnectError::Unauthorized { body } if body == expected),
            "{error}"
        );
    }
    let headers = [(
        "origin".parse().unwrap(),
        "http://evil.example".parse().unwrap(),
    )];
    let page = Options {
        headers: headers.into_iter().collect(),
        ..with_token(TOKEN)
    };
    let error = failure(&url, &page).await;
    assert!(
        matches!(&error, ConnectError::Unauthorized { body } if body == "origin not allowed"),
        "{error}"
    );
}

#[tokio::test]
async fn an_overloaded_server_is_an_http_status() {
    let options = listen::Options {
        connections: ConnectionLimit::new(0),
        ..listen::Options::default()
    };
    let served = Served::start(Listener::bind_tcp(loopback(), WsAuth::None, options).unwrap());
    let error = failure(&format!("ws://{}", served.addr()), &Options::default()).await;
    assert!(
        matches!(&error, ConnectError::HttpStatus { code: 503, body } if body == "too many connections"),
        "{error}"
    );
}

#[tokio::test]
async fn nobody_there_is_refused() {
    // Bound and not listening, so that nobody else can listen there meanwhile.
    let reserved = TcpSocket::new_v4().unwrap();
    reserved.bind(loopback()).unwrap();
    let url = format!("ws://{}", reserved.local_addr().unwrap());
    let error = failure(&url, &Options::default()).await;
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");

    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("absent.sock");
    let options = Options::default();
    for result in [
        connect_unix(&path, &options).await,
        connect_unix_lines(&path, &options).await,
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    }
    let long = home.path().join("x".repeat(200));
    let error = connect_unix(&long, &options).await.unwrap_err();
    assert!(
        matches!(error, ConnectError::InvalidEndpoint { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_says_nothing_costs_only_the_given_time() {
    let listener = TcpListener::bind(loopback()).await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let options = Options {
        time_max: Duration::from_millis(50),
        ..Options::default()
    };
    let error = failure(&url, &options).await;
    assert!(
        matches!(error, ConnectError::Timeout { after } if after == options.time_max),
        "{error}"
    );
}

#[tokio::test]
async fn answers_that_are_no_websocket_are_told_apart() {
    let rows = [
        (
            "hello\r\n\r\n",
            "not a websocket server: its answer is not HTTP",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
            "not a websocket server: it did not answer our key",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
            "not a websocket server: it switches to another protocol",
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
            "the server answered 302: ",
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
            "the server answered 200: hi",
        ),
        ("", "the connection was refused"),
    ];
    for (answer, expected) in rows {
        let error = failure(&answering(answer).await, &Options::default()).await;
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn a_long_body_is_cut() {
    let mut answer = "HTTP/1.1 500 Oops\r\n\r\n".to_owned();
    answer.push_str(&"x".repeat(100_000));
    let error = failure(&answering(answer.leak()).await, &Options::default()).await;
    let ConnectError::HttpStatus { code: 500, body } = error else {
        panic!("{error}");
    };
    assert_eq!(body.len(), 4096);
}

#[tokio::test]
async fn bad_endpoints_are_refused_before_any_packet() {
    let plain = Options::default();
    let bearer = [(
        "authorization".parse().unwrap(),
        "Bearer x".parse().unwrap(),
    )];
    let in_header = Options {
        headers: bearer.into_iter().collect(),
        ..Options::default()
    };
    let host = [("host".parse().unwrap(), "x".parse().unwrap())];
    let reserved = Options {
        headers: host.into_iter().collect(),
        ..Options::default()
    };
    let token = with_token(TOKEN);
    let unsendable = with_token("two\nlines");
    let rows = [
        #[cfg(not(feature = "tls"))]
        (
            "wss://127.0.0.1:1",
            &plain,
            "wss:// needs the feature `tls`",
        ),
        ("http://127.0.0.1:1", &plain, "expected a ws:// URL"),
        (
            "ws://user@127.0.0.1:1",
            &plain,
            "a URL carries no credentials",
        ),
        (
            "ws://192.0.2.1:1",
            &token,
            "a token is sent over ws:// to a loopback address only",
        ),
        (
            "ws://192.0.2.1:1",
            &in_header,
            "a token is sent over ws:// to a loopback address only",
        ),
        (
            "ws://localhost.example:1",
            &token,
            "a token is sent over ws:// to a loopback address only",
        ),
        (
            "ws://127.0.0.1:1",
            &reserved,
            "the header host belongs to the handshake",
        ),
        (
            "ws://127.0.0.1:1",
            &unsendable,
            "the token does not fit into a header",
        ),
    ];
    for (url, options, reason) in rows {
        let error = failure(url, options).await;
        assert_eq!(
            error.to_string(),
            format!("invalid endpoint: {reason}"),
            "{url}"
        );
    }
}
