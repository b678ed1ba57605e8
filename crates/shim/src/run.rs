//! The loop of a shim: commands, answers, notifications and time in; events and calls out.
//!
//! Owned here: the order of everything, and the end. The invariant: the loop never waits. Calls are futures
//! that it polls beside everything else, so `Ping`, `GetState` and `Kill` are served in every state.
//!
//! Theory of operation: one task, one `select!`. Answers to calls are looked at before notifications,
//! because the server sends them in that order and the row of an answer names the turn of a notification.
//! A turn whose message is not known, and a turn that failed in a way that may put its row back, need a
//! call before they can be told; notifications wait in order until it is answered. What a shim does when it
//! ends is in `ending`.

mod attaching;
mod commands;
mod delivery;
mod ending;
mod hub;
mod notices;
mod submissions;

use std::collections::VecDeque;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;
use turnlane::{Client, Event as Notice, EventStream, Usage};

use self::delivery::Deliveries;
use self::ending::{Cause, Ending, Step};
use self::hub::Hub;
use self::submissions::{NumberedMessage, Submissions};
use crate::capture::{Capture, Speaker};
use crate::channel::{Arrival, Channel, Closed, Connection, Inbound, Transport};
use crate::error::{Exit, LaneError};
use crate::lane::{Attached, CommandFailure, Lane, QueueLook, Submission, Unanswered};
use crate::log_file::LogFile;
use crate::options::{OnDisconnect, Options, ServerKind};
use crate::preserve::Preserved;
use crate::receipts::ReceiptsFile;
use crate::state::{EngineHealth, Input, Machine, TurnEnd};
use crate::stats::Stats;
use crate::wire::{BadCommand, Event, parse};

/// The pause between two tries to take a lane that is held elsewhere.
const HANDOFF_PAUSE: Duration = Duration::from_millis(100);
/// How often an engine that is not usable is checked while messages wait.
const ENGINE_PAUSE: Duration = Duration::from_secs(30);
/// Commands that are handled before notifications are looked at.
const BURST_MAX: u32 = 32;
/// How long the last events may take.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// A signal that asks the shim to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM.
    Terminate,
    /// SIGINT.
    Interrupt,
    /// SIGHUP.
    HangUp,
}

type Call = Pin<Box<dyn Future<Output = Done> + Send>>;

/// What a call came to.
enum Done {
    Linked(Result<Server, Exit>),
    Attached(Result<Box<Attached>, LaneError>),
    Submitted {
        message: Box<NumberedMessage>,
        result: Result<Submission, Unanswered>,
    },
    /// The pause after an unanswered add has passed.
    RepeatSubmissions,
    /// The fate of a row whose turn failed.
    Looked {
        end: Box<TurnEnd>,
        usage: Option<Usage>,
        look: Result<QueueLook, LaneError>,
    },
    /// The whole response of a turn that completed.
    Read {
        end: Box<TurnEnd>,
        usage: Option<Usage>,
        stored: Result<Option<Value>, LaneError>,
    },
    /// The message of a turn whose row is not known.
    Identified {
        turn: String,
        stored: Result<Option<Value>, LaneError>,
        row: Option<String>,
        attempt: u32,
    },
    Answered {
        origin: Origin,
        command: &'static str,
        result: Result<Map<String, Value>, CommandFailure>,
    },
    Succeeded {
        origin: Option<Origin>,
        result: Result<(String, QueueLook), LaneError>,
    },
    Preserved {
        why: PreserveFor,
        result: Result<Option<Preserved>, String>,
    },
    Health(Result<EngineHealth, LaneError>),
    Welcomed {
        client: u64,
        hello: crate::wire::Hello,
        rows: Result<Vec<Value>, LaneError>,
    },
    /// A step of the end is done.
    Step(Step, Result<Value, LaneError>),
    /// A call whose answer changes nothing.
    Ignored,
}

/// Why work is preserved.
#[derive(Clone, Debug)]
enum PreserveFor {
    Client(Origin),
    /// The engine died under a turn.
    EngineDeath,
    /// The shim ends.
    End,
}

/// Who sent a command.
#[derive(Clone, Debug)]
struct Origin {
    client: u64,
    req: Option<Value>,
}

