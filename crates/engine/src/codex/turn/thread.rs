//! The Codex thread of a turn: started once, resumed after every start of a child, idle before a
//! delivery.
//!
//! The invariant here: the id of a new thread is durable before anything is said on it, and a resumed
//! thread has the id that was asked for.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{sleep, timeout};
use turnlane_protocol::turn_error::ErrorKind;

use super::{Halt, Turn};
use crate::codex::connection::{CallFailure, Connection};
use crate::codex::errors::{ACTIVE_WRITER, of_call, ours};
use crate::codex::params;
use crate::codex::routes::Subscription;
use crate::codex::usage::UsageMeter;
use crate::codex_program::CodexThreadState;
use crate::event::Event;

/// Waits while another process writes to the thread; Codex frees its lock when that process ends.
const BUSY_WAITS_S: [u64; 5] = [1, 2, 5, 10, 30];
/// How long a turn that is left on the thread may take to end by itself.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);
/// How long it may take to end after an interrupt.
const LEFTOVER_LIMIT: Duration = Duration::from_secs(10);

/// The answer to `thread/start` and `thread/resume`.
#[derive(Deserialize)]
struct Opened {
    thread: NamedThread,
}

#[derive(Deserialize)]
struct NamedThread {
    id: String,
}

impl Turn {
    /// Subscribes to the thread and makes sure that the child has loaded it.
    pub(super) async fn open_thread(
        &mut self,
        connection: &Arc<Connection>,
    ) -> Result<Subscription, Halt> {
        let mut busy_waits = BUSY_WAITS_S.iter();
        while let Some(state) = &self.state {
            let thread = state.thread_id.clone();
            // Before the resume, because Codex tells the total of the thread right behind its answer.
            let inbox = connection.subscribe(&thread);
            if connection.is_loaded(&thread) {
                self.shared.threads.name(self.request.thread_id, &thread);
                return Ok(inbox);
            }
            let params = params::thread_resume(&self.request.settings, &thread);
            let opened = connection.call::<Opened>("thread/resume", &params);
            let opened = self.cancel.unless_cancelled(opened).await;
            match opened.map_err(|_cancelled| Halt::Cancelled)? {
                Ok(opened) if opened.thread.id == thread => connection.set_loaded(&thread),
                Ok(opened) => {
                    let text = format!("Codex resumed thread {}, not {thread}", opened.thread.id);
                    return Err(self.refused(ours(text, ErrorKind::ResumeMismatch)));
                }
                Err(CallFailure::Died) => return Err(Halt::Died),
                Err(failure) if failure.says(ACTIVE_WRITER) => {
                    let Some(seconds) = busy_waits.next() else {
                        return Err(self.refused(of_call(&failure)));
                    };
                    let pause = sleep(Duration::from_secs(*seconds));
                    let paused = self.cancel.unless_cancelled(pause).await;
                    paused.map_err(|_cancelled| Halt::Cancelled)?;
                }
                Err(failure) if failure.says_unwritten() && state.total.is_none() => {
                    // No turn was ever written to disk, so nothing is lost with it.
                    tracing::info!(thread, "Codex does not know an unused thread any more");
                    self.state = None;
                }
                Err(failure) => return Err(self.refused(of_call(&failure))),
            }
        }
        self.start_thread(connection).await
    }

    async fn start_thread(&mut self, connection: &Arc<Connection>) -> Result<Subscription, Halt> {
        let params = params::thread_start(&self.request.settings, &self.request.runtime_tools);
        let opened = connection.call::<Opened>("thread/start", &params);
        let opened = self.cancel.unless_cancelled(opened).await;
        let thread = match opened.map_err(|_cancelled| Halt::Cancelled)? {
            Ok(opened) => opened.thread.id,
            Err(CallFailure::Died) => return Err(Halt::Died),
            Err(failure) => return Err(self.refused(of_call(&failure))),
        };
        connection.set_loaded(&thread);
        self.shared.threads.name(self.request.thread_id, &thread);
        let inbox = connection.subscribe(&thread);
        let state = CodexThreadState::new(thread, None);
        self.save(&state).await?;
        self.state = Some(state);
        self.meter = UsageMeter::of_new_thread();
        Ok(inbox)
    }

    async fn save(&self, state: &CodexThreadState) -> Result<(), Halt> {
        let Some(json) = state.to_raw() else {
            let text = "the state of the thread cannot be written";
            return Err(self.refused(ours(text.to_owned(), ErrorKind::Protocol)));
        };
        Ok(self.sink.save_state(json).await?)
    }

    /// Saves the first total of the thread: from then on Codex must know the thread.
    pub(super) async fn save_total(&mut self) -> Result<(), Halt> {
        let total = self.meter.total();
        match &mut self.state {
            Some(state) if state.total.is_none() && total.is_some() => {
                state.total = total;
                let state = state.clone();
                self.save(&state).await
            }
            _ => Ok(()),
        }
    }

    /// Waits until no turn runs on the thread. One that a lost lane left is interrupted first; a child
    /// that does not end it is broken.
    pub(super) async fn wait_for_idle(
        &mut self,
        connection: &Arc<Connection>,
        thread: &str,
    ) -> Result<(), Halt> {
        let Some(leftover) = connection.active_turn(thread) else {
            return Ok(());
        };
        if timeout(LEFTOVER_GRACE, connection.idle(thread))
            .await
            .is_ok()
        {
            return Ok(());
        }
        let text = format!("turn {leftover} of Codex is still running and is interrupted");
        self.emit(Event::Warning(text)).await?;
        let ended = async {
            connection.interrupt(thread, &leftover).await;
            connection.idle(thread).await;
        };
        let ended = self.cancel.unless_cancelled(timeout(LEFTOVER_LIMIT, ended));
        let ended = ended.await.map_err(|_cancelled| Halt::Cancelled)?;
        if ended.is_err() {
            connection.kill();
            return Err(Halt::Died);
        }
        Ok(())
    }
}
