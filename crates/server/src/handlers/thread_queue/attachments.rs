//! Files that a queued turn names, kept with it until it is gone.
//!
//! A turn may wait for days, and the file its sender meant may change or vanish meanwhile; so it is
//! copied when the row is added, to `attachments/<row id>/` in our folder, and the row names the copy.
//! The invariant here: a row that is on disk has its copies on disk; copies without a row are
//! removed, at once where we know it and by [`sweep`] where a crash came between.
//!
//! How files are copied and made durable is in `copy`. What an engine makes of a file is its business.

mod copy;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::ids::{QueuedTurnId, ThreadId};
use turnlane_protocol::input::UserInput;
use turnlane_runtime::store::queue::{Row, RowState};
use turnlane_runtime::store::{Store, StoreError};

use crate::connection::Connection;
use crate::server::Shared;
use copy::{RowDirectory, SystemSync, THREAD, copy_all};

/// The folder of all copies, in our own.
const FOLDER: &str = "attachments";
/// How often leftovers are looked for, and how old they are by then.
const SWEEP_EVERY_MS: i64 = 60 * 60 * 1_000;
/// How many folders one look goes through.
const SWEEP_MAX: usize = 10_000;

/// When leftovers were last looked for.
#[derive(Default)]
pub(crate) struct Swept(AtomicI64);

/// The files that parts of an input name.
fn files(input: &mut [UserInput]) -> impl Iterator<Item = &mut String> {
    input.iter_mut().filter_map(|part| match part {
        UserInput::LocalImage { path, .. } | UserInput::LocalAudio { path } => Some(path),
        UserInput::Text { .. }
        | UserInput::Image(_)
        | UserInput::Audio { .. }
        | UserInput::Skill { .. }
        | UserInput::Mention { .. } => None,
    })
}

/// Whether an input names files that are to be kept.
pub(super) fn names_files(input: &[UserInput]) -> bool {
    let is_file = |part: &UserInput| {
        matches!(
            part,
            UserInput::LocalImage { .. } | UserInput::LocalAudio { .. }
        )
    };
    input.iter().any(is_file)
}

/// Copies the files of an input for this row; the input with the copies in their place.
///
/// The copies are on disk when this returns. Refused, nothing of them is left.
pub(super) async fn keep(
    cx: &Arc<Connection>,
    thread: ThreadId,
    row: QueuedTurnId,
    mut input: Vec<UserInput>,
) -> Result<Vec<UserInput>, ErrorObject> {
    begin_sweep(cx.shared());
    let home = cx.shared().options.home.clone();
    let to = RowDirectory {
        all: home.join(FOLDER),
        row: folder(cx.shared(), row),
        home,
    };
    let now_ms = cx.shared().options.clock.now_ms();
    let copying = tokio::task::spawn_blocking(move || {
        let is_new = !to.row.exists();
        let copied = copy_all(&SystemSync, &to, thread, now_ms, files(&mut input));
        if copied.is_err() && is_new {
            drop(fs::remove_dir_all(&to.row));
        }
        copied.map(|()| input)
    });
    let copied = copying
        .await
        .map_err(|_| ErrorObject::internal("copying a queued attachment failed"))?;
    copied.map_err(|error| ErrorObject::invalid_attachment(&error.to_string()))
}

/// Removes what was copied for a row that is not there; returns at once.
pub(super) fn forget(shared: &Shared, row: QueuedTurnId) {
    let folder = folder(shared, row);
    // Most rows have none, and removing what is not there is no failure.
    drop(tokio::task::spawn_blocking(move || {
        fs::remove_dir_all(folder)
    }));
}

/// The directories with copies of files that queued turns of this thread named when they were added.
/// Blocks.
pub fn of_thread(home: &Path, thread: ThreadId) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(home.join(FOLDER)) else {
        return Vec::new();
    };
    let of_thread = |directory: &PathBuf| {
        let named = fs::read_to_string(directory.join(THREAD)).ok();
        named.and_then(|text| text.trim().parse().ok()) == Some(thread)
    };
    let directories = entries.flatten().take(SWEEP_MAX).map(|entry| entry.path());
    directories.filter(of_thread).collect()
}

