//! The writing task of a connection.
//!
//! Each round chooses a process that has something to tell, takes every answer that waits, lets the
//! process tell, and goes on until a batch is full; so a flood of answers cannot silence processes, nor a loud process
//! an answer for longer than a batch, and an answer that was queued before an event is written
//! before it. The task makes progress on its own: it never waits for the reading side. It ends when
//! the connection is to end, or when the other side takes nothing for [`STALL_MAX`].

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use turnlane_rpc::{FrameWriter, WriteError};

use super::events;
use super::outbox::{Farewell, LastWords, Outbox, Then, Work};

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

/// What one round put into the frames.
#[derive(Debug, Default)]
struct Round {
    answer_bytes: usize,
    event_bytes: usize,
    then: Vec<Then>,
    /// Pings and pongs count as something, though they are neither.
    is_empty: bool,
}

impl Writer {
    /// Writes until the connection is to end, then says farewell.
    pub(crate) async fn run(mut self) {
        let outbox = Arc::clone(&self.outbox);
        // Looked at before each round: a farewell is not overtaken by what comes after it.
        while outbox.farewell().is_none() {
            let round = self.fill();
            if round.is_empty {
                outbox.wake.notified().await;
                continue;
            }
            tokio::select! {
                biased;
                written = self.frames.flush(STALL_MAX) => match written {
                    Ok(()) => {
                        outbox.written(round.answer_bytes);
                        for Then(act) in round.then {
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
        // What was answered before the end was decided is still told.
        let rest = outbox.take();
        self.push(rest, &mut Round::default());
        self.farewell().await;
    }

    /// Best effort: the other side may be gone or not reading.
    async fn farewell(&mut self) {
        let Some(farewell) = self.outbox.farewell() else {
            return;
        };
        let _ = timeout(FAREWELL_MAX, async {
            if farewell.last_words == LastWords::Told {
                while self.fill().event_bytes > 0 {
                    self.frames.flush(FAREWELL_MAX).await?;
                }
            }
            self.frames.push_close(farewell.code, &farewell.reason);
            self.frames.flush(FAREWELL_MAX).await?;
            self.frames.shutdown(FAREWELL_MAX).await
        })
        .await;
    }

    /// Answers that wait, and what processes have to tell, up to a batch.
    fn fill(&mut self) -> Round {
        let outbox = Arc::clone(&self.outbox);
        let mut round = Round {
            is_empty: true,
            ..Round::default()
        };
        loop {
            let has_room = round.event_bytes < BATCH_BYTES;
            let (session, work) = outbox.take_after(|| {
                let session = outbox.session().filter(|_| has_room)?;
                Some((session, session.ready.next(outbox.connection)?))
            });
            self.push(work, &mut round);
            let Some((session, entry)) = session else {
                return round;
            };
            let bytes = events::turn(session, &entry, &mut self.frames);
            round.event_bytes += bytes;
            round.is_empty &= bytes == 0;
        }
    }

    fn push(&mut self, work: Work, round: &mut Round) {
        round.is_empty &= work.is_empty();
        round.answer_bytes += work.answer_bytes;
        if work.ping {
            self.frames.push_ping();
        }
        if let Some(payload) = work.pong {
            self.frames.push_pong(&payload);
        }
        for answer in work.answers {
            self.frames.push(answer.frame);
            round.then.extend(answer.then);
        }
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
