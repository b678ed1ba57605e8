//! The work of a round, and the moment of the kill.
//!
//! The invariant here: a message is in the ledger before it is sent, and counts as acknowledged only
//! when its answer was read. Answers that a dead server had written are read too: they were given.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use turnlane_testkit::Random;

use crate::ledger::Way;
use crate::model::Mood;
use crate::server::{Answer, Killer, Server};
use crate::trial::{Life, Pause, Trial};

/// How long after its acknowledged add a kill comes: at once, or below one of these milliseconds.
const BEHIND_MS: [usize; 5] = [0, 0, 60, 60, 500];
/// A kill follows one of the first acknowledged adds of a round.
const ADDS_BEFORE_MAX: usize = 6;
/// How many steps a round has, at least and besides.
const STEPS: (usize, usize) = (4, 6);
/// How many adds are sent at once, at least and besides.
const BURST: (usize, usize) = (2, 3);
/// How many rows wait behind a command.
const BEHIND_A_COMMAND: usize = 3;

/// When the server is killed.
pub(crate) struct Trigger {
    killer: Killer,
    /// How many acknowledged adds it lets pass.
    left: usize,
    behind: Duration,
    /// The kill under way.
    task: Option<JoinHandle<()>>,
}

impl Trigger {
    pub(crate) fn choose(random: &mut Random, killer: Killer) -> Self {
        let behind_us = random.of(&BEHIND_MS) * 1000;
        let behind_us = u64::try_from(random.below(behind_us)).unwrap_or_default();
        Self {
            killer,
            left: random.below(ADDS_BEFORE_MAX),
            behind: Duration::from_micros(behind_us),
            task: None,
        }
    }

    /// An add was acknowledged.
    fn acknowledged(&mut self) {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None if self.task.is_none() => self.pull(),
            None => {}
        }
    }

    /// Kills, now or as long afterwards as was chosen.
    pub(crate) fn pull(&mut self) {
        if self.behind.is_zero() {
            self.killer.kill();
        }
        self.task = Some(tokio::spawn(self.killer.kill_after(self.behind)));
    }

    /// Returns when the server has been killed; one that nothing has killed yet is killed now, and one
    /// that is gone without it is an error.
    pub(crate) async fn pulled(mut self, life: Life) -> anyhow::Result<()> {
        if life == Life::Runs && self.task.is_none() {
            self.behind = Duration::ZERO;
            self.pull();
        }
        let task = self
            .task
            .context("the server left and nobody had killed it")?;
        Ok(task.await?)
    }
}

impl Trial {
    /// Gives work until there has been enough, or the server is gone.
    pub(crate) async fn work(
        &mut self,
        server: &mut Server,
        trigger: &mut Trigger,
    ) -> anyhow::Result<Life> {
        let steps = STEPS.0 + self.random.below(STEPS.1);
        for _ in 0..steps {
            if self.step(server, trigger).await? == Life::Gone {
                return Ok(Life::Gone);
            }
        }
        Ok(Life::Runs)
    }

    async fn step(&mut self, server: &mut Server, trigger: &mut Trigger) -> anyhow::Result<Life> {
        let at = self.random.below(self.lanes.len());
        if self.lanes[at].refused.is_some() {
            return Ok(Life::Runs);
        }
        if self.lanes[at].idle && self.random.one_in(3) {
            return self.start_turn(server, at).await;
        }
        match self.random.below(100) {
            0..45 => self.add(server, at, 1, trigger).await,
            45..70 => {
                let rows = BURST.0 + self.random.below(BURST.1);
                self.add(server, at, rows, trigger).await
            }
            70..88 => self.interrupt(server, at).await,
            _ if self.contender.kind.is_ours() => self.pause_or_resume(server, at).await,
            _ => self.add(server, at, 1, trigger).await,
        }
    }

    /// Rows behind a command that runs, then the kill: whatever the other rounds happen to hit.
    pub(crate) async fn work_behind_a_command(
        &mut self,
        server: &mut Server,
        way: Way,
        trigger: &mut Trigger,
    ) -> anyhow::Result<Life> {
        let at = self.random.below(self.lanes.len());
        let (text, params) = self.say(at, way, Mood::Endless);
        server.must(way.method(), params).await?;
        self.lanes[at].ledger.answered(&text);
        if let Err(error) = self.model.command_runs(&text).await {
            let thread = self.lanes[at].thread.clone();
            let seen = self.look(server, &thread, None).await?;
            let shown = server.must("thread/queue/list", json!({"threadId": thread}));
            let shown = shown.await?;
            return Err(error.context(format!("{text} does not run: {shown}, {seen:?}")));
        }
        self.add(server, at, BEHIND_A_COMMAND, trigger).await
    }

