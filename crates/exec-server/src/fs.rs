//! `fs/*`: files of the server's machine, under the same policies as its processes.
//!
//! The invariant here: with a `sandbox` every path is resolved fully, checked, and then opened without
//! following any link, and every operation acts on what was opened; a swap between check and use fails
//! or stays inside. Special files are described but never opened. Every answer is bounded.
//!
//! Theory of operation: a call is decoded, done and encoded on a blocking thread, so that neither a
//! slow disk nor 32 MiB of base64 hold up a connection. [`CALLS_MAX`] calls run at a time in the whole
//! process; further ones wait without a thread. A call whose connection is gone runs to its end, and
//! nobody hears of it. What a policy says about a path is asked of the process service.

mod copy;
mod directory;
mod failure;
mod guard;
mod handles;
mod held;
mod read;
mod remove;
mod resolve;
#[cfg(test)]
mod tests;
mod walk;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use turnlane_protocol::error::{ErrorObject, INTERNAL_ERROR};
use turnlane_protocol::exec_server::{file_uri, fs};
use turnlane_protocol::strict;

use failure::{Failure, Result};
use guard::Links;
use handles::Handles;

/// How many file calls run at a time, over all connections. Each may hold an answer of 43 MiB and a
/// thread; disks do not get faster from more.
const CALLS_MAX: usize = 8;

static CALLS: Semaphore = Semaphore::const_new(CALLS_MAX);

/// The files of one connection: its open handles. Dropping it closes them.
#[derive(Debug)]
pub(crate) struct Files {
    handles: Arc<Handles>,
    /// Paths that no call with a sandbox may touch.
    hidden: Arc<[PathBuf]>,
}

/// What answers a call: decoded params in, an encoded result out.
type Answer = fn(&Handles, &[PathBuf], Option<&RawValue>) -> Result<Box<RawValue>>;

/// Every method, and what answers it.
const METHODS: [(&str, Answer); 12] = [
    (fs::GET_METADATA, |_, hidden, p| {
        encoded(&read::metadata(&params(p)?, hidden)?)
    }),
    (fs::READ_FILE, |_, hidden, p| {
        read::whole(&params(p)?, hidden)
    }),
    (fs::WRITE_FILE, |_, hidden, p| {
        done(write::file(&params(p)?, hidden))
    }),
    (fs::CREATE_DIRECTORY, |_, hidden, p| {
        done(write::directory(&params(p)?, hidden))
    }),
    (fs::READ_DIRECTORY, |_, hidden, p| {
        encoded(&directory::list(&params(p)?, hidden)?)
    }),
    (fs::CANONICALIZE, |_, hidden, p| {
        encoded(&read::canonical(&params(p)?, hidden)?)
    }),
    (fs::REMOVE, |_, hidden, p| {
        done(remove::remove(&params(p)?, hidden))
    }),
    (fs::COPY, |_, hidden, p| {
        done(copy::copy(&params(p)?, hidden))
    }),
    (fs::WALK, |_, hidden, p| {
        encoded(&walk::walk(&params(p)?, hidden)?)
    }),
    (fs::OPEN, |handles, hidden, p| {
        encoded(&handles.open(params(p)?, hidden)?)
    }),
    (fs::READ_BLOCK, |handles, _, p| {
        encoded(&handles.read_block(&params(p)?)?)
    }),
    (fs::CLOSE, |handles, _, p| done(handles.close(&params(p)?))),
];

impl Files {
    /// No handle is open yet; calls with a sandbox never touch what is hidden.
    pub(crate) fn new(hidden: &[PathBuf]) -> Self {
        Self {
            handles: Arc::default(),
            hidden: hidden.into(),
        }
    }

    /// Whether `method` is answered here.
    pub(crate) fn knows(method: &str) -> bool {
        answer_of(method).is_some()
    }

    /// Answers one call with its encoded result.
    ///
    /// What was written is in the file when this returns, not on the disk. A future that is dropped
    /// while it waits for a thread has done nothing; later, the call runs to its end unheard.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: Option<Box<RawValue>>,
    ) -> std::result::Result<Box<RawValue>, ErrorObject> {
        let Some(answer) = answer_of(method) else {
            return Err(ErrorObject::bare(-32601, "not a method of files"));
        };
        let handles = Arc::clone(&self.handles);
        let hidden = Arc::clone(&self.hidden);
        let Ok(permit) = CALLS.acquire().await else {
            return Err(ErrorObject::bare(INTERNAL_ERROR, "file calls have ended"));
        };
        let call = tokio::task::spawn_blocking(move || {
            let result = answer(&handles, &hidden, params.as_deref()).map_err(ErrorObject::from);
            // Given back with the result: the thread is free by then and the next call takes it,
            // and no call is uncounted while its thread works, even if nobody waits any more.
            (result, permit)
        });
        match call.await {
            Ok((result, _permit)) => result,
            Err(_) => Err(ErrorObject::bare(INTERNAL_ERROR, "file call failed")),
        }
    }
}

fn answer_of(method: &str) -> Option<Answer> {
    METHODS
        .iter()
        .find_map(|(name, answer)| (*name == method).then_some(*answer))
}

/// The params of a call; absent ones are read as null.
fn params<T: DeserializeOwned>(raw: Option<&RawValue>) -> Result<T> {
    strict::read(raw.map_or("null", RawValue::get).as_bytes()).map_err(Failure::Params)
}

fn encoded<T: Serialize>(result: &T) -> Result<Box<RawValue>> {
    serde_json::value::to_raw_value(result)
        .map_err(|_| Failure::Internal("the answer cannot be encoded".into()))
}

/// The answer of a call that only succeeds.
fn done(result: Result<()>) -> Result<Box<RawValue>> {
    result.and_then(|()| encoded(&serde_json::Map::new()))
}

/// The path of a call.
fn local(uri: &str) -> Result<PathBuf> {
    file_uri::to_path(uri).map_err(Failure::Uri)
}

/// What `followSymlinks` means to calls that follow by default.
fn links(follow_symlinks: Option<bool>) -> Links {
    match follow_symlinks {
        Some(false) => Links::Refuse,
        Some(true) | None => Links::Follow,
    }
}
