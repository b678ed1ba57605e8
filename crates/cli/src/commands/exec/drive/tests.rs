//! A drive against a server whose every word is the test's, on a clock that is paused.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use turnlane::{Client, ClientBuilder, Endpoint, Limits};
use turnlane_protocol::error::ErrorObject;
use turnlane_rpc::listen::{Listener, Options as ListenOptions};
use turnlane_rpc::{Duplex, Incoming, Peer, PeerOptions};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::super::connect;
use super::super::output::Voice;
use super::super::stdout::Stdout;
use super::super::stream::Audience;
use super::*;
use crate::linked::Linked;

const THREAD: &str = "01a2b3c4-0000-7000-8000-00000000000a";
const TURN: &str = "01a2b3c4-0000-7000-8000-00000000000b";
const OTHER: &str = "01a2b3c4-0000-7000-8000-00000000000c";
const ROW: &str = "01a2b3c4-0000-7000-8000-00000000000d";

/// An answer.
#[derive(Clone, Debug)]
enum Says {
    Yes(Value),
    No(ErrorObject),
}

/// What a server answers to a method: the first of its answers, and the last one for ever.
type Answers = Vec<(&'static str, Vec<Says>)>;

/// A server that answers what it was told to answer.
struct Double {
    peer: Peer,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Double {
    fn start(duplex: Duplex, answers: Answers) -> Self {
        let (peer, mut inbox) = Peer::start(duplex, PeerOptions::default());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let methods = asked.clone();
        let mut answers: Vec<_> = answers
            .into_iter()
            .map(|(method, answers)| (method, VecDeque::from(answers)))
            .collect();
        answers.push((
            "initialize",
            VecDeque::from([Says::Yes(
                json!({"userAgent": "turnlane/0.166.0 (x)", "codexHome": "/c",
                       "platformFamily": "unix", "platformOs": "linux",
                       "turnlane": {"version": "0.1.0", "protocol": 1, "features": ["queue"]}}),
            )]),
        ));
        tokio::spawn(async move {
            while let Some(message) = inbox.next().await {
                let Incoming::Request(request) = message else {
                    continue;
                };
                methods.lock().unwrap().push(request.method.clone());
                let known = answers
                    .iter_mut()
                    .find(|(method, _)| *method == request.method);
                let Some((_, answers)) = known else {
                    request.responder.leave();
                    continue;
                };
                let answer = match answers.len() {
                    1 => answers[0].clone(),
                    _ => answers.pop_front().unwrap(),
                };
                match answer {
                    Says::Yes(result) => request.responder.result(&result),
                    Says::No(error) => request.responder.error(&error),
                }
            }
        });
        Self { peer, asked }
    }

    fn tell(&self, method: &str, params: &Value) {
        self.peer.tell(method, params).unwrap();
    }

    fn item(&self, id: &str) {
        let params = json!({"threadId": THREAD, "turnId": TURN, "item": message(id)});
        self.tell("item/completed", &params);
    }

    fn turn(&self, method: &str, thread: &str, id: &str, status: &str) {
        let params = json!({"threadId": thread, "turn": turn(id, status)});
        self.tell(method, &params);
    }

    fn times_asked(&self, method: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|asked| *asked == method).count()
    }
}

fn message(id: &str) -> Value {
    json!({"type": "agentMessage", "id": id, "text": format!("text of {id}"),
           "startedAtMs": 0, "completedAtMs": 1})
}

fn turn(id: &str, status: &str) -> Value {
    json!({"id": id, "items": [], "itemsView": "notLoaded", "status": status, "error": null,
           "startedAt": 0, "completedAt": null, "durationMs": null})
}

fn turns(turns: &Value) -> Says {
    Says::Yes(json!({"data": turns, "nextCursor": null, "backwardsCursor": null}))
}

fn items(ids: &[&str]) -> Says {
    let entry = |id: &&str| json!({"turnId": TURN, "item": message(id)});
    let data: Vec<_> = ids.iter().map(entry).collect();
    Says::Yes(json!({"data": data, "nextCursor": null, "backwardsCursor": null}))
}

fn refused(reason: &str) -> Says {
    let mut error = ErrorObject::bare(-32_600, "no");
    error.data = Some(json!({ "reason": reason }));
    Says::No(error)
}

async fn connected(builder: ClientBuilder, answers: Answers) -> (Double, Client) {
    let (ours, theirs) = Duplex::memory();
    let double = Double::start(ours, answers);
    let client = builder.endpoint(Endpoint::io(theirs)).connect();
    let client = Box::pin(client).await.unwrap();
    (double, client)
}

/// A drive of the turn, and the file that its lines go to.
struct Rig {
    drive: Drive,
    signals: Signals,
    lines: File,
}

impl Rig {
    fn new(client: &Client, row: Option<&str>) -> Self {
        let lines = tempfile::tempfile().unwrap();
        let stdout = Stdout::over(lines.try_clone().unwrap()).unwrap();
        let mut run = Run::new(THREAD, PathBuf::from("/w"));
        run.accepted(TURN);
        let parts = Parts {
            calls: Calls(client.clone()),
            events: client.events(Filter::default()),
            run,
            output: Output::new(Voice::Lines, stdout, Audience::Script),
            daemon: None,
        };
        let primary = Primary {
            thread: THREAD.to_owned(),
            turn: TURN.to_owned(),
            row: row.map(str::to_owned),
            following: Following::Yes,
        };
        Self {
            drive: Drive::new(parts, primary),
            signals: Signals::catch().unwrap(),
            lines,
        }
    }

    /// How it ended, after how long, and what it said.
    async fn follow(mut self) -> (Driven, Duration, Vec<Value>) {
        let before = Instant::now();
        let driven = self.drive.follow(&mut self.signals).await;
        let took = before.elapsed();
        self.drive.output.finish(None).await;
        let mut text = String::new();
        self.lines.rewind().unwrap();
        self.lines.read_to_string(&mut text).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        (driven, took, lines.collect())
    }
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .filter_map(|line| line["type"].as_str())
        .collect()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn failing(thread: &str, turn: &str) -> Value {
    json!({"threadId": thread, "turnId": turn, "willRetry": false,
           "error": {"message": "broken", "kind": "network"}})
}

#[tokio::test(start_paused = true)]
async fn a_final_error_without_an_end_is_decided_by_what_is_stored_after_ten_seconds() {
    for (stored, end, last) in [
        ("failed", End::Failed, "turn.failed"),
        ("completed", End::Completed, "turn.completed"),
        ("interrupted", End::Interrupted, "turn.failed"),
    ] {
        let answers = vec![
            (
                "thread/turns/list",
                vec![turns(&json!([
                    turn(OTHER, "completed"),
                    turn(TURN, stored)
                ]))],
            ),
            ("thread/items/list", vec![items(&["i"])]),
        ];
        let (double, client) = connected(Client::builder(), answers).await;
        let rig = Rig::new(&client, None);
        double.tell("error", &failing(THREAD, TURN));
        let (driven, took, lines) = rig.follow().await;
        assert!(took >= seconds(10) && took < seconds(11), "{took:?}");
        assert_eq!(driven.end, end);
        let words = ["turn.started", "error", "item.completed", last];
        if stored == "failed" {
            // Its text is not the one that was said, so both are.
            assert_eq!(types(&lines)[..3], words[..3]);
            assert_eq!(types(&lines).last(), Some(&last));
        } else {
            assert_eq!(types(&lines), words);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_final_error_of_a_turn_that_still_runs_is_waited_on() {
    let running = turns(&json!([turn(TURN, "inProgress")]));
    let failed = turns(&json!([turn(TURN, "failed")]));
    let answers = vec![
        ("thread/turns/list", vec![running.clone(), running, failed]),
        ("thread/items/list", vec![items(&[])]),
    ];
    let (double, client) = connected(Client::builder(), answers).await;
    let rig = Rig::new(&client, None);
    double.tell("error", &failing(THREAD, TURN));
    let (driven, took, _) = rig.follow().await;
    assert_eq!(driven.end, End::Failed);
    assert!(took >= seconds(30) && took < seconds(31), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn what_others_do_neither_ends_nor_is_said() {
    let (double, client) = connected(Client::builder(), Vec::new()).await;
    let rig = Rig::new(&client, None);
    for (thread, turn) in [(OTHER, TURN), (THREAD, OTHER), (OTHER, OTHER)] {
        double.turn("turn/started", thread, turn, "inProgress");
        double.tell("error", &failing(thread, turn));
        let item = json!({"threadId": thread, "turnId": turn, "item": message("x")});
        double.tell("item/completed", &item);
        for status in ["completed", "failed", "interrupted"] {
            double.turn("turn/completed", thread, turn, status);
        }
    }
    for gone in ["thread/closed", "thread/archived", "thread/deleted"] {
        double.tell(gone, &json!({"threadId": OTHER}));
    }
    double.turn("turn/completed", THREAD, TURN, "inProgress");
    let ending = async {
        let quiet = tokio::time::timeout(seconds(60), std::future::pending::<()>());
        assert!(quiet.await.is_err());
        double.turn("turn/completed", THREAD, TURN, "completed");
    };
    let ((driven, took, lines), ()) = tokio::join!(rig.follow(), ending);
    assert!(took >= seconds(60), "{took:?}");
    assert_eq!(driven.end, End::Completed);
    assert_eq!(types(&lines), ["turn.started", "turn.completed"]);
    assert_eq!(double.times_asked("thread/turns/list"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_was_too_slow_is_begun_again_and_what_it_missed_is_read() {
    let limits = Limits {
        lossless_buffer: 3,
        ..Limits::default()
    };
    let ids = ["i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7"];
    let answers = vec![
        (
            "thread/turns/list",
            vec![turns(&json!([turn(TURN, "inProgress")]))],
        ),
        ("thread/items/list", vec![items(&ids)]),
        ("settled", vec![Says::Yes(json!({}))]),
    ];
    let (double, client) = connected(Client::builder().limits(limits), answers).await;
    let rig = Rig::new(&client, None);
    double.turn("turn/started", THREAD, TURN, "inProgress");
    for id in &ids[..7] {
        double.item(id);
    }
    // Everything has arrived once a call behind it is answered.
    let calls = Calls(client.clone());
    calls.ask::<Value>("settled", &json!({})).await.unwrap();
    let ending = async {
        let looked = async || double.times_asked("thread/turns/list") > 0;
        // A drive that never looks has ended; the time of this clock costs nothing.
        let _ = eventually("a look", DEADLINE, looked).await;
        double.item(ids[7]);
        double.turn("turn/completed", THREAD, TURN, "completed");
    };
    let ((driven, _, lines), ()) = tokio::join!(rig.follow(), ending);
    assert_eq!(driven.end, End::Completed);
    let mut texts: Vec<_> = lines
        .iter()
        .filter_map(|line| line["item"]["text"].as_str())
        .collect();
    assert_eq!(texts.len(), ids.len(), "{lines:?}");
    texts.sort_unstable();
    let expected: Vec<_> = ids.iter().map(|id| format!("text of {id}")).collect();
    assert_eq!(texts, expected);
    assert_eq!(types(&lines)[0], "turn.started");
}

#[tokio::test(start_paused = true)]
async fn a_queued_turn_that_somebody_removed_ends_the_run() {
    let answers = vec![
        ("thread/queue/list", vec![Says::Yes(json!({"data": []}))]),
        (
            "thread/turns/list",
            vec![turns(&json!([turn(OTHER, "inProgress")]))],
        ),
    ];
    let (double, client) = connected(Client::builder(), answers).await;
    let rig = Rig::new(&client, Some(ROW));
    let row = json!({"id": ROW, "turnId": TURN});
    double.tell(
        "thread/queue/changed",
        &json!({"threadId": THREAD, "queuedTurns": [row]}),
    );
    double.tell(
        "thread/queue/changed",
        &json!({"threadId": THREAD, "queuedTurns": []}),
    );
    let (driven, took, lines) = rig.follow().await;
    assert_eq!(driven.end, End::Failed);
    assert!(took > seconds(2) && took < seconds(3), "{took:?}");
    assert_eq!(types(&lines), ["turn.started", "error", "turn.failed"]);
    assert_eq!(lines[2]["error"]["kind"], "other");
}

#[tokio::test(start_paused = true)]
async fn a_queued_turn_that_begins_late_is_not_taken_for_removed() {
    let nowhere = turns(&json!([]));
    let answers = vec![
        ("thread/queue/list", vec![Says::Yes(json!({"data": []}))]),
        (
            "thread/turns/list",
            vec![
                nowhere.clone(),
                nowhere,
                turns(&json!([turn(TURN, "inProgress")])),
            ],
        ),
        ("thread/items/list", vec![items(&["i"])]),
    ];
    let (double, client) = connected(Client::builder(), answers).await;
    let rig = Rig::new(&client, Some(ROW));
    double.tell(
        "thread/queue/changed",
        &json!({"threadId": THREAD, "queuedTurns": []}),
    );
    let ending = async {
        let quiet = tokio::time::timeout(seconds(20), std::future::pending::<()>());
        assert!(quiet.await.is_err());
        double.turn("turn/completed", THREAD, TURN, "completed");
    };
    let ((driven, _, lines), ()) = tokio::join!(rig.follow(), ending);
    assert_eq!(driven.end, End::Completed);
    assert_eq!(
        types(&lines),
        ["turn.started", "item.completed", "turn.completed"]
    );
    assert_eq!(
        double.times_asked("thread/turns/list"),
        3,
        "it stops looking"
    );
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_is_gone_for_thirty_seconds_leaves_the_end_unknown() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("run");
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("app-server.sock");
    let listener = Listener::bind_unix(&socket, ListenOptions::default());
    let listener = listener.await.unwrap();
    let (sender, mut arrivals) = tokio::sync::mpsc::channel(1);
    let stop = CancellationToken::new();
    let serving = tokio::spawn(listener.run(stop.clone(), move |accepted| {
        let _ = sender.try_send(accepted.duplex);
    }));
    let arrived = async { Double::start(arrivals.recv().await.unwrap(), Vec::new()) };
    let (linked, double) = tokio::join!(Linked::daemon(home.path(), connect::builder()), arrived);
    stop.cancel();
    serving.await.unwrap();
    let client = linked.unwrap().client;
    let rig = Rig::new(&client, None);
    double.peer.close();
    drop(double);
    let _ = std::fs::remove_file(socket);
    let (driven, took, lines) = rig.follow().await;
    assert_eq!(driven.end, End::Failed);
    assert!(took >= seconds(29) && took < seconds(35), "{took:?}");
    assert_eq!(types(&lines), ["turn.started", "error", "turn.failed"]);
    assert_eq!(lines[2]["error"]["kind"], "unknown");
    assert_eq!(lines[2]["turn_id"], TURN);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_and_knows_nothing_leaves_the_end_unknown() {
    let answers = vec![("thread/resume", vec![refused("notLoaded")])];
    let (_double, client) = connected(Client::builder(), answers).await;
    let mut rig = Rig::new(&client, None);
    // As after another connection.
    rig.drive.primary.following = Following::NotYet;
    rig.drive.timers.look = Some(Instant::now());
    let (driven, took, lines) = rig.follow().await;
    assert_eq!(driven.end, End::Failed);
    assert!(took >= seconds(30) && took < seconds(31), "{took:?}");
    assert_eq!(lines.last().unwrap()["error"]["kind"], "unknown");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_an_interrupt_holds_up_the_end_for_five_seconds() {
    let (double, client) = connected(Client::builder(), Vec::new()).await;
    let mut rig = Rig::new(&client, None);
    rig.drive.begin_stop(Stop::StdoutClosed);
    let (driven, took, lines) = rig.follow().await;
    assert_eq!(driven.end, End::Interrupted);
    assert_eq!(driven.stop, Some(Stop::StdoutClosed));
    assert!(took >= seconds(5) && took < seconds(6), "{took:?}");
    assert_eq!(lines.last().unwrap()["error"]["kind"], "interrupted");
    assert_eq!(double.times_asked("turn/interrupt"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_that_is_refused_and_a_server_that_falls_silent_end_in_time() {
    let answers = vec![("turn/interrupt", vec![refused("notRunning")])];
    let (_double, client) = connected(Client::builder(), answers).await;
    let mut rig = Rig::new(&client, None);
    rig.drive.begin_stop(Stop::StdoutClosed);
    let (driven, took, _) = rig.follow().await;
    assert_eq!(driven.end, End::Interrupted);
    assert!(took < seconds(6), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_withdrawn_is_never_interrupted() {
    let answers = vec![(
        "thread/queue/delete",
        vec![Says::Yes(json!({"deleted": true}))],
    )];
    let (double, client) = connected(Client::builder(), answers).await;
    let mut rig = Rig::new(&client, Some(ROW));
    rig.drive.begin_stop(Stop::StdoutClosed);
    let (driven, _, _) = rig.follow().await;
    assert_eq!(driven.end, End::Interrupted);
    assert_eq!(double.times_asked("turn/interrupt"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_is_archived_or_deleted_ends_its_run_at_once() {
    for method in ["thread/archived", "thread/deleted"] {
        let (double, client) = connected(Client::builder(), Vec::new()).await;
        let rig = Rig::new(&client, None);
        double.turn("turn/started", THREAD, TURN, "inProgress");
        double.tell(method, &json!({"threadId": THREAD}));
        let (driven, _, lines) = rig.follow().await;
        assert_eq!(driven.end, End::Failed);
        assert_eq!(types(&lines), ["turn.started", "error", "turn.failed"]);
        assert_eq!(lines[2]["error"]["kind"], "other");
    }
}
