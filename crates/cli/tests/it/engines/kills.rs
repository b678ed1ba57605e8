//! `kill -9` of Codex and of the daemon at the moments of a turn: nothing is lost, nothing is done twice,
//! nothing is stuck.
//!
//! Each round has a daemon of its own and a thread of its own, on which two messages are queued. What a
//! round says of a message is either "completed", with exactly one model call, or "unknown": its turn is
//! recorded with `outcomeKnown: false`, and the model was asked at most once. A row that waits as failed
//! is deleted, and what stands behind it runs. Every second round has a turn before the messages, so that
//! Codex knows the thread. No process of Codex is left when a daemon has ended.
//!
//! `TURNLANE_TEST_FULL` makes 200 rounds of each moment, `TURNLANE_TEST_ROUNDS` another number.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use turnlane_testkit::mock_model::{At, Gate, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually, within};
use turnlane_testkit::{Random, TestClient};

use super::world::{World, signal, stored_turns, text_of};
use crate::app_server::{ok, thread, turn};
use crate::exec::kills::{is_full, seed};
use crate::serve::Daemon;

/// How far behind the mark a kill at a random moment comes at most.
const BEHIND_MAX: Duration = Duration::from_millis(150);

fn rounds() -> usize {
    let given = std::env::var("TURNLANE_TEST_ROUNDS").ok();
    let usual = if is_full() { 200 } else { 2 };
    given.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The process of Codex.
    Child,
    /// The daemon.
    Worker,
}

/// When the victim dies in the turn of the first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Moment {
    /// Before the mark that the engine may have seen the turn.
    BeforeSent,
    /// Behind the mark, before Codex has accepted the turn.
    Sent,
    /// When Codex has accepted the turn; for a child a random time behind the mark.
    Started,
    /// While the model is asked.
    ModelCall,
    /// When Codex has ended the turn, before that is recorded; for a child behind it.
    Completed,
    /// A random time behind the add.
    Random,
}

impl Moment {
    const ALL: [Self; 6] = [
        Self::BeforeSent,
        Self::Sent,
        Self::Started,
        Self::ModelCall,
        Self::Completed,
        Self::Random,
    ];

    /// The crash point of a worker.
    fn point(self) -> Option<&'static str> {
        match self {
            Self::BeforeSent => Some("engine:before-run"),
            Self::Sent => Some("engine:sent"),
            Self::Started => Some("engine:handed-over"),
            Self::Completed => Some("turn:ended"),
            Self::ModelCall | Self::Random => None,
        }
    }
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Completed,
    /// Shown as unknown.
    Unknown,
}

/// One kill.
struct Round<'a> {
    world: &'a World,
    engine: &'static str,
    victim: Victim,
    moment: Moment,
    /// Whether Codex knows the thread before the messages.
    is_warm: bool,
    gate: Gate,
    says: String,
    /// Both messages.
    texts: [String; 2],
    thread: String,
    /// True if Codex may have had the message when it was stopped, before the kill.
    is_late: bool,
}

