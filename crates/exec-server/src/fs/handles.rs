//! Files of a connection that are open for reading in blocks.
//!
//! A handle is checked when it is opened and never again: what was allowed then is what is read. The
//! lock is held for look-ups only, never while a file is read.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use turnlane_process::Access;
use turnlane_protocol::exec_server::fs::{Handle, OpenParams, ReadBlockAnswer, ReadBlockParams};

use super::failure::{Failure, Result};
use super::guard::{Guard, Links};
use super::local;

/// How many files a connection may have open; one more is refused.
const HANDLES_MAX: usize = 128;
/// How long a client's name for one may be.
const ID_BYTES_MAX: usize = 32;
/// How much one call may read.
const BLOCK_BYTES_MAX: u64 = 1024 * 1024;

/// The open files of one connection.
#[derive(Debug, Default)]
pub(super) struct Handles {
    open: Mutex<HashMap<String, Arc<File>>>,
}

impl Handles {
    /// `fs/open`.
    pub(super) fn open(&self, params: OpenParams, hidden: &[PathBuf]) -> Result<Handle> {
        check(&params.handle_id)?;
        let path = local(&params.path)?;
        let guard = Guard::of(params.sandbox.as_ref(), hidden)?;
        let place = guard.hold(&path, Links::Follow, Access::Read)?;
        let file = Arc::new(place.held.to_read()?);
        let mut open = self.lock();
        let full = open.len() >= HANDLES_MAX;
        match open.entry(params.handle_id) {
            Entry::Occupied(taken) => Err(Failure::Invalid(
                format!("file read handle `{}` is already open", taken.key()).into(),
            )),
            Entry::Vacant(_) if full => Err(Failure::Invalid(
                format!("at most {HANDLES_MAX} file reads may be open per connection").into(),
            )),
            Entry::Vacant(free) => {
                let handle_id = free.key().clone();
                free.insert(file);
                Ok(Handle { handle_id })
            }
        }
    }

    /// `fs/readBlock`.
    pub(super) fn read_block(&self, params: &ReadBlockParams) -> Result<ReadBlockAnswer> {
        check(&params.handle_id)?;
        let len = usize::try_from(params.len)
            .ok()
            .filter(|_| (1..=BLOCK_BYTES_MAX).contains(&params.len));
        let Some(len) = len else {
            return Err(Failure::Invalid(
                format!("file read block length must be between 1 and {BLOCK_BYTES_MAX}").into(),
            ));
        };
        let Some(file) = self.lock().get(&params.handle_id).map(Arc::clone) else {
            return Err(Failure::NoHandle(params.handle_id.clone()));
        };
        let mut block = vec![0; len];
        let mut filled = 0;
        while filled < len {
            // What lies beyond the largest offset is beyond the end of every file.
            let Some(offset) = params.offset.checked_add(filled as u64) else {
                break;
            };
            match file.read_at(&mut block[filled..], offset) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        block.truncate(filled);
        Ok(ReadBlockAnswer {
            chunk: block.into(),
            eof: filled < len,
        })
    }

    /// `fs/close`; closing what is not open succeeds.
    pub(super) fn close(&self, handle: &Handle) -> Result<()> {
        check(&handle.handle_id)?;
        // Dropped after the lock: closing may wait for the file system.
        let closed = self.lock().remove(&handle.handle_id);
        drop(closed);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<File>>> {
        // A map of descriptors is whole after any panic.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check(handle_id: &str) -> Result<()> {
    if handle_id.len() > ID_BYTES_MAX {
        return Err(Failure::Invalid(
            format!("file read handle ID must not exceed {ID_BYTES_MAX} bytes").into(),
        ));
    }
    Ok(())
}
