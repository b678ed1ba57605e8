//! Lanes come to rest, and what they show is compared with the ledgers.
//!
//! The invariant here: a lane is called stuck only after nothing has changed in it for a long time,
//! nothing holds it that a person would have to decide, and everything its server offers to make it go
//! on was tried. What a crash has left failed is retried here, which the ledger knows.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use turnlane_testkit::wait::{eventually, within};

use crate::ledger::{Seen, Turn, Way};
use crate::server::{Answer, Kind, Server};
use crate::trial::{Pause, Trial};
use crate::work::saying;

/// How long nothing may change in a lane that is not at rest.
const STILL_MAX: Duration = Duration::from_secs(40);
/// How long a new turn may take on a lane at rest, and a process to be gone.
const PROBE_LIMIT: Duration = Duration::from_mins(1);

/// How a server's lanes are watched.
struct Watch {
    /// How often.
    every: Duration,
    /// How long a lane must look idle: Codex says so between the end of a turn and the next row.
    quiet: Duration,
    /// After how long without change its next row is asked for. Ours goes on by itself.
    nudge: Option<Duration>,
}

impl Watch {
    fn of(kind: Kind) -> Self {
        match kind {
            Kind::Codex => Self {
                every: Duration::from_millis(100),
                quiet: Duration::from_millis(1500),
                nudge: Some(Duration::from_secs(3)),
            },
            Kind::Stdio | Kind::Serve => Self {
                every: Duration::from_millis(5),
                quiet: Duration::ZERO,
                nudge: None,
            },
        }
    }
}

impl Trial {
    /// Waits until every lane is at rest, runs a turn on each, and compares.
    pub(crate) async fn rest(&mut self, server: &mut Server) -> anyhow::Result<()> {
        for at in 0..self.lanes.len() {
            self.still_paused(server, at).await?;
            let mut restless = self.lanes[at].refused.clone();
            if restless.is_none() {
                restless = self.come_to_rest(server, at).await?;
            }
            if restless.is_none() {
                restless = self.probe(server, at).await?;
            }
            let thread = self.lanes[at].thread.clone();
            let restless = restless.map(|why| format!("thread {thread}: {why}"));
            let seen = self.look(server, &thread, restless).await?;
            let lane = &mut self.lanes[at];
            lane.idle = seen.restless.is_none();
            let faults = lane.ledger.compare(&seen, self.model.asked());
            let asked = self.model.asked();
            let new = faults.lost.difference(&self.report.faults.lost);
            self.report.lost_after_asking += new.filter(|text| asked.contains_key(*text)).count();
            self.report.faults.extend(faults);
            lane.seen = seen;
        }
        // What is stuck or cannot be resumed is no use for the rounds to come.
        let (rests, broken): (Vec<_>, Vec<_>) = std::mem::take(&mut self.lanes)
            .into_iter()
            .partition(|lane| lane.idle);
        self.lanes = broken;
        self.retire();
        self.lanes = rests;
        self.no_process_left().await
    }

    /// An acknowledged pause outlives the server.
    async fn still_paused(&mut self, server: &mut Server, at: usize) -> anyhow::Result<()> {
        let lane = &mut self.lanes[at];
        if lane.pause == Pause::On {
            let params = json!({"threadId": lane.thread});
            let listed = server.must("thread/queue/list", params).await?;
            if listed["paused"].is_null() {
                let fault = format!("thread {}: {listed}", lane.thread);
                self.report.faults.unpaused.insert(fault);
            }
        }
        lane.pause = Pause::Off;
        Ok(())
    }

    /// Why a lane is not at rest, when everything was tried.
    async fn come_to_rest(
        &mut self,
        server: &mut Server,
        at: usize,
    ) -> anyhow::Result<Option<String>> {
        let kind = self.contender.kind;
        let watch = Watch::of(kind);
        let mut last = Value::Null;
        let mut since = Instant::now();
        let mut nudged = since;
        loop {
            let state = state(server, kind, &self.lanes[at].thread).await?;
            if state != last {
                since = Instant::now();
                nudged = since;
                last = state;
            }
            if is_idle(&last) && since.elapsed() >= watch.quiet {
                return Ok(None);
            }
            if kind.is_ours() {
                self.decide(server, at, &last).await?;
            }
            if watch.nudge.is_some_and(|nudge| nudged.elapsed() > nudge) {
                nudged = Instant::now();
                start_next(server, &self.lanes[at].thread, &last).await?;
            }
            if since.elapsed() > STILL_MAX {
                return Ok(Some(format!("nothing moves: {last}")));
            }
            tokio::time::sleep(watch.every).await;
        }
    }

    /// What a person would do about a lane that waits for one: end its pause, retry what a crash left.
    async fn decide(
        &mut self,
        server: &mut Server,
        at: usize,
        state: &Value,
    ) -> anyhow::Result<()> {
        let lane = &mut self.lanes[at];
        let thread = lane.thread.clone();
        if !state["paused"].is_null() {
            server
                .must("thread/queue/resume", json!({"threadId": thread}))
                .await?;
        }
        if let Some(row) = state["blocked"]["queuedTurnId"].as_str() {
            let head = &state["data"][0];
            anyhow::ensure!(head["id"] == row, "the failed row is not the head: {state}");
            let text = text_of(&head["input"]).context("the failed row has no text")?;
            lane.ledger.retried(&text);
            self.report.held += 1;
            let params = json!({"threadId": thread, "queuedTurnId": row});
            server.must("thread/queue/retry", params).await?;
        }
        Ok(())
    }