impl Round<'_> {
    async fn run(&mut self, random: &mut Random) -> Fate {
        let point = self
            .moment
            .point()
            .filter(|_| self.victim == Victim::Worker);
        let nth = if self.is_warm { 2 } else { 1 };
        let point = point.map(|point| format!("{point}:{nth}"));
        let mut daemon = self.world.daemon(point.as_deref()).await;
        let mut client = daemon.websocket().await;
        let settings = json!({"engine": self.engine, "sandbox": "danger-full-access",
            "approvalPolicy": "never"});
        self.thread = thread(&mut client, &self.world.work(), settings).await;
        if self.is_warm {
            let ended = turn(&mut client, &self.thread, "warm").await;
            assert_eq!(ended["status"], "completed", "{}: {ended}", self.says);
        }
        let answered = match self.victim {
            Victim::Child => self.kill_child(&mut client, random).await,
            Victim::Worker => {
                let answered = self.kill_worker(&mut daemon, &mut client, random).await;
                self.gate.release();
                self.world.no_codex_left().await;
                daemon = self.world.daemon(None).await;
                client = daemon.websocket().await;
                answered
            }
        };
        self.gate.release();
        self.adds_again(&mut client, answered).await;
        self.rests(&mut client).await;
        let mut fates = Vec::new();
        for text in &self.texts {
            fates.push(self.fate(&mut client, text).await);
        }
        self.expect(fates[0]);
        // The thread is as good as before.
        let after = format!("after {}", self.texts[0]);
        let ended = turn(&mut client, &self.thread, &after).await;
        assert_eq!(ended["status"], "completed", "{}: {ended}", self.says);
        assert_eq!(self.world.calls(&after), 1, "{}", self.says);
        daemon.signal(Signal::TERM);
        let status = daemon.process.wait(DEADLINE).await.unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.says);
        self.world.no_codex_left().await;
        fates[0]
    }

    /// The command of the engine's child.
    fn command(&self) -> &'static str {
        match self.engine {
            "codex" => "app-server",
            _ => "exec",
        }
    }

    fn add(&self, text: &str) -> Value {
        let turn = json!({"threadId": self.thread, "input": [{"type": "text", "text": text}]});
        json!({"threadId": self.thread, "turnStartParams": turn, "idempotencyKey": text})
    }

    /// Kills Codex; the rows that were answered for.
    async fn kill_child(
        &mut self,
        client: &mut TestClient,
        random: &mut Random,
    ) -> Vec<Option<String>> {
        let has_child = self.is_warm && self.engine == "codex";
        let kill = |pid: i32| signal(pid, Signal::KILL);
        if has_child && self.moment == Moment::Sent {
            // It answers nothing any more, so the turn stays between the two.
            signal(self.world.child("app-server").await, Signal::STOP);
        }
        if has_child && self.moment == Moment::BeforeSent {
            // Behind the adds the kill would come in the model call on a loaded machine.
            kill(self.world.child("app-server").await);
        }
        let mut requests = Vec::new();
        for text in &self.texts {
            let id = client.request("thread/queue/add", self.add(text)).await;
            requests.push(id.unwrap());
        }
        if self.moment == Moment::BeforeSent && !has_child {
            let child = self.world.child(self.command()).await;
            signal(child, Signal::STOP);
            // The stopped child reads nothing that the daemon sends from here on.
            self.is_late = self.world.has_sent(&self.thread);
            kill(child);
        }
        if self.moment == Moment::Sent && self.engine == "codex-exec" {
            signal(self.world.child("exec").await, Signal::STOP);
        }
        let mut rows = Vec::new();
        for id in requests {
            let answer = client.answer(id).await.unwrap();
            rows.push(row_of(&answer));
        }
        let first = rows[0].clone().unwrap();
        let behind = match self.moment {
            Moment::BeforeSent => return rows,
            Moment::ModelCall => {
                within(&self.says, DEADLINE, self.gate.reached())
                    .await
                    .unwrap();
                Duration::ZERO
            }
            Moment::Completed => {
                let ended = |message: &Value| {
                    message["method"] == "turn/completed"
                        && message["params"]["turn"]["queuedTurnId"] == first.as_str()
                };
                client.find(&self.says, ended).await.unwrap();
                random.shorter(Duration::from_millis(20))
            }
            Moment::Sent | Moment::Started => {
                let sent = async || self.world.is_sent(&first);
                eventually(&self.says, DEADLINE, sent).await.unwrap();
                match self.moment {
                    Moment::Sent => Duration::ZERO,
                    _ => random.shorter(BEHIND_MAX),
                }
            }
            Moment::Random => random.shorter(BEHIND_MAX * 4),
        };
        pass(behind).await;
        // A kill that comes when no child is there hits nothing, as it may.
        for child in self.world.children(self.command()) {
            kill(child);
        }
        rows
    }

    /// Adds both and lets the daemon die; the rows that were answered for.
    async fn kill_worker(
        &self,
        daemon: &mut Daemon,
        client: &mut TestClient,
        random: &mut Random,
    ) -> Vec<Option<String>> {
        let mut rows = Vec::new();
        for text in &self.texts {
            let answer = client.call("thread/queue/add", self.add(text)).await;
            rows.push(answer.ok().and_then(|answer| row_of(&answer)));
        }
        match self.moment {
            Moment::ModelCall => {
                within(&self.says, DEADLINE, self.gate.reached())
                    .await
                    .unwrap();
                daemon.signal(Signal::KILL);
            }
            Moment::Random => {
                pass(random.shorter(BEHIND_MAX * 4)).await;
                daemon.signal(Signal::KILL);
            }
            // Dies by itself.
            Moment::BeforeSent | Moment::Sent | Moment::Started | Moment::Completed => {}
        }
        let status = daemon.process.wait(DEADLINE).await;
        let status = status.unwrap_or_else(|error| panic!("{}: {error}", self.says));
        assert!(!status.success(), "{}", self.says);
        rows
    }

    /// Adds both once more, as a client does that is not sure; what was answered for is still known.
    async fn adds_again(&self, client: &mut TestClient, answered: Vec<Option<String>>) {
        for (text, row) in self.texts.iter().zip(answered) {
            let again = ok(client, "thread/queue/add", self.add(text)).await;
            if let Some(row) = row {
                let says = format!("{}: {text}: {again}", self.says);
                assert_eq!(again["deduplicated"], true, "lost: {says}");
                assert_eq!(again["queuedTurn"]["id"], row.as_str(), "{says}");
            }
        }
    }

    /// Waits until nothing is under way; rows that wait as failed are deleted.
    async fn rests(&self, client: &mut TestClient) {
        let lane = json!({"threadId": self.thread});
        let mut seen = Value::Null;
        let at_rest = async || {
            let queue = ok(client, "thread/queue/list", lane.clone()).await;
            if !queue["blocked"].is_null() && queue["running"].is_null() {
                let head = &queue["data"][0];
                assert_eq!(head["status"]["type"], "failed", "{}: {queue}", self.says);
                let row = json!({"threadId": self.thread, "queuedTurnId": head["id"]});
                ok(client, "thread/queue/delete", row).await;
            }
            let rests = queue["running"].is_null() && queue["depth"] == 0;
            seen = queue;
            rests
        };
        let rested = eventually(&self.says, DEADLINE, at_rest).await;
        rested.unwrap_or_else(|error| panic!("stuck: {error}: {seen:#}"));
    }

    async fn fate(&self, client: &mut TestClient, text: &str) -> Fate {
        let turns = stored_turns(client, &self.thread).await;
        let turns: Vec<&Value> = turns.iter().filter(|turn| text_of(turn) == text).collect();
        let says = format!("{}: {text}: {turns:#?}", self.says);
        let with = |status: &str| turns.iter().filter(|turn| turn["status"] == status).count();
        let calls = self.world.calls(text);
        assert_eq!(with("inProgress"), 0, "{says}");
        for item in turns
            .iter()
            .flat_map(|turn| turn["items"].as_array().unwrap())
        {
            assert_ne!(item["status"], "inProgress", "{says}");
        }
        if with("completed") == 1 {
            assert_eq!(calls, 1, "doubled: {says}");
            return Fate::Completed;
        }
        assert_eq!(with("completed"), 0, "doubled: {says}");
        assert!(calls <= 1, "doubled: {calls} calls: {says}");
        let unknown = |turn: &&&Value| turn["error"]["outcomeKnown"] == false;
        let unknown = turns.iter().filter(unknown).count();
        assert_eq!(unknown, 1, "lost: {says}");
        Fate::Unknown
    }

    /// What the contract says of the moments at which it knows.
    fn expect(&self, fate: Fate) {
        let is_codex = self.engine == "codex";
        let expected = match (self.victim, self.moment) {
            // Without the id of the thread, which Codex had not told yet, there is nothing to ask about.
            (Victim::Worker, Moment::Sent) if !is_codex && !self.is_warm => Fate::Unknown,
            (_, Moment::ModelCall) => {
                assert_eq!(self.world.calls(&self.texts[0]), 1, "{}", self.says);
                Fate::Unknown
            }
            // A child that was not stopped may have accepted the turn meanwhile.
            (Victim::Child, Moment::Sent) if !is_codex || !self.is_warm => return,
            (Victim::Child, Moment::BeforeSent) if !is_codex || self.is_late => return,
            (_, Moment::Started | Moment::Random) => return,
            (_, Moment::BeforeSent | Moment::Sent | Moment::Completed) => Fate::Completed,
        };
        assert_eq!(fate, expected, "{}", self.says);
    }
}

