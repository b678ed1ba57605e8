//! A double of the orchestrator that loses its shims, its daemon, its engines and itself at random moments.
//!
//! It keeps a few messages in flight. After each loss it starts a new shim, as batty does, and sends again
//! every message whose end it does not know; a message that was refused as one to be sent later is sent
//! later. The agent (a script) or the model (of a real Codex) writes down each message that it is given, and
//! the store has each turn: these two are compared with what the double was told.
//!
//! Of batty's limits these are checked: a `Shutdown` has exited in twice its time at most (the machine may do
//! other things besides; `ends` checks the time itself), a predecessor has ended before its successor gives up,
//! and no `Error` is told. The kill with which batty ends a shim that is late is not among the losses.
//! `TURNLANE_TEST_MESSAGES` chooses the number of messages, `TURNLANE_TEST_SEED` the moments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use turnlane_testkit::Random;
use turnlane_testkit::mock_model::{At, Reply};
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::ends::processes_below;
use super::recovery::{Agent, World, codex_processes};
use super::rig::{Member, Rig, id_of};
use crate::app_server::ok;
use crate::exec::kills::{is_full, seed};
use crate::serve::{Daemon, turns};

/// Messages whose end is not known, at most.
const IN_FLIGHT_MAX: usize = 5;
/// How long behind an event a loss comes at most.
const BEHIND_MAX: Duration = Duration::from_millis(60);
/// How long the model of a real Codex takes to answer.
const ANSWER_AFTER: Duration = Duration::from_millis(50);
/// The time that batty gives a predecessor.
const HANDOFF_SECS: u64 = 5;

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    Shim,
    Orchestrator,
    Daemon,
    /// The process of the engine.
    Engine,
    /// A restart with a handoff: the new process first, then the end of the old.
    Handoff,
}

/// What the members are.
enum Agents {
    /// A script, in the shim's process.
    Script(Rig),
    /// A script, in a daemon.
    Daemon(Rig),
    /// A real Codex.
    Codex(World),
}

impl Agents {
    fn rig(&self) -> &Rig {
        match self {
            Self::Script(rig) | Self::Daemon(rig) => rig,
            Self::Codex(world) => &world.rig,
        }
    }

    fn member(&self) -> Member {
        let plain = ["--reply-command", "", "-s", "workspace-write"];
        match self {
            Self::Script(rig) => rig.member(&plain),
            Self::Daemon(rig) => rig.member_of_daemon(&plain),
            Self::Codex(world) => world.member(&plain),
        }
    }

    async fn daemon(&self) -> Daemon {
        match self {
            Self::Script(rig) | Self::Daemon(rig) => {
                Daemon::start(&rig.home, &["--script", rig.script()]).await
            }
            Self::Codex(world) => world.daemon().await,
        }
    }

    /// The messages that reached the agent, in their order.
    fn ran(&self) -> Vec<String> {
        match self {
            Self::Script(rig) | Self::Daemon(rig) => {
                let ran = std::fs::read_to_string(rig.home.workspace().join("ran")).unwrap();
                ran.lines().map(str::to_owned).collect()
            }
            Self::Codex(world) => {
                let requests = world.model.requests();
                let texts = requests.iter().map(|request| request.last_user_text());
                texts.collect()
            }
        }
    }
}

/// What the orchestrator knows of a message.
#[derive(Debug, Default)]
struct Known {
    /// The turns that completed it: never more than one.
    completed: BTreeSet<String>,
    /// The turns that were reported failed, interrupted or unknown.
    failed: BTreeSet<String>,
    /// The shim did not take it: it is sent again.
    is_refused: bool,
}

impl Known {
    fn is_answered(&self) -> bool {
        !self.completed.is_empty() || !self.failed.is_empty()
    }
}

struct Orchestrator<'a> {
    agents: &'a Agents,
    daemon: Option<Daemon>,
    member: Member,
    known: BTreeMap<String, Known>,
    /// Turns whose completion this shim process has told.
    told_by_this_shim: BTreeSet<String>,
    sent: usize,
    losses: BTreeMap<Loss, usize>,
    /// Processes of the engine that were killed.
    killed: usize,
    duplicates: usize,
    recovered: usize,
}

fn id(number: usize) -> String {
    format!("m{number:04}")
}

