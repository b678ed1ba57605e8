//! Taking the lane: the binding, what waits in it, and what ended while no shim was there.
//!
//! The invariant here: nothing is reported that the last shim has reported, as far as its file says, and
//! nothing is left out that ended after it. Attaching twice finds the same thread.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::read::{self, EXHAUSTED, QueueLook, turn_end};
use super::{Lane, SHIM_PAUSE};
use crate::error::LaneError;
use crate::receipts::{self, LastReported};
use crate::state::{EngineHealth, Fate, MessageName, TurnEnd, TurnStart};

/// Turns that are looked at for what was not reported.
const TURNS_MAX: usize = 10_000;
/// Turns in one answer, which has their messages in full length and a limit of its own.
const PAGE: usize = 10;

/// A lane that is ours.
#[derive(Clone, Debug)]
pub(crate) struct Attached {
    pub(crate) thread: String,
    pub(crate) engine: String,
    pub(crate) model: String,
    pub(crate) health: EngineHealth,
    pub(crate) queue: QueueLook,
    /// Turns that ended since the last report, oldest first.
    pub(crate) ended: Vec<TurnEnd>,
    pub(crate) running: Option<TurnStart>,
    /// The newest turn that has ended.
    pub(crate) newest_ended: Option<String>,
    /// The file that says what was reported is there.
    pub(crate) has_record: bool,
}

