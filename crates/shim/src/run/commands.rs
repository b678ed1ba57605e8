//! Commands of clients: answered at once, or by a call whose answer is waited for by the loop.
//!
//! The invariant here: a command with `req` has exactly one `Ok` or `Error`; a message has exactly one of
//! accepted, repeated and refused.

use std::time::Duration;

use serde_json::{Map, Value};

use super::ending::Cause;
use super::hub::{Dialect, Welcomed};
use super::{Done, Origin, PreserveFor, Shim};
use crate::error::LaneError;
use crate::lane::{CommandFailure, Draft, Submission, queue};
use crate::preserve;
use crate::state::{EngineHealth, Input, MessageName, RECEIPTS_MAX};
use crate::wire::{Command, Event, Hello, Message, Request};

/// Messages whose add is not answered yet; further ones are refused.
const SUBMISSIONS_MAX: usize = 2_048;

impl Shim {
    pub(super) fn command(&mut self, client: u64, request: Request) {
        let Request { command, req } = request;
        let origin = Origin { client, req };
        match command {
            Command::Ping => self.reply(&origin, "Ping", &Event::new("Pong")),
            Command::GetState => {
                let state = self.machine.state(self.uptime());
                self.reply(&origin, "GetState", &state);
            }
            Command::CaptureScreen { last_n_lines } => {
                let screen = self.capture.screen(last_n_lines);
                self.reply(&origin, "CaptureScreen", &screen);
            }
            Command::Resize => self.answer(&origin, "Resize", Ok(Map::new())),
            Command::Kill => {
                self.answer(&origin, "Kill", Ok(Map::new()));
                self.end(Cause::Kill);
            }
            Command::Shutdown {
                timeout_secs,
                reason,
            } => {
                self.answer(&origin, "Shutdown", Ok(Map::new()));
                let timeout = Duration::from_secs(timeout_secs);
                self.end(Cause::Shutdown { timeout, reason });
            }
            Command::SendMessage(message) => self.send_message(origin, &message),
            Command::Hello(hello) => self.hello(&origin, hello),
            Command::GetUsage => {
                let mut fields = Map::new();
                fields.insert("usage".to_owned(), self.stats.usage());
                self.answer(&origin, "GetUsage", Ok(fields));
            }
            Command::Detach => self.detach(&origin),
            Command::Preserve { label } => self.preserve_now(origin, &label),
            Command::Successor => self.take_over(origin),
            command => self.lane_command(origin, command),
        }
    }

    /// An answer that is an event of its own, and `Ok` where the sender numbered the command.
    fn reply(&self, origin: &Origin, command: &'static str, event: &Event) {
        self.hub.answer(origin.client, event);
        if origin.req.is_some() {
            self.answer(origin, command, Ok(Map::new()));
        }
    }

    /// Answers a command once.
    pub(super) fn answer(
        &self,
        origin: &Origin,
        command: &'static str,
        result: Result<Map<String, Value>, CommandFailure>,
    ) {
        let event = match result {
            Ok(fields) => {
                let Some(req) = &origin.req else {
                    return;
                };
                let mut ok = Event::v2("Ok");
                ok.fields = fields;
                ok.with("req", req.clone()).with("cmd", command)
            }
            Err(failure) => Event::new("Error")
                .with("command", command)
                .with("code", failure.code)
                .with("reason", failure.reason)
                .with_some("req", origin.req.clone()),
        };
        self.hub.answer(origin.client, &event);
    }

