//! The child: a worker that serves a database, told what to do by its parent, until it is killed.
//!
//! The invariant here: a line `ok` or `no` is printed after the answer it stands for, never before;
//! adds and starts are handed to the runtime in the order of their lines.
//!
//! The child is this test binary, run again with one test and a few variables. A line in is
//! `NUMBER WORD ...`, a line out is `ok NUMBER ...`, `no NUMBER ERROR` or `ready`.

use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use turnlane_engine::scripted::{AbortSteps, Gates, Script, Scripted};
use turnlane_engine::{BoxFuture, Engine};
use turnlane_protocol::ids::{QueuedTurnId, ThreadId};
use turnlane_protocol::method::TurnStartParams;
use turnlane_runtime::{
    AddTurn, AfterInterrupt, BeforeTurn, BeforeTurnVerdict, Bound, Clock, CreateThread, Drain,
    Error, Handle, Options, Reply, Runtime, StartAnswer, StartHow, StartRequest, SystemClock,
    this_worker,
};
use turnlane_store::Store;
use turnlane_store::queue::{Appended, MoveTo, OnCrash, Policies, Row};
use turnlane_store::sqlite::SqliteStore;
use turnlane_store::thread::BoundThread;

use super::foreign::{Answers, Foreign, Obeys};
use super::log::{Log, Logged};
use crate::support;

/// Set in the child only: the database it serves. The log lies beside it.
pub(crate) const DATABASE: &str = "TURNLANE_CRASH_DATABASE";
/// Set in the child only: the script its engine plays.
pub(crate) const SCRIPT: &str = "TURNLANE_CRASH_SCRIPT";
/// Set in a child that is asked before each turn: `go`, or `hang` to never answer.
pub(crate) const HOOKS: &str = "TURNLANE_CRASH_HOOKS";

/// In place of a script: the engine is another program, and texts say where its turns hang.
pub(crate) const FOREIGN: &str = "foreign";
/// In place of a script: the engine is another program that answers every turn.
pub(crate) const FOREIGN_AFTER: &str = "foreign after";
/// In place of a script: the worker has that engine and runs nothing.
pub(crate) const DESK: &str = "foreign desk";

/// What the foreign engine obeys that stands in place of a script; none for a script.
fn foreign(script: &str) -> Option<Obeys> {
    match script {
        FOREIGN => Some(Obeys::Texts),
        FOREIGN_AFTER | DESK => Some(Obeys::Nothing),
        _ => None,
    }
}

/// How many lines of the parent wait at most; then the parent does.
const LINES_MAX: usize = 1_024;

/// Does nothing unless it is the child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_child_serves() {
    if let Some(database) = std::env::var_os(DATABASE) {
        serve(Path::new(&database)).await;
    }
}

/// Prints a line; a parent that is gone needs none.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes());
    let _ = out.flush();
}

fn answer<T>(number: &str, result: Result<T, Error>, words: impl FnOnce(T) -> String) {
    match result {
        Ok(value) => say(&format!("ok {number} {}", words(value))),
        Err(error) => say(&format!("no {number} {error}")),
    }
}

async fn serve(database: &Path) {
    // Ends the line that the test runner has begun.
    say("");
    let worker = this_worker("test", &SystemClock);
    let store = SqliteStore::open(turnlane_store::sqlite::Options::new(database, worker)).unwrap();
    let log = Log::open(&database.with_extension("log"));
    let script = std::env::var(SCRIPT).unwrap();
    let mut gates = Gates::default();
    let engine: Arc<dyn Engine> = if let Some(obeys) = foreign(&script) {
        Arc::new(Foreign::beside(database, obeys, Answers::FromHistory))
    } else {
        let script = Script::parse("child.yaml", &script, AbortSteps::Refused).unwrap();
        let inner = Scripted::new(script, Arc::new(|| SystemClock.now_ms()));
        gates = inner.gates();
        Arc::new(Logged {
            inner,
            log: log.clone(),
        })
    };
    let name = engine.name().to_owned();
    let before_turn = std::env::var(HOOKS).ok().map(|mode| {
        let hook: Arc<dyn BeforeTurn> = Arc::new(Hook { log, mode });
        hook
    });
    let usual = Options::default();
    let options = Options {
        before_turn,
        max_running: if script == DESK { 0 } else { usual.max_running },
        drain: if script == DESK {
            Drain::Loaded
        } else {
            usual.drain
        },
        ..usual
    };
    let store: Arc<dyn Store> = Arc::new(store);
    let runtime = Runtime::start(store, vec![engine], Arc::new(SystemClock), options)
        .await
        .unwrap();
    let runtime = Arc::new(runtime);
    let child = Child {
        runtime: Arc::clone(&runtime),
        handle: runtime.handle(),
        engine: name,
        gates,
    };
    let mut lines = stdin_lines();
    say("ready");
    while let Some(line) = lines.recv().await {
        child.obey(&line).await;
    }
    drop(child);
    let runtime = Arc::into_inner(runtime).unwrap();
    runtime.stop(Duration::ZERO).await.unwrap();
    say("stopped");
}

/// The parent's lines; ends with them.
fn stdin_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Asked before each turn.
struct Hook {
    log: Log,
    mode: String,
}

impl BeforeTurn for Hook {
    fn before_turn(&self, _thread: ThreadId, row: &Row) -> BoxFuture<'static, BeforeTurnVerdict> {
        self.log.hook(&row.client_id);
        if self.mode == "hang" {
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(BeforeTurnVerdict::Go))
    }
}

struct Child {
    runtime: Arc<Runtime>,
    handle: Handle,
    /// The engine of the threads that it makes.
    engine: String,
    gates: Gates,
}

