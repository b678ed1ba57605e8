//! The lossless stream of one process.
//!
//! It is fed live as long as it is taken quickly enough; a reader that falls behind its 4 MiB gets the
//! rest in pages from where it is kept: the server, the service of this program, or the client
//! itself. The invariant here: events come in the order of their numbers and each number is either
//! told or counted by an [`Event::Lagged`] at its place, which there is only when whoever kept the
//! output had to give it up.
//!
//! On a connection a slow reader does not hold its process back, since it would hold back all the
//! others with it. In this program it does: nothing is shared there, so nothing needs to be lost.

pub(super) mod sizes;

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use turnlane_process::{Process, StreamName};
use turnlane_protocol::exec_server::process::{READ, ReadAnswer, ReadParams};

use super::cell::feed::Item;
use super::cell::{Cell, Told};
use super::core::Core;
use super::error::ClientError;
use super::events::Event;
use super::wire::stream_from_wire;
use sizes::Missing;

/// What is asked for at once.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// The events of one process from its first; see [`super::RemoteProcess::output`].
#[derive(Debug)]
pub struct ProcessOutput {
    cell: Arc<Cell>,
    kept_by: KeptBy,
    /// The last number that was told or counted.
    position: u64,
    page: VecDeque<Event>,
}

/// Who has what a reader missed.
#[derive(Debug)]
pub(super) enum KeptBy {
    Server(Arc<Core>),
    Client,
    Service(Process),
}

/// Output after some number.
struct Page {
    chunks: Vec<(u64, StreamName, Bytes)>,
    /// The last number this page knows about: what is not in it up to there is gone.
    through: u64,
}

/// What to do next.
enum Next {
    Event(Event),
    Ended,
    Wait,
    /// The queue goes on; look again.
    CaughtUp,
    /// Read what was missed, up to this number.
    Behind(u64),
}

impl ProcessOutput {
    pub(super) fn take(cell: Arc<Cell>, kept_by: KeptBy) -> Result<Self, ClientError> {
        if !cell.lock().feed.take() {
            return Err(ClientError::OutputTaken);
        }
        Ok(Self {
            cell,
            kept_by,
            position: 0,
            page: VecDeque::new(),
        })
    }