    /// Runs a turn on a lane at rest; why it did not work.
    pub(crate) async fn probe(
        &mut self,
        server: &mut Server,
        at: usize,
    ) -> anyhow::Result<Option<String>> {
        let text = self.message("probe");
        let lane = &mut self.lanes[at];
        lane.ledger.sent(&text, Way::Direct);
        let params = saying(&lane.thread, &text);
        let started = match server.call("turn/start", params).await? {
            Answer::Result(started) => started,
            Answer::Refused(error) => {
                lane.ledger.refused(&text);
                return Ok(Some(format!("a new turn was refused: {error}")));
            }
            Answer::Gone => anyhow::bail!("the server left at a new turn"),
        };
        lane.ledger.answered(&text);
        let turn = &started["turn"]["id"];
        let is_end = |message: &Value| {
            message["method"] == "turn/completed" && message["params"]["turn"]["id"] == *turn
        };
        let end = server.client.find("the end of a new turn", is_end);
        let Ok(end) = within("the end of a new turn", PROBE_LIMIT, end).await else {
            return Ok(Some(format!("a new turn does not end: {text}")));
        };
        let status = &end?["params"]["turn"]["status"];
        if status != "completed" {
            return Ok(Some(format!("a new turn is {status}: {text}")));
        }
        let recorded = self.model.asked().get(&text) == Some(&1);
        anyhow::ensure!(
            recorded,
            "the model has no record of {text}: nobody would see a double"
        );
        Ok(None)
    }

    /// What a thread shows.
    pub(crate) async fn look(
        &self,
        server: &mut Server,
        thread: &str,
        restless: Option<String>,
    ) -> anyhow::Result<Seen> {
        let params = json!({"threadId": thread, "includeTurns": true});
        let read = match server.call("thread/read", params).await? {
            Answer::Result(read) => read,
            // A thread that cannot be resumed may be unreadable too; its rows are looked for.
            Answer::Refused(error) if restless.is_none() => {
                anyhow::bail!("thread/read was refused: {error}")
            }
            Answer::Refused(_) => Value::Null,
            Answer::Gone => anyhow::bail!("the server left at thread/read"),
        };
        let rows = match server
            .call("thread/queue/list", json!({"threadId": thread}))
            .await?
        {
            Answer::Result(rows) => rows,
            Answer::Refused(_) | Answer::Gone => Value::Null,
        };
        Ok(Seen {
            turns: array(&read["thread"]["turns"]).iter().map(turn).collect(),
            queued: array(&rows["data"])
                .iter()
                .filter_map(|row| text_of(&row["input"]))
                .collect(),
            restless,
        })
    }

    /// Commands that ran when their server was killed are gone.
    async fn no_process_left(&mut self) -> anyhow::Result<()> {
        let gone = async || self.model.alive().is_ok_and(|alive| alive.is_empty());
        if eventually("the end of all commands", PROBE_LIMIT, gone)
            .await
            .is_err()
        {
            let left = self.model.alive()?;
            self.report.faults.outliving.extend(left);
        }
        self.report.commands += self.model.forget_marks()?;
        Ok(())
    }
}

/// The lane as its server shows it: the queue, and for Codex the thread, which tells more.
async fn state(server: &mut Server, kind: Kind, thread: &str) -> anyhow::Result<Value> {
    let params = json!({"threadId": thread});
    let mut state = server.must("thread/queue/list", params).await?;
    if kind.is_ours() {
        return Ok(state);
    }
    let params = json!({"threadId": thread, "includeTurns": true});
    let read = server.must("thread/read", params).await?;
    let turns = array(&read["thread"]["turns"]);
    let statuses: Vec<&Value> = turns.iter().map(|turn| &turn["status"]).collect();
    state["turns"] = json!(statuses);
    state["status"] = read["thread"]["status"].clone();
    Ok(state)
}

/// Whether nothing waits, nothing runs and nothing would keep a row from running.
fn is_idle(state: &Value) -> bool {
    let held = !state["paused"].is_null();
    let runs = !state["running"].is_null() || state["status"]["type"] == "active";
    array(&state["data"]).is_empty() && state["data"].is_array() && !held && !runs
}

/// Asks for the next row, which Codex may have paused without showing it.
async fn start_next(server: &mut Server, thread: &str, state: &Value) -> anyhow::Result<()> {
    if let Some(row) = array(&state["data"]).first() {
        let params = json!({"threadId": thread, "queuedSubmissionId": row["id"]});
        // Refused while something runs, which is as well.
        server.call("thread/queue/start", params).await?;
    }
    Ok(())
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text of an input of one part.
fn text_of(input: &Value) -> Option<String> {
    input[0]["text"].as_str().map(str::to_owned)
}

fn turn(turn: &Value) -> Turn {
    let items = array(&turn["items"]).iter();
    let said = items.filter(|item| item["type"] == "userMessage");
    Turn {
        texts: said.filter_map(|item| text_of(&item["content"])).collect(),
        status: turn["status"].as_str().unwrap_or_default().to_owned(),
    }
}