/// An agent that writes down each message; its work takes long enough to be hit.
fn script(total: usize) -> String {
    let mut text = "version: 1\nturns:\n".to_owned();
    for number in 0..total {
        let id = id(number);
        // Writing into a string cannot fail.
        let _ = write!(
            text,
            "  - match: \"{id}\"\n    steps:\n      - exec: {{cmd: \"echo {id} >> ran; sleep 0.02\", \
             real: true}}\n      - say: {{text: \"done\", phase: final_answer}}\n"
        );
    }
    text
}

impl<'a> Orchestrator<'a> {
    async fn new(agents: &'a Agents) -> Self {
        let daemon = match agents {
            Agents::Daemon(_) => Some(agents.daemon().await),
            Agents::Script(_) | Agents::Codex(_) => None,
        };
        let mut member = agents.member();
        member.event("Ready").await;
        Self {
            agents,
            daemon,
            member,
            known: BTreeMap::new(),
            told_by_this_shim: BTreeSet::new(),
            sent: 0,
            losses: BTreeMap::new(),
            killed: 0,
            duplicates: 0,
            recovered: 0,
        }
    }

    fn in_flight(&self) -> Vec<String> {
        let open = self.known.iter().filter(|(_, known)| !known.is_answered());
        open.map(|(id, _)| id.clone()).collect()
    }

    fn note(&mut self, event: &Value) {
        let name = event["event"].as_str().unwrap();
        assert_ne!(name, "Error", "counts against the member: {event}");
        let Some(id) = id_of(event) else { return };
        let Some(known) = self.known.get_mut(id) else {
            panic!("never sent: {event}");
        };
        let turn = event["turn_id"].as_str().unwrap_or_default().to_owned();
        match name {
            "Completion" => {
                let is_again = event["duplicate"] == true;
                self.duplicates += usize::from(is_again);
                self.recovered += usize::from(event["recovered"] == true);
                // The answer to a repeated message is beside its receipt, and may come before it.
                let is_new = is_again || self.told_by_this_shim.insert(turn.clone());
                assert!(is_new, "told twice: {event}");
                known.completed.insert(turn);
                assert_eq!(known.completed.len(), 1, "run twice: {id}: {known:?}");
            }
            "DeliveryFailed" if turn.is_empty() && event["retryable"] == true => {
                known.is_refused = true;
            }
            "DeliveryFailed" => {
                let kinds = [&event["code"], &event["kind"]];
                let words = ["outcome_unknown", "interrupted", "engine_crashed"];
                let is_loss = |word: &&Value| words.iter().any(|known| **word == *known);
                assert!(kinds.iter().any(is_loss), "no loss: {event}");
                let is_new = self.told_by_this_shim.insert(turn.clone());
                assert!(is_new, "told twice: {event}");
                known.failed.insert(turn);
            }
            _ => {}
        }
    }

    async fn send_more(&mut self, total: usize) {
        for (id, known) in &mut self.known {
            if std::mem::take(&mut known.is_refused) && !known.is_answered() {
                self.member.message(id, id).await;
            }
        }
        while self.sent < total && self.in_flight().len() < IN_FLIGHT_MAX {
            let id = id(self.sent);
            self.member.message(&id, &id).await;
            self.known.insert(id, Known::default());
            self.sent += 1;
        }
    }

    /// Reads so many events, or fewer where nothing is in flight; false at the end of the channel.
    async fn read(&mut self, count: usize) -> bool {
        let mut numbers = 0;
        for _ in 0..count {
            if self.in_flight().is_empty() {
                break;
            }
            let Some(event) = self.member.next().await else {
                return false;
            };
            // Numbers come by the clock: a lane that tells nothing else stands still.
            numbers = match event["event"].as_str() {
                Some("SessionStats") => numbers + 1,
                _ => 0,
            };
            assert!(numbers < 3, "the lane stands still: {:?}", self.in_flight());
            self.note(&event);
        }
        true
    }

    /// Reads what comes in this time: the moment of a loss is some time behind an event.
    async fn read_for(&mut self, time: Duration) {
        let reading = async {
            while let Some(event) = self.member.next().await {
                self.note(&event);
            }
        };
        let _ = tokio::time::timeout(time, reading).await;
    }

