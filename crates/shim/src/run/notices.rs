//! Notifications of the server, as the state machine takes them.
//!
//! The invariant here: notifications are taken in the order in which the server sent them. One that needs a
//! call before it can be told holds back those behind it.

use serde_json::Value;
use turnlane::{Event as Notice, EventBody, Item, ItemBody, TurnStatus, TurnView, Usage};

use super::{Done, PreserveFor, Shim};
use crate::capture::{self, Speaker};
use crate::error::LaneError;
use crate::lane::{EXHAUSTED, QueueLook, message_name, split_attempt, turn_end};
use crate::preserve;
use crate::state::{Failure, Fate, Input, LaneHold, MessageName, Outcome, TurnEnd, TurnStart};
use crate::stats;
use crate::wire::{Event, Reach};

/// Responses from this length on are read from the history. The server cuts notifications above 1 MiB; what
/// it leaves of the one long text in the end of a turn is longer than this, however the text is escaped.
const LONG_BYTES: usize = 64 * 1_024;
/// The error kind of a turn whose engine died.
const CRASHED: &str = "engine_crashed";
/// Tells of approvals, also to clients that are not asked.
const APPROVAL_CHANGED: &str = "approval/changed";

impl Shim {
    /// Takes a notification, or lets it wait behind one that needs an answer.
    pub(super) fn noticed(&mut self, notice: Notice) {
        if self.is_deferring {
            self.deferred.push_back(notice);
            return;
        }
        match &notice.body {
            EventBody::Reconnected { .. } | EventBody::TooSlow => {
                self.attach_again(&notice);
                return;
            }
            _ => {}
        }
        let thread = notice.thread.as_ref();
        if thread.is_none_or(|thread| thread.as_str() != self.machine.thread()) {
            return;
        }
        self.take(notice);
    }

    /// The connection is another one, or too much was unread: what happened is read from the store.
    fn attach_again(&mut self, notice: &Notice) {
        if matches!(notice.body, EventBody::TooSlow) {
            let client = self.lane.client();
            self.events = client.map(|client| client.events(turnlane::Filter::all()));
        }
        self.is_attached = false;
        self.deferred.clear();
        self.attach(std::time::Duration::ZERO, false);
    }

    /// Goes on with the notifications that waited.
    fn go_on(&mut self) {
        self.is_deferring = false;
        while !self.is_deferring
            && let Some(notice) = self.deferred.pop_front()
        {
            self.noticed(notice);
        }
    }

    fn take(&mut self, notice: Notice) {
        let turn = notice.turn.as_ref().map(|turn| turn.as_str().to_owned());
        if turn.is_some() && turn.as_deref() == self.machine.running() {
            self.apply(Input::Activity);
        }
        match notice.body {
            EventBody::TurnStarted(turn) => self.turn_started(&turn),
            EventBody::TurnCompleted(turn) => self.turn_completed(&turn),
            EventBody::ItemStarted(item) => self.item(turn.as_deref(), "started", &item),
            EventBody::ItemCompleted(item) => self.item(turn.as_deref(), "completed", &item),
            EventBody::Queue(queue) => {
                let look = QueueLook::read(queue.value());
                self.apply(Input::Lane(look.lane.clone()));
                self.rows_seen(&look);
                self.check_engine();
            }
            EventBody::Usage(usage) => {
                let uptime = self.uptime();
                if let Some(warning) = self.stats.used(&usage, &self.model, uptime) {
                    self.tell(&warning);
                }
            }
            EventBody::Unknown(raw) if raw.method == APPROVAL_CHANGED => {
                let params = serde_json::from_str(raw.params.get()).unwrap_or(Value::Null);
                self.approval(&params);
            }
            _ => {}
        }
    }

    fn turn_started(&mut self, turn: &TurnView) {
        let id = turn.id.as_str().to_owned();
        if self.machine.running() == Some(id.as_str()) || self.machine.has_ended(&id) {
            return;
        }
        let row = turn.queued_turn.as_ref().map(|row| row.as_str().to_owned());
        let attempt = turn.attempt.unwrap_or(1).max(1);
        let known = row
            .as_deref()
            .and_then(|row| self.machine.message_of(row))
            .cloned();
        if let Some(message) = known {
            self.start_turn(TurnStart {
                turn: id,
                row,
                message: Some(message),
                attempt,
                is_found: false,
                started_at: None,
            });
            return;
        }
        // Rows of other clients, and rows that an earlier shim added.
        self.is_deferring = true;
        let lane = self.lane.clone();
        self.calls.push(Box::pin(async move {
            let stored = lane.turn(&id).await;
            Done::Identified {
                turn: id,
                stored,
                row,
                attempt,
            }
        }));
    }

