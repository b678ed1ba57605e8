//! Slow listeners and slow readers: what they lose is counted, and nobody else notices.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use turnlane_exec_server::client::{
    ClientError, Event, ExecClient, ProcessOutput, RemoteProcess, StartSpec,
};
use turnlane_process::Until;

use super::fake::{Fake, Plays, connected};

async fn started(client: &ExecClient, fake: &mut Fake<DuplexStream>) -> RemoteProcess {
    let start = client.start(StartSpec::new(["sh"], "/w"));
    let (process, _) = tokio::join!(start, fake.started());
    process.unwrap()
}

/// Sends `count` pieces of `len` bytes from number `first` on.
async fn pour(fake: &mut Fake<DuplexStream>, id: &str, first: u64, count: u64, len: usize) {
    for seq in first..first + count {
        fake.output(id, seq, &piece(seq, len)).await;
    }
}

fn piece(seq: u64, len: usize) -> Vec<u8> {
    vec![u8::try_from(seq % 256).unwrap(); len]
}

#[tokio::test]
async fn a_slow_listener_loses_the_oldest_and_learns_how_much() {
    let (client, mut fake) = connected(Plays::Ours).await;
    let mut slow = client.events();
    let mut quick = client.events();
    let process = started(&client, &mut fake).await;
    let id = process.id().to_string();
    let taking = async {
        let mut seen = 0;
        while !matches!(quick.next().await, Some(Event::Closed { .. })) {
            seen += 1;
        }
        seen
    };
    let pouring = async {
        pour(&mut fake, &id, 1, 9000, 10).await;
        fake.exited(&id, 9001, 0).await;
        pour(&mut fake, &id, 9002, 100, 10).await;
        fake.closed(&id, 9102).await;
    };
    let (seen, ()) = tokio::join!(taking, pouring);
    assert_eq!(seen, 9101, "the quick one got everything");

    let mut next = 1;
    let mut markers = 0;
    let mut exits = 0;
    while let Some(event) = slow.try_next() {
        match event {
            Event::Lagged { events, bytes, .. } => {
                assert_eq!(bytes, events * 10);
                next += events;
                markers += 1;
            }
            Event::Output { seq, .. } => {
                assert_eq!(seq, next);
                next += 1;
            }
            Event::Exited { seq, .. } | Event::Closed { seq, .. } => {
                assert_eq!(seq, next);
                next += 1;
                exits += 1;
            }
            Event::Disconnected { .. } | Event::Resumed => panic!("{event:?}"),
        }
    }
    assert_eq!((next, markers, exits), (9103, 1, 2));
}

#[tokio::test]
async fn a_listener_that_takes_nothing_does_not_stall_the_connection() {
    let (client, mut fake) = connected(Plays::Ours).await;
    let _stuck = client.events();
    let process = started(&client, &mut fake).await;
    let id = process.id().to_string();
    let _untaken = process.output().unwrap();
    pour(&mut fake, &id, 1, 200, 64 * 1024).await;
    let serving = fake.serve("process/list", json!({"processes": []}));
    let (listed, _) = tokio::join!(client.list(), serving);
    assert!(listed.unwrap().is_empty());
    fake.exited(&id, 201, 0).await;
    let exit = process.wait(Until::Exited, None).await.unwrap().unwrap();
    assert_eq!(exit.code, 0);
}

/// A server's answer to `process/read` that still has the given numbers.
fn page(params: &Value, kept: impl Iterator<Item = u64>, len: usize, next_seq: u64) -> Value {
    let after = params["afterSeq"].as_u64().unwrap();
    let room = params["maxBytes"].as_u64().unwrap();
    let room = usize::try_from(room).unwrap() / len;
    let seqs: Vec<u64> = kept.filter(|seq| *seq > after).take(room).collect();
    let next = seqs.last().map_or(next_seq, |last| last + 1);
    let chunks: Vec<Value> = seqs
        .iter()
        .map(|seq| json!({"seq": seq, "stream": "stdout", "chunk": STANDARD.encode(piece(*seq, len))}))
        .collect();
    json!({"chunks": chunks, "nextSeq": next, "exited": false, "exitCode": null, "closed": false,
        "failure": null, "sandboxDenied": false})
}

/// Reads to the close and checks that every number was told or counted; what was missing, in order.
async fn read_all(output: &mut ProcessOutput, len: usize) -> Vec<(u64, u64, u64)> {
    let mut next = 1;
    let mut missing = Vec::new();
    while let Some(event) = output.next().await.unwrap() {
        match event {
            Event::Output { seq, bytes, .. } => {
                assert_eq!(seq, next);
                assert!(bytes == piece(seq, len));
                next += 1;
            }
            Event::Exited { seq, .. } | Event::Closed { seq, .. } => {
                assert_eq!(seq, next);
                next += 1;
            }
            Event::Lagged { events, bytes, .. } => {
                missing.push((next, events, bytes));
                next += events;
            }
            Event::Disconnected { .. } | Event::Resumed => panic!("{event:?}"),
        }
    }
    missing
}