    async fn lose(&mut self, loss: Loss) {
        *self.losses.entry(loss).or_default() += 1;
        let mut gone = None;
        match loss {
            Loss::Shim => {
                self.member.process.kill9().await.unwrap();
                self.read_rest().await;
            }
            Loss::Orchestrator => {
                // The one that died has read nothing more; the next one does not wait for the shim's end.
                self.member.hang_up();
                let successor = self.agents.member();
                gone = Some(std::mem::replace(&mut self.member, successor));
            }
            Loss::Handoff => {
                let successor = self.agents.member();
                let mut old = std::mem::replace(&mut self.member, successor);
                let end = json!({"cmd": "Shutdown", "timeout_secs": HANDOFF_SECS,
                                 "reason": "restart_handoff"});
                #[expect(clippy::disallowed_methods, reason = "a time limit is what is tested")]
                let began = Instant::now();
                old.send(end).await;
                let told = old.rest().await;
                assert_eq!(old.exit().await.code(), Some(0));
                let took = began.elapsed();
                assert!(took < 2 * Duration::from_secs(HANDOFF_SECS), "{took:?}");
                assert_eq!(told.last().unwrap()["event"], "Died");
                for event in told {
                    self.note(&event);
                }
                gone = Some(old);
            }
            Loss::Engine => {
                // The shim stays; the lane finds out what became of the turn.
                self.killed += kill_engines(self.agents.rig());
                self.ask_again().await;
                return;
            }
            Loss::Daemon => {
                // The shim stays: it looks for the next daemon and goes on there.
                let mut daemon = self.daemon.take().unwrap();
                daemon.process.kill9().await.unwrap();
                self.daemon = Some(self.agents.daemon().await);
                self.ask_again().await;
                return;
            }
        }
        if gone.is_none() {
            self.member = self.agents.member();
        }
        self.told_by_this_shim.clear();
        for event in self.member.until("Ready").await {
            self.note(&event);
        }
        if let Some(mut gone) = gone {
            // 6 where the shim was about to write: its channel broke, and the rest is the same.
            let code = gone.exit().await.code();
            assert!(
                matches!(code, Some(0 | 6)),
                "{code:?}: {}",
                gone.process.stderr_tail()
            );
        }
        self.ask_again().await;
    }

    /// Sends every message again whose end is not known.
    async fn ask_again(&mut self) {
        for id in self.in_flight() {
            self.member.message(&id, &id).await;
        }
    }

    async fn read_rest(&mut self) {
        for event in self.member.rest().await {
            // A shim whose server is gone may say so.
            if event["event"] != "Error" {
                self.note(&event);
            }
        }
    }
}

/// Kills the processes of Codex that use this home, and returns how many there were.
fn kill_engines(rig: &Rig) -> usize {
    let found = codex_processes(rig);
    let kills = found
        .iter()
        .map(|pid| kill_process(*pid, Signal::KILL).is_ok());
    kills.filter(|is_killed| *is_killed).count()
}

#[tokio::test]
async fn losses_of_shim_and_orchestrator_leave_every_message_answered_once() {
    let losses = [Loss::Shim, Loss::Orchestrator, Loss::Handoff];
    let total = total(30);
    with_losses(
        Agents::Script(Rig::with_script(&script(total))),
        total,
        &losses,
    )
    .await;
}

#[tokio::test]
async fn losses_of_the_daemon_too_leave_every_message_answered_once() {
    let losses = [Loss::Shim, Loss::Orchestrator, Loss::Daemon];
    let total = total(30);
    with_losses(
        Agents::Daemon(Rig::with_script(&script(total))),
        total,
        &losses,
    )
    .await;
}

/// The answers of a model take long enough to be hit.
async fn codex(agent: Agent) -> Option<Agents> {
    let world = World::new(agent, || Reply::text("held")).await?;
    world
        .model
        .choose_with(|_| Some(Reply::text("done").pause(At::Request, ANSWER_AFTER)));
    Some(Agents::Codex(world))
}

#[tokio::test]
async fn losses_of_codex_too_leave_every_message_answered_once() {
    let losses = [Loss::Engine, Loss::Engine, Loss::Shim, Loss::Orchestrator];
    if let Some(agents) = codex(Agent::Codex).await {
        with_losses(agents, total(15), &losses).await;
    }
}

