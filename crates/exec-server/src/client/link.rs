//! The one task of a connection: it reads, it writes, and it ends when either does.
//!
//! The invariant here: whatever ends the task, [`Core::end`] is called, so nobody waits for a
//! connection that is gone. Reading never waits for writing. When the session may go on the same task
//! looks for a new connection ([`super::resume`]).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use turnlane_rpc::{FrameReader, FrameWriter, Frames, Inbound};

use super::core::{CLOSED_HERE, Core};
use super::options::ClientOptions;
use super::outbox::Out;
use super::resume;
use super::transport::{Endpoint, Open, WRITE_STALL_MAX};

/// A websocket that says nothing for this long is asked, and after as long again given up.
const PING_EVERY: Duration = Duration::from_secs(30);

/// How long a server may take to close its side after `session/end`.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// What a connection needs to be replaced by another one.
#[derive(Debug)]
pub(super) struct Again {
    pub(super) endpoint: Endpoint,
    pub(super) options: ClientOptions,
}

/// Runs until the session is over.
pub(super) async fn run(core: Arc<Core>, mut open: Open, again: Option<Again>) {
    // Also when the runtime drops this task in mid-air.
    let ended = EndOnDrop(Arc::clone(&core));
    loop {
        let reason = serve(&core, open).await;
        let Some(again) = again.as_ref().filter(|_| !core.is_ended()) else {
            core.end(&reason);
            break;
        };
        core.away(&reason);
        match resume::reattach(&core, again, &reason).await {
            Ok(next) => {
                let missed = core.up();
                tokio::spawn(resume::replay(Arc::clone(&core), missed));
                open = next;
            }
            Err(reason) => {
                core.end(&reason);
                break;
            }
        }
    }
    drop(ended);
}

struct EndOnDrop(Arc<Core>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end("the runtime of the connection is gone");
    }
}

/// Reads and writes until one of them ends; says why.
async fn serve(core: &Arc<Core>, open: Open) -> String {
    let Open { frames, early } = open;
    let Frames {
        is_websocket,
        mut reader,
        writer,
        counted: _counted,
    } = frames;
    for frame in early {
        if let Err(reason) = core.route(&frame) {
            return reason;
        }
    }
    let reason = tokio::select! {
        reason = read(core, &mut reader, is_websocket) => reason,
        reason = write(core, writer) => reason,
    };
    if core.outbox.is_closing() {
        // What the server still says is nobody's any more, but a socket closed with something unread
        // is reset, and that may overtake the farewell.
        let silence = async { while let Ok(Some(_)) = reader.next().await {} };
        let _ = timeout(FAREWELL_MAX, silence).await;
        return CLOSED_HERE.to_owned();
    }
    reason
}

async fn read(core: &Arc<Core>, reader: &mut FrameReader, is_websocket: bool) -> String {
    let mut is_asked = false;
    loop {
        let next = if is_websocket {
            match timeout(PING_EVERY, reader.next()).await {
                Ok(next) => next,
                Err(_) if is_asked => return "no sign of life".to_owned(),
                Err(_) => {
                    is_asked = true;
                    core.outbox.push(Out::Ping);
                    continue;
                }
            }
        } else {
            reader.next().await
        };
        is_asked = false;
        match next {
            Ok(Some(Inbound::Message(frame))) => {
                if let Err(reason) = core.route(&frame) {
                    return reason;
                }
            }
            Ok(Some(Inbound::Ping(payload))) => core.outbox.push(Out::Pong(payload)),
            Ok(Some(Inbound::Alive)) => {}
            Ok(Some(Inbound::TooLarge(long))) => {
                return format!("a message of {} bytes is too long", long.bytes);
            }
            Ok(Some(Inbound::Close(code))) => {
                return format!("closed by the other side with code {code}");
            }
            Ok(None) => return "closed by the other side".to_owned(),
            Err(why) => return reason_of(&why),
        }
    }
}

async fn write(core: &Core, mut writer: FrameWriter) -> String {
    while let Some(batch) = core.outbox.next().await {
        for out in batch {
            match out {
                Out::Frame(frame) => writer.push(frame),
                Out::Ping => writer.push_ping(),
                Out::Pong(payload) => writer.push_pong(&payload),
            }
        }
        if let Err(why) = writer.flush(WRITE_STALL_MAX).await {
            return reason_of(&why);
        }
    }
    writer.push_close(1000, "");
    // The connection is given up whether or not the other side still listens.
    let _ = writer.flush(FAREWELL_MAX).await;
    let _ = writer.shutdown(FAREWELL_MAX).await;
    CLOSED_HERE.to_owned()
}

/// The error with its cause, once.
fn reason_of(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