/// A server that a shim is a client of.
#[derive(Debug)]
pub struct Server {
    /// Made with `reviews_elsewhere`, because a shim answers no approvals.
    pub client: Client,
    /// What ends with the shim.
    pub kind: ServerKind,
}

/// Serves one orchestrator until it ends, or is ended. The channel is served from the first moment on, while
/// `linking` brings the server; a link that fails is an end like any other.
pub async fn run(
    linking: impl Future<Output = Result<Server, Exit>> + Send + 'static,
    options: Options,
    transport: Transport,
    signals: mpsc::Receiver<StopSignal>,
) -> Exit {
    let is_single = transport.is_single();
    let channel = match Channel::open(transport).await {
        Ok(channel) => channel,
        Err(error) => return Exit::Channel(format!("the channel could not be opened: {error}")),
    };
    let options = Arc::new(options);
    let lane = Lane::new(Arc::clone(&options));
    let mut shim = Shim::new(lane, options, channel, signals, is_single);
    shim.calls
        .push(Box::pin(async { Done::Linked(linking.await) }));
    let exit = match AssertUnwindSafe(shim.serve()).catch_unwind().await {
        Ok(exit) => exit,
        // The text of the panic went to standard error. What was being changed is not used any more, but
        // for the outboxes, whose parts are whole after every step.
        Err(_panic) => {
            shim.end(Cause::InternalError);
            Exit::Channel(ending::INTERNAL_ERROR.to_owned())
        }
    };
    shim.finish(exit).await
}

/// What a running shim consists of.
struct Shim {
    options: Arc<Options>,
    lane: Lane,
    channel: Channel,
    signals: mpsc::Receiver<StopSignal>,
    is_single: bool,
    hub: Hub,
    machine: Machine,
    calls: FuturesUnordered<Call>,
    submissions: Submissions,
    /// None until the server is there.
    events: Option<EventStream>,
    server: ServerKind,
    /// Notifications that wait for the answer to a call.
    deferred: VecDeque<Notice>,
    is_deferring: bool,
    capture: Capture,
    log: LogFile,
    stats: Stats,
    receipts: ReceiptsFile,
    /// Terminal receipts that were put into the channel and not seen to leave.
    deliveries: Deliveries,
    started: Instant,
    started_ms: i64,
    model: String,
    /// The lane is ours.
    is_attached: bool,
    attach_until: Instant,
    health_at: Option<Instant>,
    /// The text of the last agent message of the running turn.
    said: String,
    questions: std::collections::BTreeSet<String>,
    failures_in_row: u32,
    ending: Option<Ending>,
}

impl Shim {
    fn new(
        lane: Lane,
        options: Arc<Options>,
        channel: Channel,
        signals: mpsc::Receiver<StopSignal>,
        is_single: bool,
    ) -> Self {
        let started = Instant::now();
        let receipts = ReceiptsFile::start(&options.state_directory, lane.binding());
        Self {
            hub: Hub::new(Arc::clone(&options.clock)),
            machine: Machine::new(options.stall_after),
            calls: FuturesUnordered::new(),
            submissions: Submissions::default(),
            deferred: VecDeque::new(),
            is_deferring: false,
            capture: Capture::default(),
            log: LogFile::open(options.log_path.as_deref()),
            stats: Stats::default(),
            deliveries: Deliveries::default(),
            started,
            started_ms: (options.clock)(),
            model: String::new(),
            is_attached: false,
            attach_until: started + options.handoff_wait,
            health_at: None,
            said: String::new(),
            questions: std::collections::BTreeSet::new(),
            failures_in_row: 0,
            ending: None,
            lane,
            options,
            channel,
            signals,
            is_single,
            events: None,
            server: ServerKind::Embedded,
            receipts,
        }
    }

