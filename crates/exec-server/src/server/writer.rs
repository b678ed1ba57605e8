//! The writing task of a connection.
//!
//! Each round takes every answer that waits and then lets processes tell something, one after the
//! other, until a batch is full; so a flood of answers cannot silence processes, nor a loud process
//! an answer for longer than a batch, and an answer that was queued before an event is written
//! before it. The task makes progress on its own: it never waits for the reading side. It ends when
//! the connection is to end, or when the other side takes nothing for [`STALL_MAX`].

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use turnlane_rpc::{FrameWriter, WriteError};

use super::events;
use super::outbox::{Answer, Farewell, LastWords, Outbox, Then};

/// A connection that takes not one byte for this long is given up.
pub(crate) const STALL_MAX: Duration = Duration::from_mins(1);

/// How long the last words of a connection may take.
pub(crate) const FAREWELL_MAX: Duration = Duration::from_secs(2);

/// Events are encoded up to this much before they are written. What is in flight when a connection
/// is lost must be readable afterwards, so this stays far below what is retained.
const BATCH_BYTES: usize = 16 * 1024;

/// What the task owns.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) frames: FrameWriter,
    pub(crate) outbox: Arc<Outbox>,
}

/// What was put into the frames besides events.
#[derive(Default)]
struct Told {
    answer_bytes: usize,
    then: Vec<Then>,
}

impl Writer {
    /// Writes until the connection is to end, then says farewell.
    pub(crate) async fn run(mut self) {
        let outbox = Arc::clone(&self.outbox);
        loop {
            // Looked at first: a farewell is not overtaken by what comes after it.
            let ends = outbox.farewell().is_some();
            let work = outbox.take();
            let mut idle = work.is_empty();
            let mut told = Told {
                answer_bytes: work.answer_bytes,
                then: Vec::new(),
            };
            if work.ping {
                self.frames.push_ping();
            }
            if let Some(payload) = work.pong {
                self.frames.push_pong(&payload);
            }
            self.push(work.answers, &mut told);
            if ends {
                break;
            }
            idle &= self.pull(&mut told) == 0;
            if idle {
                outbox.wake.notified().await;
                continue;
            }
            tokio::select! {
                biased;
                written = self.frames.flush(STALL_MAX) => match written {
                    Ok(()) => {
                        outbox.written(told.answer_bytes);
                        for Then(act) in told.then {
                            act();
                        }
                    }
                    Err(WriteError::Stalled) => {
                        outbox.close(Farewell::new(1001, "the peer stopped reading"));
                    }
                    Err(WriteError::Io(_)) => outbox.close(Farewell::new(1001, "write failed")),
                },
                () = outbox.closing() => {}
            }
        }
        self.farewell().await;
    }

    /// Best effort: the other side may be gone or not reading.
    async fn farewell(&mut self) {
        let Some(farewell) = self.outbox.farewell() else {
            return;
        };
        let _ = timeout(FAREWELL_MAX, async {
            if farewell.last_words == LastWords::Told {
                while self.pull(&mut Told::default()) > 0 {
                    self.frames.flush(FAREWELL_MAX).await?;
                }
            }
            self.frames.push_close(farewell.code, &farewell.reason);
            self.frames.flush(FAREWELL_MAX).await?;
            self.frames.shutdown(FAREWELL_MAX).await
        })
        .await;
    }

    fn push(&mut self, answers: Vec<Answer>, told: &mut Told) {
        for answer in answers {
            self.frames.push(answer.frame);
            told.then.extend(answer.then);
        }
    }

    /// Lets processes tell something; how many bytes it was.
    fn pull(&mut self, told: &mut Told) -> usize {
        let outbox = Arc::clone(&self.outbox);
        let Some(session) = outbox.session() else {
            return 0;
        };
        let mut pulled = 0;
        while pulled < BATCH_BYTES {
            let Some(entry) = session.ready.next(self.outbox.connection) else {
                break;
            };
            // The answer to its start may have come since the answers were taken, and goes first.
            let (answers, bytes) = outbox.take_answers();
            told.answer_bytes += bytes;
            self.push(answers, told);
            pulled += events::turn(session, &entry, &mut self.frames);
        }
        pulled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnlane_rpc::Duplex;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_for_a_minute_is_given_up() {
        let (near, _far) = tokio::io::duplex(64);
        let frames = Duplex::lines(tokio::io::empty(), near).into_frames();
        let outbox = Arc::new(Outbox::new(1));
        outbox.answer(vec![b'x'; 1000]);
        let began = tokio::time::Instant::now();
        let writer = Writer {
            frames: frames.writer,
            outbox: Arc::clone(&outbox),
        };
        writer.run().await;
        assert_eq!(
            outbox.farewell().unwrap().reason,
            "the peer stopped reading"
        );
        assert_eq!(began.elapsed(), STALL_MAX + FAREWELL_MAX);
    }
}