    fn mood(&mut self) -> Mood {
        self.random.of(Mood::of(self.contender.kind))
    }

    /// The parameters of a new message to a lane.
    fn say(&mut self, at: usize, way: Way, mood: Mood) -> (String, Value) {
        let text = self.message(mood.word());
        let lane = &mut self.lanes[at];
        lane.idle = false;
        lane.ledger.sent(&text, way);
        let params = saying(&lane.thread, &text);
        (text, params)
    }

    /// Adds rows, all sent before the first answer is read.
    async fn add(
        &mut self,
        server: &mut Server,
        at: usize,
        rows: usize,
        trigger: &mut Trigger,
    ) -> anyhow::Result<Life> {
        let mut sent = Vec::new();
        let mut life = Life::Runs;
        for _ in 0..rows {
            let mood = self.mood();
            let (text, params) = self.say(at, Way::Row, mood);
            let Some(id) = server.send(Way::Row.method(), params).await? else {
                life = Life::Gone;
                break;
            };
            sent.push((id, text));
        }
        for (id, text) in sent {
            match server.answer(id).await? {
                Answer::Result(_) => {
                    self.lanes[at].ledger.answered(&text);
                    trigger.acknowledged();
                }
                Answer::Refused(error) => anyhow::bail!("thread/queue/add was refused: {error}"),
                Answer::Gone => life = Life::Gone,
            }
        }
        Ok(life)
    }

    async fn start_turn(&mut self, server: &mut Server, at: usize) -> anyhow::Result<Life> {
        let mood = self.mood();
        let (text, params) = self.say(at, Way::Direct, mood);
        match server.call(Way::Direct.method(), params).await? {
            Answer::Result(_) => self.lanes[at].ledger.answered(&text),
            Answer::Refused(error) => anyhow::bail!("turn/start was refused: {error}"),
            Answer::Gone => return Ok(Life::Gone),
        }
        Ok(Life::Runs)
    }

    /// Interrupts a turn, of this lane or another, if any is known to run.
    async fn interrupt(&mut self, server: &mut Server, at: usize) -> anyhow::Result<Life> {
        // What was said meanwhile is read with any answer.
        let params = json!({"threadId": self.lanes[at].thread});
        server.call("thread/queue/list", params).await?;
        let mut threads = self.lanes.iter().map(|lane| &lane.thread);
        let running = threads.find_map(|thread| Some((thread, server.running(thread)?)));
        let Some((thread, turn)) = running else {
            return Ok(Life::Runs);
        };
        let params = json!({"threadId": thread, "turnId": turn});
        match server.call("turn/interrupt", params).await? {
            Answer::Result(_) => self.report.interrupts += 1,
            // It has ended meanwhile.
            Answer::Refused(_) => {}
            Answer::Gone => return Ok(Life::Gone),
        }
        Ok(Life::Runs)
    }

    async fn pause_or_resume(&mut self, server: &mut Server, at: usize) -> anyhow::Result<Life> {
        let lane = &mut self.lanes[at];
        let (method, then) = match lane.pause {
            Pause::Off => ("thread/queue/pause", Pause::On),
            Pause::On | Pause::Unknown => ("thread/queue/resume", Pause::Off),
        };
        lane.pause = Pause::Unknown;
        let params = json!({"threadId": lane.thread});
        match server.call(method, params).await? {
            Answer::Result(_) => lane.pause = then,
            Answer::Refused(error) => anyhow::bail!("{method} was refused: {error}"),
            Answer::Gone => return Ok(Life::Gone),
        }
        Ok(Life::Runs)
    }
}

/// The parameters of a message, in the dialect that every contender speaks.
pub(crate) fn saying(thread: &str, text: &str) -> Value {
    json!({"threadId": thread, "clientUserMessageId": text,
        "input": [{"type": "text", "text": text, "text_elements": []}]})
}