    /// The loop, until the shim has to end.
    async fn serve(&mut self) -> Exit {
        let text = format!("start of {}", self.options.id);
        self.log.write(Speaker::Shim, &text);
        let mut burst = 0;
        loop {
            self.note_written();
            if self.ending.is_some()
                && let Some(exit) = self.advance_end()
            {
                return exit;
            }
            let wake = self.wake_at();
            let hears = self.is_attached && !self.is_deferring;
            tokio::select! {
                biased;
                Some(done) = self.calls.next(), if !self.calls.is_empty() => {
                    if let Some(exit) = self.call_done(done) {
                        return exit;
                    }
                }
                Some(signal) = self.signals.recv() => self.signalled(signal),
                arrival = self.channel.arrivals.recv(), if burst < BURST_MAX => {
                    burst += 1;
                    match arrival {
                        Some(arrival) => self.arrived(arrival),
                        None => self.lost_channel(Closed::Broken),
                    }
                    continue;
                }
                notice = next_notice(&mut self.events), if hears => match notice {
                    Some(notice) => self.noticed(notice),
                    None => self.lost_server(),
                },
                () = tokio::time::sleep_until(wake) => self.woken(),
                // Nothing else is ready: the next commands are looked at again.
                () = std::future::ready(()), if burst >= BURST_MAX => {}
            }
            burst = 0;
        }
    }

    fn call_done(&mut self, done: Done) -> Option<Exit> {
        match done {
            Done::Linked(linked) => return self.linked(linked),
            Done::Attached(Ok(attached)) => self.attached(*attached),
            Done::Attached(Err(error)) => return self.not_attached(error),
            Done::Submitted { message, result } => self.submission_done(*message, result),
            Done::RepeatSubmissions => self.repeat_submissions(),
            Done::Looked { end, usage, look } => self.looked(*end, usage.as_ref(), look),
            Done::Read { end, usage, stored } => self.read(*end, usage.as_ref(), stored),
            Done::Identified {
                turn,
                stored,
                row,
                attempt,
            } => self.identified(turn, stored, row, attempt),
            Done::Answered {
                origin,
                command,
                result,
            } => self.answer(&origin, command, result),
            Done::Succeeded { origin, result } => self.succeeded(origin, result),
            Done::Preserved { why, result } => self.preserved(&why, result),
            Done::Health(health) => {
                if let Ok(health) = health {
                    self.apply(Input::Engine(health));
                }
            }
            Done::Welcomed {
                client,
                hello,
                rows,
            } => self.welcomed(client, &hello, rows),
            Done::Step(step, result) => self.step_done(step, result),
            Done::Ignored => {}
        }
        None
    }

