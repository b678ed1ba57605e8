//! A lost connection is not a dead process.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use turnlane_exec_server::client::{
    ClientError, ClientOptions, Event, ExecClient, RemoteProcess, StartSpec,
};
use turnlane_process::Until;
use turnlane_testkit::wait::{DEADLINE, within};

use super::fake::{Asked, Fake, Plays, ours};

/// A fake server that can be connected to again.
struct Place {
    listener: UnixListener,
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("socket")).unwrap();
        Self { listener, folder }
    }

    async fn client(&self) -> (ExecClient, Fake<UnixStream>) {
        let options = ClientOptions {
            resume: true,
            ..ClientOptions::new("a test")
        };
        let path = self.folder.path().join("socket");
        let serving = async {
            let mut fake = self.accept().await;
            fake.handshake(Plays::Ours).await;
            fake
        };
        let (client, fake) = tokio::join!(ExecClient::connect_unix(&path, options), serving);
        (client.unwrap(), fake)
    }

    async fn accept(&self) -> Fake<UnixStream> {
        let accepted = within("the client to come back", DEADLINE, self.listener.accept());
        Fake::new(accepted.await.unwrap().unwrap().0)
    }
}

async fn started(client: &ExecClient, fake: &mut Fake<UnixStream>) -> RemoteProcess {
    let start = client.start(StartSpec::new(["cat"], "/w").with_stdin());
    let (process, _) = tokio::join!(start, fake.started());
    process.unwrap()
}

fn read_answer(chunks: &[(u64, &str)], next_seq: u64) -> Value {
    let chunks: Vec<Value> = chunks
        .iter()
        .map(|(seq, text)| json!({"seq": seq, "stream": "stdout", "chunk": STANDARD.encode(text)}))
        .collect();
    json!({"chunks": chunks, "nextSeq": next_seq, "exited": false, "exitCode": null,
        "closed": false, "failure": null, "sandboxDenied": false})
}

/// Reads calls until there was one of each method, in whatever order.
async fn calls(fake: &mut Fake<UnixStream>, methods: &[&str]) -> Vec<Asked> {
    let mut found: Vec<Option<Asked>> = methods.iter().map(|_| None).collect();
    while found.iter().any(Option::is_none) {
        let message = fake.next().await.unwrap();
        let method = message["method"].as_str().unwrap().to_owned();
        let at = methods.iter().position(|name| *name == method);
        let at = at.unwrap_or_else(|| panic!("unexpected {message}"));
        let asked = Asked {
            id: message["id"].clone(),
            params: message["params"].clone(),
            method,
        };
        assert!(found[at].replace(asked).is_none(), "{message} came twice");
    }
    found.into_iter().flatten().collect()
}