    fn send_message(&mut self, origin: Origin, message: &Message) {
        let client_data = message.client_data.clone();
        let wants_reply_text = match self.hub.dialect(origin.client) {
            Dialect::V1 => message.inject.is_none(),
            // Clients of v2 say so.
            Dialect::V2 { .. } => false,
        } || message.inject == Some(crate::wire::Injection::Reply);
        let reply_command = self.options.reply_command.as_deref();
        let draft = Draft::new(message, reply_command.filter(|_| wants_reply_text));
        let name = || match &message.message_id {
            Some(id) => MessageName {
                id: id.clone(),
                is_given: true,
            },
            None => MessageName {
                id: String::new(),
                is_given: false,
            },
        };
        let draft = match draft {
            Ok(draft) => draft,
            Err(refused) => {
                self.submitted(name(), &origin, client_data, refused);
                return;
            }
        };
        if let Some(refused) = self.refusal(message) {
            self.submitted(draft.message, &origin, client_data, refused);
            return;
        }
        let lane = self.lane.clone();
        let health = self.machine.engine_trouble();
        // Not by tokio's budget: a future that it stops is polled again behind later ones, and messages would
        // be accepted in another order than they came in.
        self.calls
            .push(Box::pin(tokio::task::unconstrained(async move {
                let message = draft.message.clone();
                let submission = lane.submit(draft, health).await;
                Done::Submitted {
                    message,
                    origin,
                    client_data,
                    submission,
                }
            })));
    }

    /// Why no message is taken now.
    fn refusal(&self, message: &Message) -> Option<Submission> {
        if self.ending.is_some() {
            return Some(Submission::refused("closing", "the shim is ending"));
        }
        if !self.is_attached {
            let reason = "the lane is not ready yet";
            return Some(Submission::refused("engine_unavailable", reason));
        }
        let wanted = message.expected_thread_id.as_deref();
        if wanted.is_some_and(|wanted| wanted != self.machine.thread()) {
            let reason = format!("the thread is {}", self.machine.thread());
            return Some(Submission::refused("bad_request", reason));
        }
        if self.calls.len() >= SUBMISSIONS_MAX {
            let reason = "too many messages are being accepted";
            return Some(Submission::refused("queue_full", reason));
        }
        None
    }

    pub(super) fn submitted(
        &mut self,
        message: MessageName,
        origin: &Origin,
        client_data: Option<Value>,
        submission: Submission,
    ) {
        let mut fields = Map::new();
        fields.insert("message_id".to_owned(), message.id.clone().into());
        if let Some(data) = client_data {
            fields.insert("client_data".to_owned(), data);
        }
        match submission {
            Submission::Accepted {
                row,
                position,
                tries,
            } => {
                // The add was let through, so the engine can be used.
                if matches!(self.machine.engine(), EngineHealth::Unusable(_)) {
                    self.apply(Input::Engine(EngineHealth::Usable));
                }
                fields.insert("position".to_owned(), position.into());
                self.answer(origin, "SendMessage", Ok(fields));
                self.apply(Input::Accepted {
                    message,
                    row,
                    position,
                    tries,
                });
            }
            Submission::Repeated(repeat) => {
                fields.insert("duplicate".to_owned(), true.into());
                self.answer(origin, "SendMessage", Ok(fields));
                self.apply(Input::Repeated { message, repeat });
            }
            Submission::Refused {
                code,
                reason,
                retryable,
            } => {
                if origin.req.is_some() {
                    let failure = CommandFailure::new(code, reason.as_str());
                    self.answer(origin, "SendMessage", Err(failure));
                }
                self.apply(Input::Refused {
                    message,
                    code,
                    reason,
                    retryable,
                });
            }
        }
    }

    fn hello(&mut self, origin: &Origin, hello: Hello) {
        if hello.version < 2 {
            let failure = CommandFailure::new("bad_request", "version must be 2 or higher");
            self.answer(origin, "Hello", Err(failure));
            return;
        }
        self.answer(origin, "Hello", Ok(Map::new()));
        if !self.is_attached {
            self.welcomed(origin.client, &hello, Ok(Vec::new()));
            return;
        }
        let (lane, client) = (self.lane.clone(), origin.client);
        self.calls.push(Box::pin(async move {
            let rows = lane.rows().await;
            let rows = rows.map(|rows| match queue(&rows) {
                Value::Array(rows) => rows,
                _ => Vec::new(),
            });
            Done::Welcomed {
                client,
                hello,
                rows,
            }
        }));
    }