    fn arrived(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Opened(connection) => self.joined(connection),
            Arrival::Frame(client, Inbound::Frame(frame)) => match parse(&frame) {
                Ok(request) => self.command(client, request),
                Err(bad) => self.bad_command(client, bad),
            },
            Arrival::Frame(client, Inbound::TooLong { bytes } | Inbound::Broken { bytes }) => {
                let reason = format!("frame of {bytes} bytes exceeds 1048576");
                let bad = BadCommand {
                    command: "frame".to_owned(),
                    reason,
                    req: None,
                    message_id: None,
                };
                self.bad_command(client, bad);
            }
            Arrival::Closed(_, Closed::Panicked) => self.end(Cause::InternalError),
            Arrival::Closed(client, closed) => {
                // What was written to it must be counted before it is forgotten.
                self.note_written();
                if self.is_single {
                    self.lost_channel(closed);
                } else {
                    self.hub.remove(client);
                    if self.hub.is_empty() && self.options.on_disconnect != OnDisconnect::Detach {
                        self.lost_channel(Closed::Ended);
                    }
                }
            }
        }
    }

    /// A client that comes after `Ready` is told it first.
    fn joined(&mut self, connection: Connection) {
        let client = connection.id;
        self.hub.add(connection);
        if !self.machine.thread().is_empty() {
            let ready = self.machine.ready_event(&self.options.version);
            self.hub.answer(client, &ready);
        }
    }

    fn bad_command(&mut self, client: u64, bad: BadCommand) {
        let error = Event::new("Error")
            .with("command", bad.command)
            .with("reason", bad.reason)
            .with("code", "bad_request")
            .with_some("message_id", bad.message_id)
            .with_some("req", bad.req);
        self.hub.answer(client, &error);
    }

    /// The one channel to the orchestrator has ended.
    fn lost_channel(&mut self, closed: Closed) {
        let cause = match (closed, self.options.on_disconnect) {
            (Closed::Broken, _) => Cause::BrokenChannel,
            (Closed::Panicked, _) => Cause::InternalError,
            (Closed::Ended, OnDisconnect::Stop) => Cause::Eof {
                drain: Duration::ZERO,
            },
            (Closed::Ended, OnDisconnect::Drain) => Cause::Eof {
                drain: self.options.graceful,
            },
            (Closed::Ended, OnDisconnect::Detach) => Cause::Detach,
        };
        self.end(cause);
    }

    /// The server cannot be found again.
    fn lost_server(&mut self) {
        self.is_attached = false;
        self.end(Cause::LostServer);
    }

    fn signalled(&mut self, signal: StopSignal) {
        match &self.ending {
            None => self.end(Cause::Signal(signal)),
            Some(_) => self.end(Cause::Kill),
        }
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Tells the state machine, and the clients what it makes of it.
    fn apply(&mut self, input: Input) {
        let events = self.machine.apply(self.uptime(), input);
        for event in events {
            self.tell(&event);
        }
    }

    /// When the loop looks at the time again.
    fn wake_at(&self) -> Instant {
        let mut wake = self.started + self.stats.due_at();
        let mut earlier = |at: Instant| wake = wake.min(at);
        if let Some(at) = self.machine.stall_at() {
            earlier(self.started + at);
        }
        if let Some(at) = self.health_at {
            earlier(at);
        }
        if let Some(ending) = &self.ending {
            earlier(ending.wake_at());
        }
        if let Some(at) = self.record_at() {
            earlier(at);
        }
        wake
    }

    fn woken(&mut self) {
        self.apply(Input::Tick);
        let depth = self.machine.lane().depth;
        let uptime = self.uptime();
        if let Some(stats) = self.stats.tell(uptime, depth) {
            self.tell(&stats);
        }
        self.check_engine();
    }

    /// An engine that is not usable is checked again while messages wait for it.
    fn check_engine(&mut self) {
        let is_unusable = matches!(self.machine.engine(), EngineHealth::Unusable(_));
        if !is_unusable || self.machine.lane().depth == 0 || self.ending.is_some() {
            self.health_at = None;
            return;
        }
        let now = Instant::now();
        match self.health_at {
            None => self.health_at = Some(now + ENGINE_PAUSE),
            Some(at) if at <= now => {
                self.health_at = Some(now + ENGINE_PAUSE);
                let lane = self.lane.clone();
                self.calls.push(Box::pin(
                    async move { Done::Health(lane.engine_health().await) },
                ));
            }
            Some(_) => {}
        }
    }

    /// The last words: everything that waits is written, or its time is over.
    async fn finish(self, exit: Exit) -> Exit {
        let reason = match &exit {
            Exit::Ordered | Exit::Signal(_) => self.ending.as_ref().map(Ending::reason),
            failed => failed.reason().map(str::to_owned),
        };
        let mut shim = self;
        // A link may fail before the loop has looked at its channel.
        while let Ok(arrival) = shim.channel.arrivals.try_recv() {
            if let Arrival::Opened(connection) = arrival {
                shim.hub.add(connection);
            }
        }
        shim.refuse_waiting();
        shim.give_up_turn();
        if !matches!(shim.ending.as_ref().map(Ending::cause), Some(Cause::Detach)) {
            let reason = reason.unwrap_or_default();
            let last_lines = shim.capture.last_lines();
            shim.apply(Input::Dead {
                exit_code: None,
                reason,
                last_lines,
            });
        }
        let outboxes: Vec<_> = shim
            .hub
            .connections()
            .map(|connection| Arc::clone(&connection.outbox))
            .collect();
        let flushing = async {
            for outbox in &outboxes {
                // Everything that was put in; the number of the last frame is the count of all.
                let last = outbox.put_count();
                outbox.written(last).await;
            }
        };
        let _ = tokio::time::timeout(FLUSH_MAX, flushing).await;
        shim.note_written();
        shim.log.write(Speaker::Shim, "end");
        let Shim { hub, receipts, .. } = shim;
        for connection in hub.into_connections() {
            connection.outbox.close();
        }
        let _ = tokio::time::timeout(FLUSH_MAX, receipts.close()).await;
        exit
    }

    /// Returns true if the lane goes on when the shim leaves.
    fn can_detach(&self) -> bool {
        self.server == ServerKind::Daemon
    }
}

/// The next notification of the server; none when it cannot be found again.
async fn next_notice(events: &mut Option<EventStream>) -> Option<Notice> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}