fn params(client: &str, text: &str) -> TurnStartParams {
    TurnStartParams {
        client_user_message_id: Some(client.to_owned()),
        ..support::params(text)
    }
}

/// A thread that is found by this name.
fn bound(key: &str) -> CreateThread {
    CreateThread {
        binding: Some(key.to_owned()),
        ..CreateThread::new("scripted", support::settings())
    }
}

fn on_crash(word: &str) -> OnCrash {
    match word {
        "block" => OnCrash::Block,
        "continue" => OnCrash::Continue,
        "retry" => OnCrash::Retry,
        _ => panic!("not a policy: {word}"),
    }
}

impl Child {
    async fn obey(&self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [number, "thread"] => {
                let create = CreateThread::new(self.engine.as_str(), support::settings());
                let made = self.handle.create_thread(create).await;
                answer(number, made, |row| row.id.to_string());
            }
            [number, "bind", key] => {
                let made = self.handle.bind(bound(key)).await;
                answer(number, made, |made| match made {
                    BoundThread::Made(row) | BoundThread::Existing(row) => row.id.to_string(),
                });
            }
            [number, "supersede", old, key] => {
                let made = self
                    .handle
                    .supersede(old.parse().unwrap(), bound(key))
                    .await;
                answer(number, made, |made| made.thread.id.to_string());
            }
            [number, "worker"] => {
                let worker = self.handle.store().worker();
                answer(number, Ok(worker), |worker| worker.to_string());
            }
            [number, "gate", name] => {
                // Answered first: what the gate lets through may be the death of this process.
                answer(number, Ok(()), |()| String::new());
                self.gates.open(name);
            }
            [number, "add", thread, client, policy, text] => {
                self.add(number, thread, client, policy, text).await;
            }
            [number, "start", thread, client, text] => {
                self.start(number, thread, client, text).await;
            }
            [number, "stop", _thread] => {
                self.runtime.end_turns(Duration::ZERO).await;
                answer(number, Ok(()), |()| String::new());
            }
            [number, word, thread, rest @ ..] => {
                let call = Call {
                    handle: self.handle.clone(),
                    number: (*number).to_owned(),
                    thread: thread.parse().unwrap(),
                    word: (*word).to_owned(),
                    rest: rest.iter().map(|word| (*word).to_owned()).collect(),
                };
                // Not awaited: an interrupt is answered only when its turn has ended.
                tokio::spawn(call.make());
            }
            _ => panic!("not a command: {line}"),
        }
    }

    async fn add(&self, number: &str, thread: &str, client: &str, policy: &str, text: &str) {
        let add = AddTurn {
            key: Some(client.to_owned()),
            policies: Policies {
                on_crash: on_crash(policy),
                ..Policies::default()
            },
            ..AddTurn::new(params(client, text))
        };
        let number = number.to_owned();
        let reply = Reply::new(move |added| {
            answer(&number, added, |added| match added {
                Appended::New(row) => format!("new {}", row.id),
                Appended::Repeated(repeated) => format!("repeated {}", repeated.row.id),
            });
        });
        let thread = thread.parse().unwrap();
        self.handle.add_with(thread, add, reply).await;
    }

    async fn start(&self, number: &str, thread: &str, client: &str, text: &str) {
        let request = StartRequest {
            params: params(client, text),
            how: StartHow::OrReject,
            key: None,
            bound: Bound::No,
        };
        let number = number.to_owned();
        let reply = Reply::new(move |started| {
            answer(&number, started, |started| match started {
                StartAnswer::Begun(turn) => turn.id.to_string(),
                other => panic!("neither begun nor refused: {other:?}"),
            });
        });
        let thread = thread.parse().unwrap();
        let _ = self.handle.start_with(thread, request, reply).await;
    }
}

/// A call whose place among others does not matter.
struct Call {
    handle: Handle,
    number: String,
    thread: ThreadId,
    word: String,
    rest: Vec<String>,
}

impl Call {
    async fn make(self) {
        let (handle, thread) = (&self.handle, self.thread);
        let rest: Vec<&str> = self.rest.iter().map(String::as_str).collect();
        let row = |word: &str| word.parse::<QueuedTurnId>().unwrap();
        let done = match (self.word.as_str(), rest.as_slice()) {
            ("interrupt", ["pause"]) => {
                let queue = AfterInterrupt::Pause;
                handle.interrupt(thread, None, queue, None).await
            }
            ("interrupt", ["continue"]) => {
                let queue = AfterInterrupt::Continue;
                handle.interrupt(thread, None, queue, None).await
            }
            ("pause", []) => handle.pause(thread, None, None).await.map(drop),
            ("resume", []) => handle.resume(thread).await.map(drop),
            ("retry", [id]) => handle.retry(thread, Some(row(id))).await.map(drop),
            ("delete", [id]) => {
                let deleted = handle.delete(thread, row(id)).await;
                return answer(&self.number, deleted, |deleted| deleted.to_string());
            }
            ("move", [id, index]) => {
                let to = MoveTo::Index(index.parse().unwrap());
                handle.move_row(thread, row(id), to).await.map(drop)
            }
            ("update", [id, client, text]) => {
                let params = params(client, text);
                handle.update(thread, row(id), &params).await.map(drop)
            }
            ("reorder", ids) => {
                let rows = ids.iter().map(|id| row(id)).collect();
                handle.reorder(thread, rows).await.map(drop)
            }
            _ => panic!("not a call: {} {:?}", self.word, self.rest),
        };
        answer(&self.number, done, |()| String::new());
    }
}