/// Those of these directories whose row has not moved to the successor of the thread.
pub async fn still_of_thread(
    store: &dyn Store,
    thread: ThreadId,
    mut directories: Vec<PathBuf>,
) -> Vec<PathBuf> {
    let mut moved = Vec::new();
    for directory in &directories {
        let name = directory.file_name().and_then(|name| name.to_str());
        let Some(row) = name.and_then(|name| name.parse::<QueuedTurnId>().ok()) else {
            continue;
        };
        match store.thread_of_row(row.as_uuid().into()).await {
            Ok(Some(found)) if found.as_uuid() != thread.as_uuid() => moved.push(directory.clone()),
            Ok(_) => {}
            // What cannot be looked up is kept; a later sweep removes it.
            Err(_) => moved.push(directory.clone()),
        }
    }
    directories.retain(|directory| !moved.contains(directory));
    directories
}

/// Removes what was copied for the queued turns of a thread that was deleted. Blocks.
pub fn remove_of_thread(directories: &[PathBuf]) {
    for directory in directories {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let path = directory.display();
                tracing::warn!(%error, "cannot remove {path}, which a deleted thread left");
            }
            _ => {}
        }
    }
}

fn folder(shared: &Shared, row: QueuedTurnId) -> PathBuf {
    let all = shared.options.home.join(FOLDER);
    all.join(row.to_string())
}

/// Looks for leftovers, unless somebody has done so of late.
fn begin_sweep(shared: &Arc<Shared>) {
    let now_ms = shared.options.clock.now_ms();
    let last = shared.swept.0.load(Ordering::Relaxed);
    let due = now_ms.saturating_sub(last) >= SWEEP_EVERY_MS;
    let mine = || {
        let swap =
            shared
                .swept
                .0
                .compare_exchange(last, now_ms, Ordering::Relaxed, Ordering::Relaxed);
        swap.is_ok()
    };
    if due && mine() {
        let shared = Arc::clone(shared);
        tokio::spawn(async move { sweep(&shared, now_ms).await });
    }
}

/// Removes the copies of rows that are gone or were deleted.
async fn sweep(shared: &Shared, now_ms: i64) {
    let all = shared.options.home.join(FOLDER);
    let listing = tokio::task::spawn_blocking(move || leftovers(&all, now_ms)).await;
    for row in listing.unwrap_or_default() {
        match stored(shared, row).await {
            Ok(Some(found)) if !matches!(found.state, RowState::Cancelled | RowState::Dead) => {}
            Ok(_) => forget(shared, row),
            // Whoever looks next may know.
            Err(_) => return,
        }
    }
}

/// The row of some copies, in whatever lane it is by now.
async fn stored(shared: &Shared, row: QueuedTurnId) -> Result<Option<Row>, StoreError> {
    let (store, row) = (shared.options.runtime.store(), row.as_uuid().into());
    match store.thread_of_row(row).await? {
        Some(thread) => store.row(thread, row).await,
        None => Ok(None),
    }
}

/// Rows with copies that are old enough for the row to be on disk, if it ever came there.
fn leftovers(all: &Path, now_ms: i64) -> Vec<QueuedTurnId> {
    let Ok(entries) = fs::read_dir(all) else {
        return Vec::new();
    };
    let found = entries.flatten().take(SWEEP_MAX).filter_map(|entry| {
        let row: QueuedTurnId = entry.file_name().to_str()?.parse().ok()?;
        let (seconds, _) = row.as_uuid().get_timestamp()?.to_unix();
        let made_ms = i64::try_from(seconds).ok()?.checked_mul(1_000)?;
        let thread = fs::read_to_string(entry.path().join(THREAD)).ok()?;
        let is_ours = thread.trim().parse::<ThreadId>().is_ok();
        let is_old = made_ms.saturating_add(SWEEP_EVERY_MS) < now_ms;
        (is_ours && is_old).then_some(row)
    });
    found.collect()
}