/// Lets time pass: the moment of a kill is random.
async fn pass(time: Duration) {
    let _ = within("nothing", time, std::future::pending::<()>()).await;
}

/// The id of a row that was added.
fn row_of(answer: &Value) -> Option<String> {
    let id = &answer["result"]["queuedTurn"]["id"];
    id.as_str().map(str::to_owned)
}

#[expect(clippy::print_stderr, reason = "figures, and the seed of a failed run")]
async fn every_moment(engine: &'static str, victim: Victim) {
    let gate = Arc::new(Mutex::new(Gate::new()));
    let held = Arc::clone(&gate);
    let world = World::new(move |request| {
        let text = request.last_user_text();
        let reply = Reply::text(format!("did {text}"));
        if text.starts_with("ModelCall") && text.ends_with("first") {
            return reply.gated_by(At::Request, &held.lock().unwrap());
        }
        reply
    });
    let Some(world) = world.await else { return };
    let seed = seed();
    let mut random = Random::new(seed);
    eprintln!(
        "{engine} {victim:?}: seed {seed}, {} rounds of each moment",
        rounds()
    );
    let mut fates: BTreeMap<(Moment, Fate), usize> = BTreeMap::new();
    for number in 0..rounds() {
        for moment in Moment::ALL {
            let own = Gate::new();
            *gate.lock().unwrap() = own.clone();
            let mut round = Round {
                world: &world,
                engine,
                victim,
                moment,
                is_warm: number % 2 == 0,
                gate: own,
                says: format!("{engine} {victim:?} {moment:?} {number}"),
                texts: ["first", "second"].map(|nth| format!("{moment:?} {number} {nth}")),
                thread: String::new(),
                is_late: false,
            };
            let fate = round.run(&mut random).await;
            *fates.entry((moment, fate)).or_default() += 1;
            world.mock.take_requests();
        }
    }
    eprintln!("{engine} {victim:?}: {fates:?}");
}

#[tokio::test]
async fn codex_that_is_killed_in_a_turn_of_codex() {
    every_moment("codex", Victim::Child).await;
}

#[tokio::test]
async fn a_daemon_that_is_killed_in_a_turn_of_codex() {
    every_moment("codex", Victim::Worker).await;
}

#[tokio::test]
async fn codex_that_is_killed_in_a_turn_of_codex_exec() {
    every_moment("codex-exec", Victim::Child).await;
}

#[tokio::test]
async fn a_daemon_that_is_killed_in_a_turn_of_codex_exec() {
    every_moment("codex-exec", Victim::Worker).await;
}