    pub(super) fn identified(
        &mut self,
        turn: String,
        stored: Result<Option<Value>, LaneError>,
        row: Option<String>,
        attempt: u32,
    ) {
        let client_id = stored.ok().flatten().and_then(|stored| {
            if stored["source"] != "shim" {
                return None;
            }
            let items = stored["items"].as_array()?;
            let user = items.iter().find(|item| item["type"] == "userMessage")?;
            user["clientId"].as_str().map(str::to_owned)
        });
        let (message, tries): (Option<MessageName>, u32) = match &client_id {
            None => (None, 1),
            Some(client_id) => {
                let (id, tries) = split_attempt(client_id);
                (Some(message_name(id)), tries)
            }
        };
        self.start_turn(TurnStart {
            turn,
            row,
            message,
            attempt: attempt + tries - 1,
            is_found: false,
            started_at: None,
        });
        self.go_on();
    }

    pub(super) fn start_turn(&mut self, start: TurnStart) {
        self.capture.turn_started();
        self.said.clear();
        self.questions.clear();
        self.apply(Input::TurnStarted(Box::new(start)));
    }

    fn turn_completed(&mut self, turn: &TurnView) {
        let id = turn.id.as_str().to_owned();
        if self.machine.has_ended(&id) {
            return;
        }
        let said = turn.items.iter().rev().find_map(agent_text);
        let response = said.map_or_else(|| std::mem::take(&mut self.said), str::to_owned);
        let failure = || {
            let error = turn.error.as_ref();
            let word = error.map(|error| serde_json::to_value(&error.kind).ok());
            let word = word
                .flatten()
                .and_then(|word| word.as_str().map(str::to_owned));
            let message = error.map(|error| error.message.clone());
            // A back-off of the lane is no time that the provider named.
            let named = error.filter(|error| !error.retry_estimated);
            let is_unknown = error.is_some_and(|error| !error.outcome_known);
            let retry_at = named.and_then(|error| error.retry_at);
            (word, message, retry_at, is_unknown)
        };
        let failed = |default: &str| {
            let (kind, message, retry_at, is_unknown) = failure();
            Failure {
                kind: kind.unwrap_or_else(|| default.to_owned()),
                message: message
                    .filter(|message| !message.is_empty())
                    .unwrap_or_else(|| format!("the turn was {default}")),
                retry_at,
                is_unknown,
            }
        };
        let outcome = match &turn.status {
            TurnStatus::Completed => Outcome::Completed,
            TurnStatus::Interrupted => Outcome::Interrupted(failed("interrupted")),
            _ => Outcome::Failed(failed("unknown")),
        };
        let end = TurnEnd {
            turn: id,
            former_thread: None,
            row: turn.queued_turn.as_ref().map(|row| row.as_str().to_owned()),
            message: None,
            attempt: turn.attempt.unwrap_or(1),
            fate: Fate::Done,
            response,
            usage: stats::usage(turn.usage.as_ref()),
            lane: None,
            outcome,
        };
        if end.outcome == Outcome::Completed {
            if end.response.len() >= LONG_BYTES {
                self.read_response(end, turn.usage.clone());
            } else {
                self.end_turn(end, turn.usage.as_ref());
            }
            return;
        }
        // Whether the row came back is told by the queue.
        self.is_deferring = true;
        let lane = self.lane.clone();
        let usage = turn.usage.clone();
        self.calls.push(Box::pin(async move {
            Done::Looked {
                look: lane.look().await,
                end: Box::new(end),
                usage,
            }
        }));
    }

    /// Reads a long response from the history, because the server may have cut it in its notification.
    fn read_response(&mut self, end: TurnEnd, usage: Option<Usage>) {
        self.is_deferring = true;
        let lane = self.lane.clone();
        self.calls.push(Box::pin(async move {
            Done::Read {
                stored: lane.turn(&end.turn).await,
                end: Box::new(end),
                usage,
            }
        }));
    }

    pub(super) fn read(
        &mut self,
        mut end: TurnEnd,
        usage: Option<&Usage>,
        stored: Result<Option<Value>, LaneError>,
    ) {
        match stored {
            Ok(stored) => {
                if let Some(whole) = stored.as_ref().and_then(turn_end) {
                    end.response = whole.response;
                }
            }
            Err(error) => tracing::warn!(%error, "a long response is told as far as it is known"),
        }
        self.end_turn(end, usage);
        self.go_on();
    }

    pub(super) fn looked(
        &mut self,
        mut end: TurnEnd,
        usage: Option<&Usage>,
        look: Result<QueueLook, LaneError>,
    ) {
        if let Ok(look) = look {
            end.fate = look.fate_of(&end.turn, end.row.as_deref());
            end.lane = Some(look.lane);
        }
        self.end_turn(end, usage);
        self.go_on();
    }

