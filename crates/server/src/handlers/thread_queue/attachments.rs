//! Files that a queued turn names, kept with it until it is gone.
//!
//! A turn may wait for days, and the file its sender meant may change or vanish meanwhile; so it is
//! copied when the row is added, to `attachments/<row id>/` in our folder, and the row names the copy.
//! The invariant here: a row that is on disk has its copies on disk; copies without a row are
//! removed, at once where we know it and by [`sweep`] where a crash came between.
//!
//! What an engine makes of a file is its business.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::ids::{QueuedTurnId, ThreadId};
use turnlane_protocol::input::UserInput;
use turnlane_runtime::store::queue::RowState;

use crate::connection::Connection;
use crate::server::Shared;

/// The folder of all copies, in our own.
const FOLDER: &str = "attachments";
/// In the folder of a row: the thread that it is in.
const THREAD: &str = "thread";
/// How much one row may have copied; what is longer no model takes.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
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
    let folder = folder(cx.shared(), row);
    let now_ms = cx.shared().options.clock.now_ms();
    let copying = tokio::task::spawn_blocking(move || {
        let is_new = !folder.exists();
        let copied = copy_all(&folder, thread, now_ms, &mut input);
        if copied.is_err() && is_new {
            drop(fs::remove_dir_all(&folder));
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

fn folder(shared: &Shared, row: QueuedTurnId) -> PathBuf {
    let all = shared.options.home.join(FOLDER);
    all.join(row.to_string())
}

fn copy_all(
    folder: &Path,
    thread: ThreadId,
    now_ms: i64,
    input: &mut [UserInput],
) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    fs::write(folder.join(THREAD), thread.to_string())?;
    let mut room = BYTES_MAX;
    for path in files(input) {
        let from = Path::new(path.as_str());
        // Anything else, such as a pipe, might never end.
        if !fs::metadata(from)?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let name = QueuedTurnId::new(u64::try_from(now_ms).unwrap_or(0)).to_string();
        let mut to = folder.join(name);
        if let Some(extension) = from.extension() {
            to.set_extension(extension);
        }
        // One byte more tells that it is too long.
        let mut source = fs::File::open(from)?.take(room + 1);
        let mut copy = fs::File::create_new(&to)?;
        let bytes = io::copy(&mut source, &mut copy)?;
        room = room.checked_sub(bytes).ok_or_else(|| {
            io::Error::other(format!("files are larger than {BYTES_MAX} bytes together"))
        })?;
        copy.sync_all()?;
        *path = to
            .into_os_string()
            .into_string()
            .map_err(|_| io::Error::other("the path is not text"))?;
    }
    fs::File::open(folder)?.sync_all()
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
    for (thread, row) in listing.unwrap_or_default() {
        let store = shared.options.runtime.store();
        let found = store.row(thread.as_uuid().into(), row.as_uuid().into());
        match found.await {
            Ok(Some(found)) if !matches!(found.state, RowState::Cancelled | RowState::Dead) => {}
            Ok(_) => forget(shared, row),
            // Whoever looks next may know.
            Err(_) => return,
        }
    }
}

/// Rows with copies that are old enough for the row to be on disk, if it ever came there.
fn leftovers(all: &Path, now_ms: i64) -> Vec<(ThreadId, QueuedTurnId)> {
    let Ok(entries) = fs::read_dir(all) else {
        return Vec::new();
    };
    let found = entries.flatten().take(SWEEP_MAX).filter_map(|entry| {
        let row: QueuedTurnId = entry.file_name().to_str()?.parse().ok()?;
        let (seconds, _) = row.as_uuid().get_timestamp()?.to_unix();
        let made_ms = i64::try_from(seconds).ok()?.checked_mul(1_000)?;
        let thread = fs::read_to_string(entry.path().join(THREAD)).ok()?;
        let is_old = made_ms.saturating_add(SWEEP_EVERY_MS) < now_ms;
        is_old.then_some((thread.parse().ok()?, row))
    });
    found.collect()
}
