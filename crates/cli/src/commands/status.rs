//! `turnlane status`: one screen about the daemon, the lanes by who has to act, and the last day.
//!
//! The invariant here: the screen shows everything that waits for a person, however much else it shows. It
//! only reads, and works on what is stored where no daemon runs.
//!
//! How the screen looks is in `view`.

mod view;

use std::process::ExitCode;

use serde_json::{Value, json};
use turnlane_protocol::method::{ServerStatusAnswer, server_status};
use turnlane_protocol::thread::Thread;
use turnlane_protocol::turn::{Turn, TurnStatus};

use super::serve::record;
use super::thread::list::{asking, head, is_asking};
use crate::args::StatusArgs;
use crate::session::{Needs, Session, with};
use crate::shown::state::{self, State, Urgency};
use crate::shown::{Form, Screen};

/// How far back outcomes are counted.
const BACK_MS: i64 = 24 * 60 * 60 * 1_000;
/// The turns of so many threads are counted; more are said to be left out.
const COUNTED_MAX: usize = 1_000;
/// Of one thread so many of the last turns are counted.
const TURNS_MAX: usize = 1_000;

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    with(&args.reach, Needs::Store, async |session| {
        let screen = Screen::new(args.answer);
        let status = look(session, &screen).await?;
        match screen.form {
            Form::Json => screen.json(&view::json(&status))?,
            Form::People => screen.print(&view::text(&screen, &status))?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Everything that is shown.
struct Status {
    daemon: Daemon,
    lanes: Vec<Lane>,
    approvals: Vec<Value>,
    last_day: LastDay,
}

/// The server of these threads.
enum Daemon {
    Answers {
        /// None where it is of a version that does not tell.
        status: Option<Box<ServerStatusAnswer>>,
        listen: Vec<String>,
    },
    /// Why nothing runs, for people.
    Absent(String),
}

/// One thread.
struct Lane {
    id: String,
    /// What to type for it.
    word: String,
    name: Option<String>,
    about: String,
    state: State,
    /// Why its queue is held.
    why: Option<String>,
    depth: u32,
    /// When it starts by itself.
    due_ms: Option<i64>,
}

/// How the turns of the last day ended.
#[derive(Default)]
struct LastDay {
    since_ms: i64,
    completed: usize,
    interrupted: usize,
    failed: usize,
    /// The sum over the turns that say it; none where no turn does.
    tokens: Option<i64>,
    /// The last turns of threads that did not complete, newest thread first.
    failures: Vec<Failure>,
    /// Whether threads were left out because there are too many.
    is_partial: bool,
}

/// A thread whose last turn did not complete.
struct Failure {
    id: String,
    name: Option<String>,
    word: &'static str,
    message: String,
}

async fn look(session: &Session, screen: &Screen) -> anyhow::Result<Status> {
    let params = json!({"archived": false, "sortKey": "updated_at"});
    let (threads, _) = session.list("thread/list", params, None).await?;
    let read = |thread: &Value| serde_json::from_value(thread.clone()).ok();
    let threads: Vec<Thread> = threads.iter().filter_map(read).collect();
    let asking = asking(session).await;
    let open: Result<Value, _> = session.try_ask("approval/list", &json!({})).await;
    let approvals = match open.map(|mut open| open["data"].take()) {
        Ok(Value::Array(open)) => open,
        Ok(_) | Err(_) => Vec::new(),
    };
    let mut lanes = Vec::new();
    for thread in &threads {
        let state = state::of_thread(screen, thread, is_asking(&asking, thread));
        lanes.push(lane(session, screen, thread, state).await);
    }
    lanes.sort_by_key(|lane| lane.state.urgency);
    Ok(Status {
        daemon: daemon(session).await,
        lanes,
        approvals,
        last_day: last_day(session, screen, &threads).await?,
    })
}

async fn lane(session: &Session, screen: &Screen, thread: &Thread, mut state: State) -> Lane {
    let queue = thread.queue.as_ref();
    let mut due_ms = queue.and_then(|queue| queue.waiting.as_ref()?.until_ms);
    let mut about = thread.preview.clone();
    if state.urgency == Urgency::Queued
        && let Some(head) = head(session, thread).await
    {
        due_ms = head.not_before_ms.filter(|at_ms| *at_ms > screen.now_ms);
        state = state::of_head(screen, state, &head);
        if about.is_empty() {
            about = crate::shown::text::of_input(&head.input);
        }
    }
    let why = queue.and_then(|queue| {
        let blocked = queue.blocked.as_ref().map(|held| held.message.clone());
        let paused = queue.paused.as_ref().map(|held| held.reason.clone());
        let waiting = queue.waiting.as_ref().map(|held| held.message.clone());
        blocked.or(paused).or(waiting)
    });
    let id = thread.id.to_string();
    Lane {
        word: session.word(&id),
        id,
        name: thread.name.clone(),
        about,
        why: why.filter(|_| matches!(state.urgency, Urgency::Held | Urgency::Waits)),
        state,
        depth: queue.map_or(0, |queue| queue.depth),
        due_ms,
    }
}

async fn daemon(session: &Session) -> Daemon {
    if let Some(absent) = session.nobody_runs_it() {
        return Daemon::Absent(absent);
    }
    let params = json!({});
    let asked = session.try_ask::<ServerStatusAnswer>(server_status::METHOD, &params);
    let status = asked.await.ok();
    let listen = match (session.home(), &status) {
        (Some(home), Some(status)) => record::listening(home, status.pid),
        _ => vec![session.client().server().endpoint],
    };
    Daemon::Answers {
        status: status.map(Box::new),
        listen,
    }
}

async fn last_day(
    session: &Session,
    screen: &Screen,
    threads: &[Thread],
) -> anyhow::Result<LastDay> {
    let since_ms = screen.now_ms - BACK_MS;
    let mut day = LastDay {
        since_ms,
        ..LastDay::default()
    };
    let recent = threads
        .iter()
        .filter(|thread| thread.updated_at.saturating_mul(1_000) >= since_ms);
    for (at, thread) in recent.enumerate() {
        if at == COUNTED_MAX {
            day.is_partial = true;
            break;
        }
        let params = json!({
            "threadId": thread.id, "sortDirection": "desc", "itemsView": "notLoaded",
        });
        let turns = session.list("thread/turns/list", params, Some(TURNS_MAX));
        let (turns, _) = turns.await?;
        let turns = turns.into_iter();
        let turns = turns.filter_map(|turn| serde_json::from_value::<Turn>(turn).ok());
        let recent = |turn: &Turn| {
            let ended = turn.completed_at.or(turn.started_at).unwrap_or(0);
            ended.saturating_mul(1_000) >= since_ms
        };
        for (at, turn) in turns.take_while(recent).enumerate() {
            day.count(&turn);
            if at == 0 {
                day.failures.extend(failure(thread, &turn));
            }
        }
    }
    Ok(day)
}

impl LastDay {
    fn count(&mut self, turn: &Turn) {
        match turn.status {
            TurnStatus::InProgress => return,
            TurnStatus::Completed => self.completed += 1,
            TurnStatus::Interrupted => self.interrupted += 1,
            TurnStatus::Failed => self.failed += 1,
        }
        let used = turn.usage.as_ref().and_then(|usage| usage.turn.as_ref());
        if let Some(used) = used {
            let sum = used.input_tokens.saturating_add(used.output_tokens);
            self.tokens = Some(self.tokens.unwrap_or(0).saturating_add(sum));
        }
    }
}

fn failure(thread: &Thread, turn: &Turn) -> Option<Failure> {
    let word = match turn.status {
        TurnStatus::Failed => "failed",
        TurnStatus::Interrupted => "interrupted",
        TurnStatus::Completed | TurnStatus::InProgress => return None,
    };
    let error = turn.error.as_ref().map(|error| error.message.clone());
    Some(Failure {
        id: thread.id.to_string(),
        name: thread.name.clone(),
        word,
        message: error.unwrap_or_default(),
    })
}