    /// Tells the end of a turn, and holds the lane where the shim has to.
    pub(super) fn end_turn(&mut self, end: TurnEnd, usage: Option<&Usage>) {
        let is_completed = end.outcome == Outcome::Completed;
        let is_exhausted =
            matches!(&end.outcome, Outcome::Failed(failure) if failure.kind == EXHAUSTED);
        let is_failed = matches!(end.outcome, Outcome::Failed(_)) && end.fate != Fate::PutBack;
        let is_message = end.message.is_some() || self.machine.running_message().is_some();
        if is_completed {
            self.failures_in_row = 0;
        } else if is_failed && is_message {
            self.failures_in_row += 1;
        }
        let is_crash = matches!(&end.outcome, Outcome::Failed(failure) | Outcome::Interrupted(failure)
            if failure.is_unknown || failure.kind == CRASHED);
        self.questions.clear();
        self.apply(Input::TurnEnded(Box::new(end)));
        if is_crash && self.ending.is_none() {
            self.preserve(
                PreserveFor::EngineDeath,
                "engine death".to_owned(),
                preserve::TIME_MAX,
            );
        }
        self.stats.ended(usage);
        // The lane pauses itself after a message; the turn of another client does not make it.
        if is_exhausted && !is_message {
            self.hold(EXHAUSTED);
        }
        let limit = self.options.hold_after_failures;
        if limit > 0 && self.failures_in_row >= limit {
            self.failures_in_row = 0;
            self.hold("failures");
        }
    }

    fn hold(&mut self, reason: &'static str) {
        let lane = self.lane.clone();
        self.calls.push(Box::pin(async move {
            let limit = std::time::Duration::from_secs(10);
            if let Err(error) = lane.pause(reason, limit).await {
                tracing::warn!(%error, "the lane could not be paused");
            }
            Done::Ignored
        }));
    }

    /// Rows that could not be started are reported once, and rows of earlier shims become known.
    pub(super) fn rows_seen(&mut self, look: &QueueLook) {
        for row in look.rows.iter().filter(|row| row.is_ours) {
            if let Some(reason) = &row.failure {
                let (id, _) = split_attempt(&row.client_id);
                self.apply(Input::RowFailed {
                    row: row.id.clone(),
                    message: message_name(id),
                    reason: reason.clone(),
                    last_turn: row.last_turn.clone(),
                });
            }
        }
    }

    fn item(&mut self, turn: Option<&str>, phase: &'static str, item: &Item) {
        let event = Event {
            reach: Reach::Items,
            ..Event::v2("Item")
        };
        let shown = serde_json::to_value(item).unwrap_or(Value::Null);
        let event = event
            .with_some("turn_id", turn)
            .with("phase", phase)
            .with("item", shown)
            .repeating();
        self.tell(&event);
        if phase != "completed" {
            return;
        }
        if let ItemBody::ContextCompaction(_) = item.body {
            self.compacted();
        }
        if let Some(text) = agent_text(item) {
            self.stats.said(text.len());
            text.clone_into(&mut self.said);
        }
        if let Some((speaker, text)) = capture::readable(item) {
            if matches!(speaker, Speaker::Assistant | Speaker::Tool) {
                self.capture.add(&text);
            }
            self.log.write(speaker, &text);
        }
    }

    /// A compaction made room in a thread that was exhausted.
    fn compacted(&mut self) {
        if self.machine.lane().hold != Some(LaneHold::Exhausted) {
            return;
        }
        let lane = self.lane.clone();
        self.calls.push(Box::pin(async move {
            if let Err(error) = lane.resume_reason(EXHAUSTED).await {
                tracing::warn!(%error, "the lane could not be resumed");
            }
            Done::Ignored
        }));
    }

    fn approval(&mut self, params: &Value) {
        let approval = &params["approval"];
        let id = approval["approvalId"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let event = if params["change"] == "requested" {
            self.questions.insert(id.clone());
            let summary = approval["command"].as_str().or(approval["reason"].as_str());
            Event::v2("ApprovalRequested")
                .with("approval_id", id)
                .with("kind", approval["kind"].clone())
                .with("summary", summary.unwrap_or_default())
                .with("deadline", approval["expiresAtMs"].clone())
                .with("on_timeout", "fail")
        } else {
            self.questions.remove(&id);
            Event::v2("ApprovalResolved")
                .with("approval_id", id)
                .with("decision", params["decision"].clone())
                .with("by", params["by"].clone())
        };
        self.tell(&event);
        let open = self.questions.len();
        self.apply(Input::Questions(open));
    }
}

fn agent_text(item: &Item) -> Option<&str> {
    match &item.body {
        ItemBody::AgentMessage(message) => Some(&message.text),
        _ => None,
    }
}
