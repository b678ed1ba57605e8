//! Threads for lists: nothing in them is longer than a client may store today.
//!
//! The invariant here: texts that were stored before there were bounds, by this server or another
//! program, cannot make a list too long to be sent. The texts of a thread are cut in lists only: who
//! reads one thread is shown what is stored. The state of a queue is cut wherever it is told.

use turnlane_protocol::bounds::{
    NAME_BYTES_MAX, PATH_BYTES_MAX, REASON_BYTES_MAX, ROOTS_MAX, shortened,
};
use turnlane_protocol::thread::{
    QueueSummary, SessionSource, SubAgentSource, Thread, ThreadEnvironment,
};

/// Cuts every text of a thread to its bound.
pub(crate) fn shorten(thread: &mut Thread) {
    shortened(&mut thread.preview, REASON_BYTES_MAX);
    shortened(&mut thread.cwd, PATH_BYTES_MAX);
    shortened(&mut thread.model_provider, NAME_BYTES_MAX);
    let names = [
        &mut thread.name,
        &mut thread.model,
        &mut thread.reasoning_effort,
        &mut thread.originator,
        &mut thread.thread_source,
        &mut thread.engine,
        &mut thread.binding,
    ];
    for name in names.into_iter().flatten() {
        shortened(name, NAME_BYTES_MAX);
    }
    if let SessionSource::Custom(detail) | SessionSource::SubAgent(SubAgentSource::Other(detail)) =
        &mut thread.source
    {
        shortened(detail, NAME_BYTES_MAX);
    }
    if let Some(git) = &mut thread.git_info {
        let texts = [&mut git.branch, &mut git.origin_url, &mut git.sha];
        for text in texts.into_iter().flatten() {
            shortened(text, NAME_BYTES_MAX);
        }
    }
    if let Some(environments) = &mut thread.environments {
        environments.truncate(ROOTS_MAX);
        environments.iter_mut().for_each(shorten_environment);
    }
    thread.queue.iter_mut().for_each(shorten_queue);
}

fn shorten_environment(environment: &mut ThreadEnvironment) {
    shortened(&mut environment.environment_id, NAME_BYTES_MAX);
    shortened(&mut environment.cwd, PATH_BYTES_MAX);
    if let Some(roots) = &mut environment.runtime_workspace_roots {
        roots.truncate(ROOTS_MAX);
        for root in roots {
            shortened(root, PATH_BYTES_MAX);
        }
    }
}

/// Cuts the texts of a queue's state, which is told with every list and change of it.
pub(crate) fn shorten_queue(queue: &mut QueueSummary) {
    if let Some(paused) = &mut queue.paused {
        shortened(&mut paused.reason, REASON_BYTES_MAX);
        if let Some(by) = &mut paused.by {
            shortened(by, NAME_BYTES_MAX);
        }
    }
    if let Some(waiting) = &mut queue.waiting {
        shortened(&mut waiting.message, REASON_BYTES_MAX);
    }
    if let Some(blocked) = &mut queue.blocked {
        shortened(&mut blocked.message, REASON_BYTES_MAX);
    }
}