#[tokio::test]
async fn losses_of_codex_exec_too_leave_every_message_answered_once() {
    let losses = [Loss::Engine, Loss::Engine, Loss::Shim, Loss::Orchestrator];
    if let Some(agents) = codex(Agent::CodexExec).await {
        with_losses(agents, total(15), &losses).await;
    }
}

/// How many messages a run has.
fn total(small: usize) -> usize {
    let given = std::env::var("TURNLANE_TEST_MESSAGES").ok();
    let given = given.and_then(|number| number.parse().ok());
    given.unwrap_or(if is_full() { 1_000 } else { small })
}

#[expect(clippy::print_stderr, reason = "a failed run is repeated by its seed")]
async fn with_losses(agents: Agents, total: usize, losses: &[Loss]) {
    let mut random = Random::new(seed());
    eprintln!("seed {}, {total} messages", seed());
    let mut double = Orchestrator::new(&agents).await;
    let mut left = total / 5;
    loop {
        double.send_more(total).await;
        let is_open = double.read(1 + random.below(12)).await;
        assert!(is_open, "{}", double.member.process.stderr_tail());
        if double.in_flight().is_empty() && double.sent == total {
            break;
        }
        if left > 0 && random.one_in(2) {
            left -= 1;
            double.read_for(random.shorter(BEHIND_MAX)).await;
            double.lose(random.of(losses)).await;
        }
    }
    eprintln!(
        "losses {:?}, processes of engines {}, duplicates {}, recovered {}",
        double.losses, double.killed, double.duplicates, double.recovered
    );
    check(&agents, double).await;
}

/// Compares what was told with what the store has and what the agent ran.
#[expect(clippy::print_stderr, reason = "figures of a run")]
async fn check(agents: &Agents, double: Orchestrator<'_>) {
    let rig = agents.rig();
    let Orchestrator {
        member,
        daemon,
        known,
        ..
    } = double;
    member.shutdown().await;
    let mut daemon = match daemon {
        Some(daemon) => daemon,
        None => agents.daemon().await,
    };
    let mut client = daemon.unix().await;
    let listed = ok(&mut client, "thread/list", json!({})).await;
    assert_eq!(listed["data"].as_array().unwrap().len(), 1, "one lane");
    let thread = listed["data"][0]["id"].as_str().unwrap().to_owned();
    let mut recorded: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut first_turns = Vec::new();
    for (text, status) in turns(&mut client, &thread).await {
        if !recorded.contains_key(&text) {
            first_turns.push(text.clone());
        }
        recorded.entry(text).or_default().push(status);
    }
    let ran = agents.ran();
    let mut unknown = 0;
    for (id, known) in &known {
        assert!(known.is_answered(), "lost: {id}");
        let turns = recorded.get(id).cloned().unwrap_or_default();
        let completed = turns.iter().filter(|status| *status == "completed").count();
        assert_eq!(
            completed,
            known.completed.len(),
            "{id}: {turns:?} {known:?}"
        );
        let runs = ran.iter().filter(|line| *line == id).count();
        assert!(runs <= turns.len(), "{id} ran {runs} times: {turns:?}");
        assert!(runs >= completed, "{id} never ran");
        unknown += usize::from(completed == 0);
    }
    // A turn that was hit before its agent wrote anything has begun all the same. Messages that are sent
    // while a daemon is looked for may be refused and are accepted later than those behind them.
    let is_in_order = first_turns.is_sorted() || matches!(agents, Agents::Daemon(_));
    assert!(is_in_order, "{first_turns:?}");
    assert_eq!(recorded.len(), known.len(), "turns of no message");
    drop(client);
    daemon.process.terminate().unwrap();
    daemon.process.wait(DEADLINE).await.unwrap();
    let workspace = rig.home.workspace();
    let workspace = workspace.to_str().unwrap();
    eventually("no process left", DEADLINE, async || {
        processes_below(workspace).is_empty()
    })
    .await
    .unwrap_or_else(|error| panic!("{error}: {:?}", processes_below(workspace)));
    let attempts: usize = recorded.values().map(Vec::len).sum();
    eprintln!(
        "{} messages, {attempts} turns, {} runs, {unknown} reported unknown",
        known.len(),
        ran.len()
    );
}
