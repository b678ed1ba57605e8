//! Threads on another connection: who must hear of them again.
//!
//! The invariant here: a thread that somebody listens to is resumed on every connection, with the
//! policies it was opened with and from the event that was seen last: when the connection comes, or
//! when the first one listens who did not before. The feeds are told of the connection only
//! afterwards, so that whoever looks a turn up is a subscriber of its thread already. A connection
//! that is lost meanwhile is left to the next one.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::answer::Answer;
use super::state::{Attention, Known, Opened};
use crate::call::CallOptions;
use crate::core::Core;
use crate::error::CallError;
use crate::ids::ThreadId;
use crate::link::{Connection, Link, Repeat};

/// How long one thread may hold up the others.
const RESUME_TIMEOUT: Duration = Duration::from_secs(10);

/// After a new connection: subscribes again to every thread with a handle that has streams, hooks or
/// reviewers, then tells the feeds. Spawns; does not wait.
pub(crate) fn resume_all(core: &Arc<Core>, generation: u64) {
    // At once, before anything that the new connection tells.
    let mut live = core.registry.live();
    live.retain(|known| !known.is_closed());
    // What happened while nobody listened is not known.
    for known in &live {
        known.forget_activity();
    }
    let core = Arc::clone(core);
    tokio::spawn(async move {
        let mut resuming = tokio::task::JoinSet::new();
        for known in live {
            if known.attention() == Attention::Needed || core.router.has_receivers(&known.id) {
                let core = Arc::clone(&core);
                resuming.spawn(async move { resume(&core, &known).await });
            }
        }
        // The window of the link bounds how many are asked at once.
        while resuming.join_next().await.is_some() {}
        if is_current(&core, generation) {
            core.router.reconnected(generation);
        }
    });
}

/// For those who begin to listen: subscribes again to a thread that was opened on an earlier
/// connection and that nobody listened to when the present one came. Nothing when its events come.
///
/// Whoever listens is in the router's table before, so that a connection which comes meanwhile
/// resumes the thread by itself. When it cannot be resumed, that is the same as in [`resume_all`].
pub(crate) async fn listen(core: &Core, thread: &ThreadId) {
    if let Some(known) = unheard(core, thread) {
        resume(core, &known).await;
    }
}

/// As [`listen`] for those who cannot wait.
pub(crate) fn listen_soon(core: &Arc<Core>, thread: &ThreadId) {
    let (Some(known), Ok(link)) = (unheard(core, thread), core.link()) else {
        return;
    };
    let core = Arc::clone(core);
    link.spawn(async move { resume(&core, &known).await });
}

/// The thread, if it has a handle and its events do not come on the present connection.
fn unheard(core: &Core, thread: &ThreadId) -> Option<Arc<Known>> {
    let known = core.registry.find(thread)?;
    let generation = core.link().map_or(0, Link::generation);
    (known.opened_on() < generation && !known.is_closed()).then_some(known)
}

/// Whether the connection is still the one that was resumed on.
fn is_current(core: &Core, generation: u64) -> bool {
    core.link().is_ok_and(|link| {
        matches!(
            *link.connection().borrow(),
            Connection::Ready { generation: current } if current == generation
        )
    })
}

async fn resume(core: &Core, known: &Known) {
    let words = known.words();
    let generation = core.link().map_or(0, Link::generation);
    match send(core, known).await {
        Ok(answer) => known.opened(
            Opened {
                effective: answer.effective(),
                asked: known.asked(),
                activity: answer.activity(),
                position: answer.position(),
                attention: Attention::None,
                generation,
            },
            words,
        ),
        // Whoever follows a turn of it finds out by looking the turn up.
        Err(error) => {
            tracing::warn!(thread = %known.id, %error, "a thread was not resumed after a reconnect");
        }
    }
}

async fn send(core: &Core, known: &Known) -> Result<Answer, CallError> {
    const METHOD: &str = "thread/resume";
    let mut params = known.asked();
    params.insert("threadId".to_owned(), Value::from(known.id.as_str()));
    params.insert("excludeTurns".to_owned(), Value::Bool(true));
    let position = known.position();
    if core.is_turnlane()
        && let (Some(seq), Some(epoch)) = (position.seq, position.epoch)
    {
        params.insert("sinceSeq".to_owned(), Value::from(seq));
        params.insert("epoch".to_owned(), Value::from(epoch));
    }
    let options = CallOptions {
        timeout: Some(RESUME_TIMEOUT),
        ..CallOptions::default()
    };
    let answer: Answer = core
        .call_as(METHOD, &params, Repeat::Harmless, options)
        .await?;
    answer.id(METHOD)?;
    Ok(answer)
}
