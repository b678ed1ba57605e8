//! The one task that takes what processes of this program's service wrote.
//!
//! A process rings when it has something; the pump takes some of it, in turn with the others, and
//! hands it to the process's cell. The invariant here: each process has its place in the queue at most
//! once per ring, and a process whose lossless reader has enough is left alone until that reader rings
//! for room. So one that is not read holds back nobody but itself.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;
use turnlane_process as process;
use turnlane_process::{ExitStatus, Output, Process, TryNext};
use turnlane_protocol::exec_server::process::Reason;

use super::Local;
use crate::client::cell::{Cell, Told};
use crate::client::error::ClientError;
use crate::client::events::Exit;

/// Events that are taken from one process before the others have their turn.
const EVENTS_AT_ONCE: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Pump {
    ready: Mutex<Ready>,
    rung: Notify,
}

#[derive(Debug, Default)]
struct Ready {
    /// Who rang. Bounded by the processes: each rings once and then waits to be looked at.
    numbers: VecDeque<u64>,
    arrivals: Vec<(u64, Source)>,
    is_closed: bool,
}

/// A process and where its events go.
#[derive(Debug)]
struct Source {
    output: Output,
    process: Process,
    cell: Arc<Cell>,
}

enum Turn {
    More,
    Idle,
    Ended,
}

impl Pump {
    /// Takes the output of a process from now on.
    pub(super) fn add(
        self: &Arc<Self>,
        number: u64,
        process: &Process,
        cell: &Arc<Cell>,
    ) -> Result<(), ClientError> {
        let output = process.output().map_err(|_| ClientError::OutputTaken)?;
        let pump = Arc::clone(self);
        cell.on_room(move || pump.ring(number));
        let source = Source {
            output,
            process: process.clone(),
            cell: Arc::clone(cell),
        };
        let mut ready = self.lock();
        ready.arrivals.push((number, source));
        ready.numbers.push_back(number);
        drop(ready);
        self.rung.notify_one();
        Ok(())
    }

    pub(super) fn close(&self) {
        let mut ready = self.lock();
        *ready = Ready {
            is_closed: true,
            ..Ready::default()
        };
        drop(ready);
        self.rung.notify_one();
    }

    fn ring(&self, number: u64) {
        self.lock().numbers.push_back(number);
        self.rung.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs until the client is closed.
pub(super) async fn run(pump: Arc<Pump>, local: Weak<Local>) {
    let mut sources: HashMap<u64, Source> = HashMap::new();
    loop {
        let (numbers, arrivals) = {
            let mut ready = pump.lock();
            if ready.is_closed {
                return;
            }
            (
                std::mem::take(&mut ready.numbers),
                std::mem::take(&mut ready.arrivals),
            )
        };
        if numbers.is_empty() {
            pump.rung.notified().await;
            continue;
        }
        for (number, mut source) in arrivals {
            let bell = Arc::clone(&pump);
            source
                .output
                .set_doorbell(Arc::new(move || bell.ring(number)));
            sources.insert(number, source);
        }
        for number in numbers {
            let Some(source) = sources.get_mut(&number) else {
                continue;
            };
            match source.turn() {
                Turn::More => pump.ring(number),
                Turn::Idle => {}
                Turn::Ended => {
                    sources.remove(&number);
                    if let Some(local) = local.upgrade() {
                        local.told_all(number);
                    }
                }
            }
        }
        // Others run on this thread too.
        tokio::task::yield_now().await;
    }
}

impl Source {
    fn turn(&mut self) -> Turn {
        for _ in 0..EVENTS_AT_ONCE {
            if self.cell.lock().feed.is_full() {
                return Turn::Idle;
            }
            match self.output.try_next() {
                TryNext::Event(event) => self.accept(event),
                TryNext::Empty => return Turn::Idle,
                TryNext::Ended => return Turn::Ended,
            }
        }
        Turn::More
    }

    fn accept(&self, event: process::Event) {
        let seq = event.seq();
        let told = match event {
            process::Event::Output { stream, bytes, .. } => Told::Output { stream, bytes },
            process::Event::Exited { status, .. } => Told::Exited(self.exit(status)),
            process::Event::Closed {
                drain_timed_out, ..
            } => Told::Closed { drain_timed_out },
        };
        self.cell.accept(seq, told);
    }

    fn exit(&self, status: ExitStatus) -> Exit {
        Exit {
            code: status.code,
            signal: status.signal,
            reason: Some(match status.reason {
                process::Reason::Exited => Reason::Exited,
                process::Reason::Signaled => Reason::Signaled,
                process::Reason::Terminated => Reason::Terminated,
                process::Reason::Timeout => Reason::Timeout,
                process::Reason::Lost => Reason::Lost,
            }),
            sandbox_denied: self.process.looks_denied(),
        }
    }
}