    /// The next event: output, exit, close, or what is missing. `None` after the close. Fails when
    /// the connection is gone for good or the process has failed. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            match self.step()? {
                Next::Event(event) => return Ok(Some(event)),
                Next::Ended => return Ok(None),
                Next::Wait => self.cell.fed().await,
                Next::CaughtUp => {}
                Next::Behind(through) => {
                    let page = self.read(through).await?;
                    self.turn_to(page);
                }
            }
        }
    }

    fn step(&mut self) -> Result<Next, ClientError> {
        if let Some(event) = self.page.pop_front() {
            return Ok(Next::Event(event));
        }
        let mut inner = self.cell.lock();
        let was_full = inner.feed.is_full();
        if let Some((seq, item)) = inner.feed.pop() {
            self.position = seq;
            let has_room = was_full && !inner.feed.is_full();
            drop(inner);
            if has_room {
                self.cell.has_room();
            }
            return Ok(Next::Event(self.event(seq, item)));
        }
        if inner.closed.is_some_and(|(seq, _)| self.position >= seq) {
            return Ok(Next::Ended);
        }
        if inner.feed.behind.is_some() {
            let through = inner.next_seq - 1;
            if self.position < through {
                return Ok(Next::Behind(through));
            }
            inner.feed.behind = None;
            drop(inner);
            self.cell.has_room();
            return Ok(Next::CaughtUp);
        }
        match &inner.failure {
            Some(failure) => Err(failure.error()),
            None => Ok(Next::Wait),
        }
    }

    fn event(&self, seq: u64, item: Item) -> Event {
        match item {
            Item::Told(told) => told.into_event(self.cell.id.clone(), seq),
            Item::Missing(missing) => self.lagged(missing),
        }
    }

    fn lagged(&self, missing: Missing) -> Event {
        Event::Lagged {
            process: self.cell.id.clone(),
            events: missing.events,
            bytes: missing.bytes,
        }
    }

    async fn read(&self, through: u64) -> Result<Page, ClientError> {
        match &self.kept_by {
            KeptBy::Client => {
                let inner = self.cell.lock();
                let kept = inner.kept.as_ref();
                let chunks = kept.map(|kept| kept.read(self.position, PAGE_BYTES_MAX));
                let chunks = chunks.unwrap_or_default();
                let last = chunks.last().map(|(seq, ..)| *seq);
                Ok(Page {
                    chunks,
                    through: last.unwrap_or(through),
                })
            }
            KeptBy::Service(process) => {
                let page = process.read(self.position, Some(PAGE_BYTES_MAX));
                Ok(Page {
                    through: through.min(page.next_seq.saturating_sub(1)),
                    chunks: page.chunks,
                })
            }
            KeptBy::Server(core) => self.read_from(core, through).await,
        }
    }

    async fn read_from(&self, core: &Core, through: u64) -> Result<Page, ClientError> {
        let params = ReadParams {
            process_id: self.cell.id.as_str().to_owned(),
            after_seq: Some(self.position),
            max_bytes: Some(PAGE_BYTES_MAX as u64),
            wait_ms: None,
        };
        loop {
            let answer = match core.call::<ReadAnswer>(READ, &params).await {
                Ok(answer) => answer,
                // The session may go on; if it does not, the next call says so.
                Err(ClientError::Closed { .. }) if !core.is_ended() => continue,
                // The server has forgotten the process, and its output with it.
                Err(ClientError::Rpc { .. }) => ReadAnswer {
                    next_seq: through + 1,
                    ..ReadAnswer::default()
                },
                Err(error) => return Err(error),
            };
            let chunks = answer.chunks.into_iter();
            return Ok(Page {
                chunks: chunks
                    .map(|chunk| (chunk.seq, stream_from_wire(chunk.stream), chunk.chunk.0))
                    .collect(),
                through: through.min(answer.next_seq.saturating_sub(1)),
            });
        }
    }

    /// Makes events of a page: what is there, what is missing between, and the exit and the close
    /// where they belong.
    fn turn_to(&mut self, page: Page) {
        let Page { chunks, through } = page;
        for (seq, stream, bytes) in chunks {
            // What has not passed live yet will come live.
            if seq > through {
                break;
            }
            self.pass_over(seq - 1);
            if seq <= self.position {
                continue;
            }
            if let Some(sizes) = &mut self.cell.lock().feed.behind {
                sizes.got(bytes.len() as u64);
            }
            self.position = seq;
            let told = Told::Output { stream, bytes };
            self.page
                .push_back(told.into_event(self.cell.id.clone(), seq));
        }
        self.pass_over(through);
    }

    /// Moves to `through`: none of the output up to there will be told.
    fn pass_over(&mut self, through: u64) {
        while self.position < through {
            let mut inner = self.cell.lock();
            let next = self.position + 1;
            let marks = [
                inner.exit.map(|(seq, exit)| (seq, Told::Exited(exit))),
                inner
                    .closed
                    .map(|(seq, drain_timed_out)| (seq, Told::Closed { drain_timed_out })),
            ];
            let Some(sizes) = &mut inner.feed.behind else {
                return;
            };
            let mut marks = marks.into_iter().flatten();
            if let Some((seq, told)) = marks.find(|(seq, _)| *seq == next) {
                sizes.got(0);
                self.position = seq;
                drop(inner);
                self.page
                    .push_back(told.into_event(self.cell.id.clone(), seq));
                continue;
            }
            let missing = sizes.lose(through - self.position);
            drop(inner);
            if missing.events == 0 {
                return;
            }
            self.position += missing.events;
            if let Some(Event::Lagged { events, bytes, .. }) = self.page.back_mut() {
                *events += missing.events;
                *bytes += missing.bytes;
            } else {
                let event = self.lagged(missing);
                self.page.push_back(event);
            }
        }
    }
}

impl Drop for ProcessOutput {
    fn drop(&mut self) {
        self.cell.lock().feed.abandon();
        self.cell.has_room();
    }
}