#[tokio::test]
async fn a_slow_reader_reads_on_from_the_server() {
    const LEN: usize = 32 * 1024;
    let (client, mut fake) = connected(Plays::Ours).await;
    let process = started(&client, &mut fake).await;
    let id = process.id().to_string();
    let mut output = process.output().unwrap();
    pour(&mut fake, &id, 1, 300, LEN).await;
    fake.exited(&id, 301, 0).await;
    fake.closed(&id, 302).await;
    process.wait(Until::Closed, None).await.unwrap();
    let serving = async {
        loop {
            let asked = fake.asked("process/read").await;
            let answer = page(&asked.params, 1..=300, LEN, 303);
            fake.answer(&asked, answer).await;
        }
    };
    let missing = tokio::select! {
        missing = read_all(&mut output, LEN) => missing,
        () = serving => unreachable!("it serves for ever"),
    };
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test]
async fn what_the_server_has_no_more_is_counted_where_it_is_missing() {
    const LEN: usize = 32 * 1024;
    let (client, mut fake) = connected(Plays::Ours).await;
    let process = started(&client, &mut fake).await;
    let id = process.id().to_string();
    let mut output = process.output().unwrap();
    pour(&mut fake, &id, 1, 400, LEN).await;
    fake.exited(&id, 401, 0).await;
    fake.closed(&id, 402).await;
    process.wait(Until::Closed, None).await.unwrap();
    let serving = async {
        loop {
            let asked = fake.asked("process/read").await;
            let kept = (1..=400).filter(|seq| !(150..200).contains(seq) && *seq != 300);
            let answer = page(&asked.params, kept, LEN, 403);
            fake.answer(&asked, answer).await;
        }
    };
    let missing = tokio::select! {
        missing = read_all(&mut output, LEN) => missing,
        () = serving => unreachable!("it serves for ever"),
    };
    let len = LEN as u64;
    assert_eq!(missing, [(150, 50, 50 * len), (300, 1, len)]);
}

#[tokio::test]
async fn a_process_the_server_forgot_is_one_loss_and_still_ends() {
    const LEN: usize = 32 * 1024;
    let (client, mut fake) = connected(Plays::Ours).await;
    let process = started(&client, &mut fake).await;
    let id = process.id().to_string();
    // Nobody takes it, so only the first 4 MiB are waiting here: 127 pieces and what they cost.
    pour(&mut fake, &id, 1, 140, LEN).await;
    fake.exited(&id, 141, 0).await;
    pour(&mut fake, &id, 142, 3, LEN).await;
    fake.closed(&id, 145).await;
    process.wait(Until::Closed, None).await.unwrap();
    let mut output = process.output().unwrap();
    let forgetting = async {
        let asked = fake.asked("process/read").await;
        fake.refuse(&asked, -32600, "unknown process id").await;
    };
    let (missing, ()) = tokio::join!(read_all(&mut output, LEN), forgetting);
    let events: Vec<_> = missing
        .iter()
        .map(|(first, events, _)| (*first, *events))
        .collect();
    assert_eq!(events, [(128, 13), (142, 3)]);
    assert!(matches!(process.output(), Err(ClientError::OutputTaken)));
}

#[tokio::test]
async fn a_reader_that_caught_up_is_fed_live_again() {
    const LEN: usize = 60 * 1024;
    let (client, mut fake) = connected(Plays::Ours).await;
    let process = started(&client, &mut fake).await;
    let id = process.id().to_string();
    // Four more than can wait.
    pour(&mut fake, &id, 1, 72, LEN).await;
    // A round trip: everything before it has arrived.
    let serving = fake.serve("process/list", json!({"processes": []}));
    tokio::join!(client.list(), serving).0.unwrap();
    let mut output = process.output().unwrap();
    let serving = async {
        let asked = fake.asked("process/read").await;
        let answer = page(&asked.params, 1..=72, LEN, 73);
        fake.answer(&asked, answer).await;
        pour(&mut fake, &id, 73, 5, LEN).await;
        fake.exited(&id, 78, 0).await;
        fake.closed(&id, 79).await;
    };
    let (missing, ()) = tokio::join!(read_all(&mut output, LEN), serving);
    assert!(missing.is_empty(), "{missing:?}");
}
