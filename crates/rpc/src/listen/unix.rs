//! A socket file that only we can use, never takes another's place, and goes when we go.
//!
//! Three things could go wrong with a socket file, and each has one answer here:
//!
//! - *Others connect before its mode is set.* The socket is bound inside a fresh directory of mode
//!   0700, gets its mode there, and is then renamed to its place: under its real name it never had
//!   another mode. No process-wide umask is touched.
//! - *Two servers start at once, or one starts while another runs.* A lock on `PATH.lock` is held
//!   as long as the socket is served; the system gives it back however we end. The lock file stays:
//!   removing it would let two processes hold locks on two files of the same name.
//! - *A server that knows nothing of the lock is there.* It is asked: a socket on which somebody
//!   answers is left alone, one that refuses is a leftover of the dead and is replaced.
//!
//! And one after the start: *somebody deletes the file.* The listener looks every [`LOOK_EVERY`] and
//! makes the file again, unless another server has taken its place.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
    PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use super::ListenError;
use crate::private_path::{create_private_dir, folder_of, random_name};

/// Who does not answer in this time is slow, not dead.
const PROBE_TIME_MAX: Duration = Duration::from_secs(1);
/// How often a listener looks whether its socket file is there.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// In such a directory, like `/tmp`, others may add files but not replace ours.
const STICKY: u32 = 0o1000;

/// A listening unix socket; dropping it removes its file.
#[derive(Debug)]
pub(super) struct UnixSocket {
    pub(super) listener: UnixListener,
    /// Who we are; peers must be the same.
    pub(super) uid: u32,
    file: SocketFile,
}

#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode: what tells our file from a later one of the same name.
    identity: (u64, u64),
    /// Given back after the file is gone.
    lock: File,
}

impl UnixSocket {
    /// Serves `path`, whose directory is made if it does not exist.
    pub(super) async fn bind(path: &Path) -> Result<Self, ListenError> {
        let fail = |source| ListenError::Bind {
            on: path.display().to_string(),
            source,
        };
        if std::os::unix::net::SocketAddr::from_pathname(path).is_err() {
            let path = path.to_owned();
            return Err(ListenError::PathTooLong { path });
        }
        let directory = folder_of(path);
        create_private_dir(directory).map_err(fail)?;
        let staging = Staging::create_in(directory).map_err(fail)?;
        check_directory(directory, staging.uid).map_err(fail)??;
        let lock = lock(path).map_err(fail)??;
        probe(path).await?;

        let (listener, identity) = staging.place(path).map_err(fail)?;
        Ok(Self {
            listener,
            uid: staging.uid,
            file: SocketFile {
                path: path.to_owned(),
                identity,
                lock,
            },
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Makes the socket file again if it was deleted.
    pub(super) fn restore(&mut self) -> io::Result<Restored> {
        let path = self.file.path.clone();
        match fs::symlink_metadata(&path) {
            Ok(_) => return Ok(Restored::NotNeeded),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let directory = folder_of(&path);
        create_private_dir(directory)?;
        // The lock file may have been deleted too; then its lock says nothing to others.
        if !self.file.holds_lock() {
            match lock(&path)? {
                Ok(lock) => self.file.lock = lock,
                Err(_) => return Ok(Restored::Elsewhere),
            }
        }
        let staging = Staging::create_in(directory)?;
        if check_directory(directory, staging.uid)?.is_err() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (listener, identity) = staging.place(&path)?;
        self.listener = listener;
        self.file.identity = identity;
        Ok(Restored::Again)
    }
}

/// What became of a socket file that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restored {
    NotNeeded,
    Again,
    /// Another server holds the lock of this name.
    Elsewhere,
}

impl SocketFile {
    /// Whether the lock file of our name is the one we hold.
    fn holds_lock(&self) -> bool {
        let held = self.lock.metadata();
        let held = held.map(|metadata| (metadata.dev(), metadata.ino()));
        matches!((identity(&lock_path(&self.path)), held), (Ok(there), Ok(held)) if there == held)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another may have replaced our file; what is there now is then not ours to remove.
        if identity(&self.path).is_ok_and(|found| found == self.identity)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "socket file not removed");
        }
    }
}

/// A directory only we can enter, gone when dropped.
struct Staging {
    path: PathBuf,
    /// The owner of what we make, which is us.
    uid: u32,
}

impl Staging {
    fn create_in(directory: &Path) -> io::Result<Self> {
        let path = directory.join(random_name()?);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        let uid = fs::metadata(&path)?.uid();
        Ok(Self { path, uid })
    }

    /// Binds a socket in here and moves it to its place.
    fn place(&self, path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
        let staged = self.path.join("s");
        let listener = UnixListener::bind(&staged)?;
        fs::set_permissions(&staged, fs::Permissions::from_mode(0o600))?;
        let identity = identity(&staged)?;
        fs::rename(&staged, path)?;
        Ok((listener, identity))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Only still there when something failed before the rename.
        let _ = fs::remove_file(self.path.join("s"));
        let _ = fs::remove_dir(&self.path);
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Whoever may write to the directory may rename our socket away and put up one of their own,
/// and our clients would talk to it.
fn check_directory(directory: &Path, uid: u32) -> io::Result<Result<(), ListenError>> {
    let metadata = fs::metadata(directory)?;
    let mode = metadata.mode() & 0o7777;
    let owned = metadata.uid() == uid || metadata.uid() == 0;
    if owned && (mode & WRITABLE_BY_OTHERS == 0 || mode & STICKY != 0) {
        return Ok(Ok(()));
    }
    Ok(Err(ListenError::UnsafeDirectory {
        path: directory.to_owned(),
        mode,
        uid: metadata.uid(),
    }))
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn lock(path: &Path) -> io::Result<Result<File, ListenError>> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(lock_path(path))?;
    match file.try_lock() {
        Ok(()) => Ok(Ok(file)),
        Err(TryLockError::WouldBlock) => Ok(Err(ListenError::AlreadyServed {
            path: path.to_owned(),
        })),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether the name is free, or was left by somebody who is gone.
async fn probe(path: &Path) -> Result<(), ListenError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {}
        Ok(_) => {
            let path = path.to_owned();
            return Err(ListenError::NotASocket { path });
        }
        // What else is wrong with the path, binding will tell.
        Err(_) => return Ok(()),
    }
    match timeout(PROBE_TIME_MAX, UnixStream::connect(path)).await {
        Ok(Err(error)) => match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(()),
            // Its queue of connections is full, so somebody keeps it.
            io::ErrorKind::WouldBlock => Err(ListenError::AlreadyServed {
                path: path.to_owned(),
            }),
            _ => Err(ListenError::Bind {
                on: path.display().to_string(),
                source: error,
            }),
        },
        Ok(Ok(_)) | Err(_) => Err(ListenError::AlreadyServed {
            path: path.to_owned(),
        }),
    }
}
