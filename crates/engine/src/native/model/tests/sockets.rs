//! Connections: how many there are, and what servers do to them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use turnlane_protocol::turn_error::CodexErrorInfo;
use turnlane_testkit::mock_model::{MockModel, Reply};

use super::*;

/// Stands before a mock and counts connections.
async fn counted(mock: &MockModel) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let (counter, address) = (Arc::clone(&count), mock.address());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(address).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (url, count)
}

#[tokio::test]
async fn a_thousand_calls_use_a_handful_of_connections() {
    let mock = MockModel::start().await.unwrap();
    mock.choose_with(|_| Some(Reply::text("ok")));
    let (url, count) = counted(&mock).await;
    let stage = Stage::at(&url);
    for _ in 0..1000 {
        stage.play().await.response();
    }
    let count = count.load(Ordering::Relaxed);
    assert!(count <= 8, "{count} connections");
}

/// A server that reads each request and answers with these bytes, then closes.
async fn raw(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut asked = Vec::new();
            let mut buffer = [0; 4096];
            // A body is one JSON object and ends with its bracket.
            while !asked.ends_with(b"]}") {
                let read = client.read(&mut buffer).await.unwrap();
                asked.extend_from_slice(&buffer[..read]);
            }
            client.write_all(answer).await.unwrap();
            client.shutdown().await.unwrap();
            let _ = client.read(&mut buffer).await;
        }
    });
    url
}

async fn once(answer: &'static [u8]) -> Played {
    let stage = Stage::at(&raw(answer).await).limits(|limits| {
        (limits.request_max_retries, limits.stream_max_retries) = (0, 0);
    });
    let played = stage.play().await;
    played.adds_up();
    played
}

#[tokio::test]
async fn a_body_whose_chunks_are_broken_is_a_broken_stream() {
    let played = once(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    )
    .await;
    let failure = played.failure();
    let info = CodexErrorInfo::ResponseStreamDisconnected {
        http_status_code: None,
    };
    assert_eq!(failure.info, info);
    let start = "stream disconnected before completion: ";
    assert!(failure.message.starts_with(start), "{}", failure.message);
}

#[tokio::test]
async fn what_is_not_http_is_a_failed_connection() {
    for answer in [b"SSH-2.0-nothing\r\n".as_slice(), b"", b"HTTP/1.1 200"] {
        let played = once(answer).await;
        let info = CodexErrorInfo::HttpConnectionFailed {
            http_status_code: None,
        };
        assert_eq!(played.failure().info, info);
        assert_eq!(played.failure().attempts, 1);
    }
}

#[tokio::test]
async fn the_last_event_counts_without_its_blank_line() {
    let played = once(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n\
          data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[\
          {\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"fin\"}]}]}}",
    )
    .await;
    assert_eq!(played.response().last_message.as_ref().unwrap().1, "fin");
}

#[tokio::test]
async fn the_body_of_an_error_is_read_in_part() {
    let mock = MockModel::start().await.unwrap();
    let text = "long ".repeat(1 << 20);
    mock.push(Reply::json(401, &json!({"error": {"message": text}})));
    let played = Stage::of(&mock).play().await;
    assert!(played.failure().message.len() < 4096);
}

#[tokio::test]
async fn nobody_at_the_address_is_a_failed_connection() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let played = Stage::at(&url).play().await;
    assert_eq!(played.retries(), ["Reconnecting... 1/1"]);
    assert!(played.failure().message.contains("refused"));
    assert_eq!(played.failure().details().as_deref(), Some("attempts=2"));
}

#[tokio::test]
async fn a_large_body_that_moves_slowly_is_not_silence() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let idle_max = Duration::from_millis(1_200);
    let mut stage = Stage::at(&url).limits(|limits| limits.stream_idle_timeout = idle_max);
    stage.history = vec![author().note(&"x".repeat(16 << 20))];
    let running = stage.start();
    let (mut client, _) = listener.accept().await.unwrap();
    let mut mebibyte = vec![0; 1 << 20];
    let before = tokio::time::Instant::now();
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..16 {
        pace.tick().await;
        client.read_exact(&mut mebibyte).await.unwrap();
    }
    assert!(before.elapsed() > idle_max);
    // The few bytes around the text; a socket closed over unread ones takes its answer back.
    let mut asked = mebibyte;
    while !asked.ends_with(b"]}") {
        asked.push(client.read_u8().await.unwrap());
    }
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{\"output\":[]}";
    client.write_all(answer.as_bytes()).await.unwrap();
    drop(client);
    running.finish().await.response();
}
