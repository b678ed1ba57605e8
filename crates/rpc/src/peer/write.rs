//! The writing task of a connection.

use std::sync::Arc;

use tokio::time::timeout;

use super::Core;
use super::outbox::Work;
use crate::error::CloseReason;
use crate::frame::{FrameWriter, WriteError};

pub(super) struct Writing {
    pub(super) core: Arc<Core>,
    pub(super) frames: FrameWriter,
}

impl Writing {
    /// Writes until the connection ends, then says farewell. Whoever waits on the connection is
    /// told before that: a farewell may take its time.
    pub(super) async fn run(mut self) {
        let outbox = &self.core.outbox;
        let reason = loop {
            match outbox.work().await {
                Work::Close(reason) => break reason,
                Work::Write { ping, pong, frames } => {
                    if ping {
                        self.frames.push_ping();
                    }
                    if let Some(payload) = pong {
                        self.frames.push_pong(&payload);
                    }
                    for frame in frames {
                        self.frames.push(frame);
                    }
                    tokio::select! {
                        biased;
                        written = self.frames.flush(outbox.limits.stall) => match written {
                            Ok(()) => outbox.written(),
                            Err(WriteError::Stalled) => outbox.give_up(CloseReason::SlowConsumer),
                            Err(WriteError::Io(why)) => outbox.give_up(CloseReason::Io(why.kind())),
                        },
                        () = outbox.over() => {}
                    }
                }
            }
        };
        self.core.end(&reason);
        let farewell = outbox.limits.farewell;
        let (code, text) = reason.close_frame();
        self.frames.push_close(code, text);
        // Best effort: the other side may be gone or not reading.
        let _ = timeout(farewell, async {
            self.frames.flush(farewell).await?;
            self.frames.shutdown(farewell).await
        })
        .await;
    }
}