#[tokio::test]
async fn the_session_goes_on_where_it_was() {
    let place = Place::new();
    let (client, mut fake) = place.client().await;
    let mut events = client.events();
    let process = started(&client, &mut fake).await;
    let id = process.id().to_string();
    fake.output(&id, 1, b"one").await;

    let surviving = async {
        // A write that is never answered, and a call.
        let first = calls(&mut fake, &["process/write", "process/list"]).await;
        drop(fake);
        // The server still believes in the old connection.
        let mut early = place.accept().await;
        let asked = early.asked("initialize").await;
        assert_eq!(asked.params["resumeSessionId"], "s-1");
        early
            .refuse(&asked, -32010, "session s-1 is already attached")
            .await;
        let mut fake = place.accept().await;
        let asked = fake.asked("initialize").await;
        assert_eq!(asked.params["resumeSessionId"], "s-1");
        fake.answer(&asked, ours("s-1")).await;
        assert_eq!(fake.next().await.unwrap()["method"], "initialized");
        let again = calls(&mut fake, &["process/write", "process/read"]).await;
        assert_eq!(again[0].params, first[0].params, "with the same id");
        assert_eq!(again[1].params["afterSeq"], 1);
        fake.answer(&again[1], read_answer(&[(2, "two"), (3, "three")], 4))
            .await;
        fake.output(&id, 4, b"four").await;
        fake.answer(&again[0], json!({"status": "accepted"})).await;
        fake
    };
    let asking = async { tokio::join!(process.write("input"), client.list()) };
    let ((written, listed), mut fake) = tokio::join!(asking, surviving);
    written.unwrap();
    assert!(
        matches!(listed, Err(ClientError::Closed { .. })),
        "only input is asked again"
    );

    let mut texts = Vec::new();
    while texts.len() < 6 {
        texts.push(match events.next().await.unwrap() {
            Event::Output { bytes, .. } => String::from_utf8(bytes.to_vec()).unwrap(),
            Event::Disconnected { .. } => "-".to_owned(),
            Event::Resumed => "+".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(texts, ["one", "-", "+", "two", "three", "four"]);

    fake.exited(&id, 5, 0).await;
    fake.closed(&id, 6).await;
    process.wait(Until::Closed, None).await.unwrap();
    // What was missed is in the lossless stream as well.
    let mut output = process.output().unwrap();
    for seq in 1..=4 {
        match output.next().await.unwrap() {
            Some(Event::Output { seq: told, .. }) => assert_eq!(told, seq),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_end_that_nobody_saw_is_told_with_its_reason() {
    let place = Place::new();
    let (client, mut fake) = place.client().await;
    let mut events = client.events();
    let process = started(&client, &mut fake).await;
    let dropped = started(&client, &mut fake).await;
    let dropped_id = dropped.id().to_string();
    drop(fake);
    assert!(matches!(
        events.next().await,
        Some(Event::Disconnected { .. })
    ));
    drop(dropped);
    let mut fake = place.accept().await;
    fake.handshake(Plays::Ours).await;
    let serving = async {
        // Both are read, the dropped one is ended.
        let mut left = 4;
        while left > 0 {
            let message = fake.next().await.unwrap();
            let asked = Asked {
                id: message["id"].clone(),
                method: message["method"].as_str().unwrap().to_owned(),
                params: message["params"].clone(),
            };
            let about_dropped = asked.params["processId"] == dropped_id.as_str();
            match (asked.method.as_str(), about_dropped) {
                ("process/terminate", true) => fake.answer(&asked, json!({"running": true})).await,
                ("process/read", true) => fake.answer(&asked, read_answer(&[], 1)).await,
                ("process/read", false) => {
                    // 1 is output, 2 the exit, 3 output of a survivor, 4 the close.
                    let mut answer = read_answer(&[(1, "last"), (3, "after")], 5);
                    answer["exited"] = json!(true);
                    answer["exitCode"] = json!(143);
                    answer["closed"] = json!(true);
                    fake.answer(&asked, answer).await;
                }
                ("process/wait", false) => {
                    let told = json!({"done": true, "exitCode": 143, "signal": 15,
                        "reason": "terminated", "closed": true, "survivors": 0});
                    fake.answer(&asked, told).await;
                }
                other => panic!("{other:?}"),
            }
            left -= 1;
        }
    };
    let (exit, ()) = tokio::join!(process.wait(Until::Closed, None), serving);
    let exit = exit.unwrap().unwrap();
    assert_eq!((exit.code, exit.signal), (143, Some(15)));
    let mut output = process.output().unwrap();
    let mut told = Vec::new();
    while let Some(event) = output.next().await.unwrap() {
        told.push(match event {
            Event::Output { seq, .. } => ("output", seq),
            Event::Exited { seq, .. } => ("exited", seq),
            Event::Closed { seq, .. } => ("closed", seq),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(
        told,
        [("output", 1), ("exited", 2), ("output", 3), ("closed", 4)]
    );
}

#[tokio::test]
async fn what_was_lost_meanwhile_is_counted() {
    let place = Place::new();
    let (client, mut fake) = place.client().await;
    let process = started(&client, &mut fake).await;
    let mut events = client.events();
    fake.output(process.id().as_str(), 1, b"one").await;
    drop(fake);
    let mut fake = place.accept().await;
    fake.handshake(Plays::Ours).await;
    let asked = fake.asked("process/read").await;
    let after = asked.params["afterSeq"].as_u64().unwrap();
    assert_eq!(after, 1);
    let mut answer = read_answer(&[(8, "eight")], 9);
    answer["omittedBytes"] = json!(600);
    answer["truncated"] = json!(true);
    fake.answer(&asked, answer).await;
    fake.output(process.id().as_str(), 9, b"nine").await;
    let mut told = Vec::new();
    while told.len() < 6 {
        told.push(match events.next().await.unwrap() {
            Event::Output { seq, .. } => seq.to_string(),
            Event::Lagged { events, bytes, .. } => format!("lost {events} ({bytes})"),
            Event::Disconnected { .. } => "-".to_owned(),
            Event::Resumed => "+".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(told, ["1", "-", "+", "lost 6 (600)", "8", "9"]);
}

#[tokio::test]
async fn a_session_the_server_no_longer_has_is_over() {
    let place = Place::new();
    let (client, mut fake) = place.client().await;
    let process = started(&client, &mut fake).await;
    let mut events = client.events();
    let refusing = async {
        fake.asked("process/write").await;
        drop(fake);
        let mut fake = place.accept().await;
        let asked = fake.asked("initialize").await;
        fake.refuse(&asked, -32600, "unknown session id s-1").await;
    };
    let (written, ()) = tokio::join!(process.write("input"), refusing);
    match written {
        Err(ClientError::Closed { reason }) => {
            assert!(reason.contains("unknown session id s-1"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(
        process.wait(Until::Exited, None).await,
        Err(ClientError::Closed { .. })
    ));
    assert!(matches!(
        events.next().await,
        Some(Event::Disconnected { .. })
    ));
    assert_eq!(events.next().await, None, "told once");
}

#[tokio::test]
async fn a_client_that_is_dropped_while_away_stops_looking() {
    let place = Place::new();
    let (client, fake) = place.client().await;
    let mut events = client.events();
    drop(fake);
    assert!(matches!(
        events.next().await,
        Some(Event::Disconnected { .. })
    ));
    drop(client);
    let ended = within("the end", DEADLINE, events.next());
    assert_eq!(ended.await.unwrap(), None);
}
