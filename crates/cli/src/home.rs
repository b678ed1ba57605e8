//! `$TURNLANE_HOME`: where our configuration, tokens and database are.
//!
//! The invariant here: a command gets the path of a home from [`open`], which refuses one that other
//! users control. Only `turnlane doctor` looks at a home that was refused.

pub(crate) mod trust;

use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use rustix::fs::{Access, access};
use turnlane_store::StoreError;
use turnlane_store::sqlite::ROOM_NEEDED_BYTES;

use trust::Kind;

/// The folder `$TURNLANE_HOME` names, else `.turnlane` in the user's home. It may not exist.
pub(crate) fn find() -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os("TURNLANE_HOME").filter(|given| !given.is_empty()) {
        let given = PathBuf::from(given);
        if given.is_relative() {
            bail!(
                "TURNLANE_HOME must be an absolute path: {}",
                given.display()
            );
        }
        return Ok(given);
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.context("neither TURNLANE_HOME nor HOME is set; set TURNLANE_HOME")?;
    Ok(Path::new(&home).join(".turnlane"))
}

/// The home directory, if it can be trusted: see [`trust`]. It may not exist.
pub(crate) fn open() -> anyhow::Result<PathBuf> {
    let home = find()?;
    check(&home)?;
    Ok(home)
}

/// Refuses a home directory that other users control, wholly or in one of its files.
pub(crate) fn check(home: &Path) -> Result<(), trust::Fault> {
    trust::faults(home).into_iter().next().map_or(Ok(()), Err)
}

/// The folder `$CODEX_HOME` names, else `.codex` in the user's home; none where there is neither.
pub(crate) fn codex() -> Option<PathBuf> {
    let given = std::env::var_os("CODEX_HOME").filter(|given| !given.is_empty());
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".codex"));
    given.map(PathBuf::from).or_else(home)
}

/// The socket by which a server of a home is found.
pub(crate) fn socket(home: &Path) -> PathBuf {
    home.join("run/app-server.sock")
}

/// The socket on which a daemon with this pid is reached while it stops.
pub(crate) fn drain_socket(home: &Path, pid: u32) -> PathBuf {
    home.join(format!("run/drain-{pid}.sock"))
}

/// The pid in the name of a drain socket or of its lock file.
pub(crate) fn drain_pid(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("drain-")?;
    let (pid, rest) = rest.split_once('.')?;
    matches!(rest, "sock" | "sock.lock").then(|| pid.parse().ok())?
}

/// The token of a home's websockets.
pub(crate) fn token(home: &Path) -> PathBuf {
    home.join("token")
}

/// Paths that no sandboxed command may see: this home with its token, keys and conversations, and the
/// login of Codex.
pub(crate) fn hidden(home: &Path, codex_home: Option<&Path>) -> Vec<PathBuf> {
    let login = codex_home.map(|codex| codex.join("auth.json"));
    std::iter::once(home.to_owned()).chain(login).collect()
}

/// Where shims remember what they have reported.
pub(crate) fn shim(home: &Path) -> PathBuf {
    home.join("shim")
}

/// Where the process service remembers what it made outside of the home.
pub(crate) fn process_state(home: &Path) -> PathBuf {
    home.join("run/process")
}

/// Makes the folder, for its owner only, if it does not exist.
pub(crate) fn make(home: &Path) -> anyhow::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(home)
        .with_context(|| format!("cannot make the folder {}", home.display()))?;
    // After it was made: another user may have been faster in a directory that both can write.
    Ok(trust::check(home, Kind::Directory)?)
}

/// What to type when a path cannot be written.
fn mend(path: &Path) -> String {
    let name = trust::quoted(path);
    let me = rustix::process::geteuid().as_raw();
    match std::fs::symlink_metadata(path).map(|found| found.uid()) {
        Ok(owner) if owner != me => format!(
            "it belongs to user {owner}: run turnlane as that user, or take it over with \
             `sudo chown {me} {name}`"
        ),
        Ok(_) | Err(_) => format!("make it writable with `chmod u+rwX {name}`"),
    }
}

/// What to do about a database that cannot be used as it is.
pub(crate) fn advice(error: &anyhow::Error) -> Option<&'static str> {
    match error.downcast_ref()? {
        StoreError::NoSchema { .. } => Some(
            "keep a copy of the file, and put a backup made by `turnlane store backup` in its place",
        ),
        _ => None,
    }
}

/// The same error with what to do about it, where the folder cannot be written in.
pub(crate) fn explained(error: anyhow::Error, home: &Path) -> anyhow::Error {
    let writable = "make it writable, or name another folder in TURNLANE_HOME";
    let needed = ROOM_NEEDED_BYTES >> 20;
    let room = format!("free some space ({needed} MiB or more) and repeat the command");
    if let Some(StoreError::DiskFull { .. }) = error.downcast_ref() {
        // The first of the chain is what was tried, the rest is the database's way to say it.
        return anyhow!("{error}: the disk is full; {room}");
    }
    if let Some(StoreError::NotWritable { path, source }) = error.downcast_ref() {
        let denied = source
            .downcast_ref::<io::Error>()
            .is_some_and(|system| system.kind() == ErrorKind::PermissionDenied);
        if denied {
            let shown = path.display();
            let mend = mend(path);
            return anyhow!("cannot write {shown}: {source}\n  {mend}");
        }
    }
    if let Some(next) = advice(&error) {
        return anyhow!("{error:#}\n  {next}");
    }
    let system = error.chain().find_map(|cause| cause.downcast_ref());
    match system.map(io::Error::kind) {
        Some(ErrorKind::StorageFull) => anyhow!("{error:#}; {room}"),
        Some(ErrorKind::ReadOnlyFilesystem) => anyhow!("{error:#}; {writable}"),
        // A permission that was denied may be another one than to write here.
        Some(_) | None => match access(home, Access::WRITE_OK) {
            Ok(()) => error,
            Err(why) => {
                let why = io::Error::from(why);
                anyhow!("cannot write in {}: {why}; {writable}", home.display())
            }
        },
    }
}