    pub(super) fn welcomed(
        &mut self,
        client: u64,
        hello: &Hello,
        rows: Result<Vec<Value>, LaneError>,
    ) {
        let rows = rows.unwrap_or_default();
        let welcome = Event::v2("Welcome")
            .with("lane", self.machine.thread())
            .with("state", self.machine.snapshot(self.uptime()))
            .with("queue", rows)
            .with("receipts", self.machine.receipts());
        let since = hello.since.as_ref();
        match self.hub.welcome(client, hello.items, since, welcome) {
            Welcomed::Snapshot(None) => {}
            Welcomed::Snapshot(Some(frame)) => self.deliveries.sent_newest(RECEIPTS_MAX, frame),
            Welcomed::Replay(missed) => {
                self.deliveries
                    .read_up_to(since.map_or(0, |since| since.seq));
                for (seq, frame) in missed {
                    self.deliveries.sent_again(seq, frame);
                }
            }
        }
    }

    fn detach(&mut self, origin: &Origin) {
        if !self.is_single {
            self.answer(origin, "Detach", Ok(Map::new()));
            self.hub.remove(origin.client);
            return;
        }
        if !self.can_detach() {
            let reason = "the lane is in this process and cannot go on without it";
            self.answer(
                origin,
                "Detach",
                Err(CommandFailure::new("unsupported", reason)),
            );
            return;
        }
        self.answer(origin, "Detach", Ok(Map::new()));
        self.end(Cause::Detach);
    }

    fn preserve_now(&mut self, origin: Origin, label: &str) {
        if self.machine.running().is_some() {
            let failure = CommandFailure::new("busy", "a turn runs");
            self.answer(&origin, "Preserve", Err(failure));
            return;
        }
        let is_word = |character: &char| character.is_ascii_alphanumeric() || *character == '-';
        let label: String = label.chars().filter(is_word).take(64).collect();
        self.preserve(
            PreserveFor::Client(origin),
            format!("requested {label}"),
            preserve::TIME_MAX,
        );
    }

    fn take_over(&mut self, origin: Origin) {
        if !self.is_attached || self.ending.is_some() {
            let failure = CommandFailure::new("closing", "the lane is not ready");
            self.answer(&origin, "Successor", Err(failure));
            return;
        }
        if self.machine.running().is_some() {
            let failure = CommandFailure::new("busy", "a turn runs");
            self.answer(&origin, "Successor", Err(failure));
            return;
        }
        let lane = self.lane.clone();
        self.calls.push(Box::pin(async move {
            let result = match lane.succeed().await {
                Ok((thread, _)) => {
                    let begun = lane.of_thread(&thread).begin_successor().await;
                    begun.map(|look| (thread, look))
                }
                failed => failed,
            };
            Done::Succeeded {
                origin: Some(origin),
                result,
            }
        }));
    }

    fn lane_command(&mut self, origin: Origin, command: Command) {
        let name = name(&command);
        if !self.is_attached {
            let failure = CommandFailure::new("closing", "the lane is not ready");
            self.answer(&origin, name, Err(failure));
            return;
        }
        let lane = self.lane.clone();
        let running = self.machine.running().map(str::to_owned);
        self.calls.push(Box::pin(async move {
            Done::Answered {
                origin,
                command: name,
                result: lane.carry_out(command, running).await,
            }
        }));
    }
}

/// The name of a command that is carried out by the lane.
fn name(command: &Command) -> &'static str {
    match command {
        Command::Interrupt { .. } => "Interrupt",
        Command::Steer { .. } => "Steer",
        Command::ListQueue => "ListQueue",
        Command::CancelMessage { .. } => "CancelMessage",
        Command::EditMessage { .. } => "EditMessage",
        Command::ReorderQueue { .. } => "ReorderQueue",
        Command::RetryMessage { .. } => "RetryMessage",
        Command::Pause { .. } => "Pause",
        Command::Resume => "Resume",
        Command::AnswerApproval { .. } => "AnswerApproval",
        Command::GetTranscript { .. } => "GetTranscript",
        _ => "frame",
    }
}