impl Lane {
    /// Takes the lane once. [`LaneError::Held`] says that another shim or worker has it.
    pub(crate) async fn attach(
        self,
        directory: &Path,
        is_fresh: bool,
    ) -> Result<Attached, LaneError> {
        let mut start = self.start(None).await?;
        if is_fresh && start["existing"] == true {
            let superseded = start["thread"]["id"].as_str().unwrap_or_default();
            start = self.start(Some(superseded)).await?;
        }
        let thread = start["thread"]["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let lane = self.of_thread(&thread);
        // Only now: a predecessor that had the lane may have recorded its last receipts just before.
        let record = (directory.to_owned(), self.binding().to_owned());
        let reading = tokio::task::spawn_blocking(move || receipts::read(&record.0, &record.1));
        let last = reading.await.ok().flatten();
        let (turns, newest_ended, running) = lane.unreported(last.as_ref()).await?;
        let mut ended = match &last {
            Some(last) if last.thread != thread => self.left_in_former(last).await?,
            _ => Vec::new(),
        };
        ended.extend(turns);
        if newest_ended.is_none() && running.is_none() {
            // A successor takes over what held its predecessor, whose context it does not have.
            lane.resume_reason(EXHAUSTED).await?;
        }
        let queue = lane.look().await?;
        let ended = fated(ended, running.as_ref(), &queue);
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let attached = Attached {
            engine: start["thread"]["engine"]
                .as_str()
                .map(str::to_owned)
                .or_else(|| self.options.thread.engine.clone())
                .unwrap_or_else(|| "native".to_owned()),
            model: word(&start["model"]),
            health: read::health(&start),
            ended,
            running,
            newest_ended,
            has_record: last.is_some(),
            thread,
            queue,
        };
        // Last, so that what it lets begin is told as an event and not read above.
        lane.resume_reason(SHIM_PAUSE).await?;
        Ok(attached)
    }

    /// Makes a thread that takes the place of the present one, with what waits there.
    pub(crate) async fn succeed(&self) -> Result<(String, QueueLook), LaneError> {
        let start = self.start(Some(&self.thread)).await?;
        let thread = start["thread"]["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let queue = self.of_thread(&thread).look().await?;
        Ok((thread, queue))
    }

    /// Lets a successor begin, which took over what held its predecessor.
    pub(crate) async fn begin_successor(&self) -> Result<QueueLook, LaneError> {
        self.resume_reason(EXHAUSTED).await?;
        self.look().await
    }

    async fn start(&self, supersedes: Option<&str>) -> Result<Value, LaneError> {
        let options = &self.options;
        let mut params = Map::new();
        let mut set = |name: &str, value: Value| {
            if !value.is_null() {
                params.insert(name.to_owned(), value);
            }
        };
        set("binding", (&*self.binding).into());
        set("cwd", options.cwd.display().to_string().into());
        set("queueMaxDepth", options.max_queue.into());
        set("engine", json!(options.thread.engine));
        set("model", json!(options.thread.model));
        set("sandbox", json!(options.thread.sandbox));
        set("config", json!(options.thread.config));
        set("supersedes", json!(supersedes));
        self.call("thread/start", params.into()).await
    }

    /// The ended turns after the last one that was reported, oldest first; the newest ended one; and the
    /// one that runs.
    async fn unreported(
        &self,
        last: Option<&LastReported>,
    ) -> Result<(Vec<TurnEnd>, Option<String>, Option<TurnStart>), LaneError> {
        // Without a report of this shim nothing old is told; of a thread that took the place of the
        // reported one everything is.
        let until = match last {
            None => return self.running_only().await,
            Some(last) if *last.thread == *self.thread => last.turn.clone(),
            Some(_) => None,
        };
        let mut found = Vec::new();
        let mut running = None;
        let mut cursor = Value::Null;
        'pages: while found.len() < TURNS_MAX {
            let page = self.page(PAGE, &cursor).await?;
            for turn in page["data"].as_array().into_iter().flatten() {
                if turn["id"].as_str() == until.as_deref() && until.is_some() {
                    break 'pages;
                }
                match turn_end(turn) {
                    Some(end) => found.push(end),
                    None => running = running.or_else(|| turn_start(turn)),
                }
            }
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        let newest = found.first().map(|end| end.turn.clone()).or(until);
        found.reverse();
        Ok((found, newest, running))
    }

    /// The unreported ends of the thread that the present one took over from.
    async fn left_in_former(&self, last: &LastReported) -> Result<Vec<TurnEnd>, LaneError> {
        let former = self.of_thread(&last.thread);
        let mut ended = match former.unreported(Some(last)).await {
            Ok((ended, ..)) => ended,
            // The thread was deleted, and its turns with it.
            Err(LaneError::Refused { .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        for end in &mut ended {
            end.former_thread = Some(last.thread.clone());
        }
        Ok(ended)
    }

    async fn running_only(
        &self,
    ) -> Result<(Vec<TurnEnd>, Option<String>, Option<TurnStart>), LaneError> {
        let page = self.page(2, &Value::Null).await?;
        let turns = page["data"].as_array().cloned().unwrap_or_default();
        let running = turns.iter().find(|turn| turn["status"] == "inProgress");
        let newest = turns.iter().find(|turn| turn["status"] != "inProgress");
        let newest = newest.and_then(|turn| turn["id"].as_str());
        Ok((
            Vec::new(),
            newest.map(str::to_owned),
            running.and_then(turn_start),
        ))
    }

    async fn page(&self, limit: usize, cursor: &Value) -> Result<Value, LaneError> {
        let mut params = json!({"threadId": &*self.thread, "limit": limit,
                                "sortDirection": "desc", "itemsView": "summary"});
        if !cursor.is_null() {
            params["cursor"] = cursor.clone();
        }
        self.call("thread/turns/list", params).await
    }
}

/// A stored turn that runs.
fn turn_start(turn: &Value) -> Option<TurnStart> {
    let (message, attempt): (Option<MessageName>, Option<u32>) = read::owner(turn).unzip();
    Some(TurnStart {
        turn: turn["id"].as_str()?.to_owned(),
        row: turn["queuedTurnId"].as_str().map(str::to_owned),
        message,
        attempt: attempt.unwrap_or(1),
        is_found: true,
        started_at: turn["startedAt"].as_i64(),
    })
}

/// Turns that ended, oldest first, with what became of their rows.
fn fated(mut ended: Vec<TurnEnd>, running: Option<&TurnStart>, queue: &QueueLook) -> Vec<TurnEnd> {
    for at in 0..ended.len() {
        let (end, later) = (&ended[at], &ended[at + 1..]);
        let row = end.row.as_deref();
        // A row that ran again had been put back, whatever became of it then.
        let ran_again = row.is_some()
            && (later.iter().any(|later| later.row.as_deref() == row)
                || running.is_some_and(|running| running.row.as_deref() == row));
        ended[at].fate = if ran_again {
            Fate::PutBack
        } else {
            queue.fate_of(&end.turn, row)
        };
    }
    ended
}
