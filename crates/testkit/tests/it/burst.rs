//! Bursts and starving readers against a server process: every request is answered, and memory
//! stays within a stated bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use turnlane_rpc::{Frames, Inbound};
use turnlane_testkit::{Ending, wait};

use crate::echo::{EchoServer, Over};

const REQUESTS: usize = 100_000;
const PARAM_BYTES: usize = 1000;
/// All answers together are 100 MB. A connection holds at most 16 MiB of unwritten answers and
/// 16 MiB of unread requests, and a batch on its way out; the allocator keeps some more.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// A writer that made no progress between this many looks is stuck.
const LOOKS_UNCHANGED: u32 = 100;
/// The whole burst, in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_requests_written_at_once_get_a_hundred_thousand_answers() {
    for over in Over::ALL {
        let mut server = EchoServer::start(over).await;
        let Frames {
            mut reader,
            mut writer,
            ..
        } = server.connect().await.into_frames();
        let before = server.process.rss_bytes().unwrap();
        let written = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&written);
        let writing = tokio::spawn(async move {
            let text = "x".repeat(PARAM_BYTES);
            for id in 0..REQUESTS {
                writer.push(format!(r#"{{"id":{id},"method":"echo","params":"{text}"}}"#).into());
                if id % 64 == 63 || id + 1 == REQUESTS {
                    writer
                        .flush(PATIENCE)
                        .await
                        .expect("the server goes on reading");
                    counter.store(id + 1, Ordering::Relaxed);
                }
            }
            writer
        });

        // The reader starts late: when nothing more can be written, because every buffer between
        // here and the server's outbox is full.
        let (mut last, mut unchanged) = (0, 0);
        wait::eventually("the writer to be stuck", PATIENCE, async || {
            let now = written.load(Ordering::Relaxed);
            unchanged = if now == last { unchanged + 1 } else { 0 };
            last = now;
            now > 0 && unchanged == LOOKS_UNCHANGED
        })
        .await
        .unwrap();
        assert!(
            last < REQUESTS,
            "{over:?}: the server has read everything: no bound"
        );

        for id in 0..REQUESTS {
            let next = wait::within("an answer", PATIENCE, reader.next())
                .await
                .unwrap();
            let Ok(Some(Inbound::Message(frame))) = next else {
                panic!(
                    "{over:?}: no answer to {id}: {next:?}; {}",
                    server.process.stderr_tail()
                );
            };
            let start = format!(r#"{{"id":{id},"result":"xxx"#);
            assert!(
                frame.starts_with(start.as_bytes()),
                "{over:?}: in order and to the right id"
            );
        }
        // Kept open: the end of its input would end the server before we look at its memory.
        let _writer = writing.await.unwrap();
        let grown = server
            .process
            .rss_peak_bytes()
            .unwrap()
            .saturating_sub(before);
        assert!(grown < MEMORY_BYTES_MAX, "{over:?}: {} MiB", grown >> 20);
        #[expect(clippy::print_stderr, reason = "a figure, for those who look")]
        {
            eprintln!("{over:?}: stuck at {last}, grown by {} KiB", grown >> 10);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_is_closed_and_its_neighbour_is_served() {
    for over in [Over::Unix, Over::WebSocket] {
        let mut server = EchoServer::start(over).await;
        let mut starving = server.client().await;
        let mut neighbour = server.client().await;
        // 100 MB at once, above the 64 MiB that may wait for one connection.
        starving
            .request("flood", json!({"count": 100, "bytes": 1_000_000}))
            .await
            .unwrap();
        for n in 0..200 {
            let answer = neighbour.call("echo", json!(n)).await.unwrap();
            assert_eq!(answer["result"], n, "{over:?}");
        }
        assert_eq!(
            starving.ending().await.unwrap(),
            Ending::Closed(1013),
            "{over:?}"
        );
        assert_eq!(
            neighbour.call("echo", json!("after")).await.unwrap()["result"],
            "after"
        );
        let mut again = server.client().await;
        assert_eq!(
            again.call("echo", json!("again")).await.unwrap()["result"],
            "again"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_input_is_answered_to_the_last_request() {
    for over in [Over::Stdio, Over::UnixLines] {
        let mut server = EchoServer::start(over).await;
        let mut client = server.client().await;
        let mut last = 0;
        for n in 0..1000 {
            last = client.request("echo", json!(n)).await.unwrap();
        }
        client.finish().await.unwrap();
        client.answer(last).await.unwrap();
        assert_eq!(client.received().len(), 1000, "{over:?}");
        // A pipe ends when its last writer is gone.
        drop(client);
        if over == Over::Stdio {
            let status = server.process.wait(wait::DEADLINE).await.unwrap();
            assert!(status.success(), "{status:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_ends_every_call_within_a_second() {
    for over in Over::ALL {
        let mut server = EchoServer::start(over).await;
        let options = turnlane_rpc::PeerOptions::default();
        let (peer, inbox) = turnlane_rpc::Peer::start(server.connect().await, options);
        assert_eq!(peer.call::<i64>("echo", &1).await.unwrap(), 1);
        server.process.stop().unwrap();
        let calls: Vec<_> = (0..100)
            .map(|n| {
                let peer = peer.clone();
                tokio::spawn(async move { peer.call::<i64>("echo", &n).await })
            })
            .collect();
        wait::eventually("the requests to be out", wait::DEADLINE, async || {
            peer.waiting().messages == 0
        })
        .await
        .unwrap();
        server.process.kill9().await.unwrap();
        for call in calls {
            let ended = wait::within("the call to end", Duration::from_secs(1), call).await;
            assert!(ended.unwrap().unwrap().is_err(), "{over:?}");
        }
        drop(inbox);
    }
}
