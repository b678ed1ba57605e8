//! What is at a path, and what is in a file.
//!
//! A file is encoded while it is read: base64 of 32 MiB exists once, as the answer itself.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use turnlane_process::Access;
use turnlane_protocol::exec_server::file_uri;
use turnlane_protocol::exec_server::fs::{CanonicalizeAnswer, Metadata, PathParams};

use super::failure::{Failure, Result};
use super::guard::{Guard, Links};
use super::{links, local};

/// The largest file that is told in one answer.
const FILE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How much is read before it is encoded; a multiple of three, so that pieces need no padding.
const PIECE_BYTES: usize = 3 * 64 * 1024;

/// The answer around the content of a file.
const BEFORE: &str = r#"{"dataBase64":""#;
const AFTER: &str = r#""}"#;

/// `fs/getMetadata`.
pub(super) fn metadata(params: &PathParams, hidden: &[PathBuf]) -> Result<Metadata> {
    let path = local(&params.path)?;
    let guard = Guard::of(params.sandbox.as_ref(), hidden)?;
    let place = guard.hold(&path, links(params.follow_symlinks), Access::Read)?;
    let by_link = if guard.is_unrestricted() {
        path.symlink_metadata()?.is_symlink()
    } else {
        place.by_link
    };
    let found = place.held.metadata();
    Ok(Metadata {
        is_directory: found.is_dir(),
        is_file: found.is_file(),
        is_symlink: by_link || found.is_symlink(),
        size: found.len(),
        created_at_ms: found.created().map_or(0, since_1970_ms),
        modified_at_ms: found.modified().map_or(0, since_1970_ms),
    })
}

fn since_1970_ms(time: SystemTime) -> i64 {
    let (distance, sign) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after, 1),
        Err(before) => (before.duration(), -1),
    };
    i64::try_from(distance.as_millis()).map_or(0, |ms| sign * ms)
}

/// `fs/canonicalize`.
pub(super) fn canonical(params: &PathParams, hidden: &[PathBuf]) -> Result<CanonicalizeAnswer> {
    let path = local(&params.path)?;
    let guard = Guard::of(params.sandbox.as_ref(), hidden)?;
    let resolved = if guard.is_unrestricted() {
        path.canonicalize()?
    } else {
        guard.hold(&path, Links::Follow, Access::Read)?.path
    };
    Ok(CanonicalizeAnswer {
        path: file_uri::from_path(&resolved),
    })
}

/// `fs/readFile`.
pub(super) fn whole(params: &PathParams, hidden: &[PathBuf]) -> Result<Box<RawValue>> {
    let path = local(&params.path)?;
    let guard = Guard::of(params.sandbox.as_ref(), hidden)?;
    let place = guard.hold(&path, links(params.follow_symlinks), Access::Read)?;
    let file = place.held.to_read()?;
    let size = usize::try_from(place.held.metadata().len()).unwrap_or(usize::MAX);
    if size > FILE_BYTES_MAX {
        return Err(too_large());
    }
    let mut answer = String::with_capacity(BEFORE.len() + size.div_ceil(3) * 4 + AFTER.len());
    answer.push_str(BEFORE);
    encode(file, &mut answer)?;
    answer.push_str(AFTER);
    RawValue::from_string(answer)
        .map_err(|_| Failure::Internal("the answer cannot be encoded".into()))
}

/// Appends a whole file to the answer. Its size may be a lie (`/proc`) or change meanwhile.
fn encode(mut file: File, answer: &mut String) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut total = 0;
    loop {
        let filled = fill(&mut file, &mut piece)?;
        total += filled;
        if total > FILE_BYTES_MAX {
            return Err(too_large());
        }
        STANDARD.encode_string(&piece[..filled], answer);
        if filled < piece.len() {
            return Ok(());
        }
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

fn too_large() -> Failure {
    Failure::Invalid("file too large for fs/readFile".into())
}
