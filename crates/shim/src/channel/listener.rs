//! A unix socket for any number of clients.
//!
//! The invariant here: under its name the socket never had another mode than 0600, a socket on which
//! another program answers is left alone, and our file is removed when the listener is dropped.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{
    Arrival, Closed, Connection, FRAME_BYTES_MAX, FrameDecoder, Framing, Outbox, SlowReader,
    connection,
};

/// Connections of the socket at once; further ones are closed.
const CLIENTS_MAX: usize = 64;

/// A socket that is served.
#[derive(Debug)]
pub(crate) struct Listener {
    path: PathBuf,
    /// Device and inode: what tells our file from a later one of the same name.
    identity: (u64, u64),
    accepting: JoinHandle<()>,
}

impl Listener {
    pub(super) async fn start(path: &Path, arrivals: mpsc::Sender<Arrival>) -> io::Result<Self> {
        if let Ok(metadata) = fs::symlink_metadata(path) {
            if !metadata.file_type().is_socket() {
                return Err(io::Error::new(
                    ErrorKind::AlreadyExists,
                    "the path is not a socket",
                ));
            }
            if UnixStream::connect(path).await.is_ok() {
                return Err(io::Error::new(
                    ErrorKind::AddrInUse,
                    "another program serves this socket",
                ));
            }
        }
        let (listener, identity) = bind(path)?;
        let accepting = tokio::spawn(async move {
            let to_loop = arrivals.clone();
            let accepted = connection::unless_panicked(accept(listener, arrivals)).await;
            if accepted.is_none() {
                let _ = to_loop.send(Arrival::Closed(0, Closed::Panicked)).await;
            }
        });
        Ok(Self {
            path: path.to_owned(),
            identity,
            accepting,
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds in a directory that only we can enter, and moves the socket to its name.
fn bind(path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let name = uuid::Uuid::now_v7().simple().to_string();
    let staging = directory.join(format!(".{}", &name[20..]));
    DirBuilder::new().mode(0o700).create(&staging)?;
    let staged = staging.join("s");
    let bound = UnixListener::bind(&staged).and_then(|listener| {
        fs::set_permissions(&staged, Permissions::from_mode(0o600))?;
        let metadata = fs::symlink_metadata(&staged)?;
        fs::rename(&staged, path)?;
        Ok((listener, (metadata.dev(), metadata.ino())))
    });
    let _ = fs::remove_file(&staged);
    let _ = fs::remove_dir(&staging);
    bound
}

async fn accept(listener: UnixListener, arrivals: mpsc::Sender<Arrival>) {
    let mut id = 0;
    let mut outboxes: Vec<std::sync::Weak<Outbox>> = Vec::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Descriptors may be short for a moment.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        outboxes.retain(|outbox| outbox.strong_count() > 0);
        if outboxes.len() >= CLIENTS_MAX {
            tracing::warn!("a client of the socket was turned away: {CLIENTS_MAX} are connected");
            continue;
        }
        id += 1;
        let outbox = Arc::new(Outbox::new(SlowReader::Dropped));
        outboxes.push(Arc::downgrade(&outbox));
        let connection = Connection {
            id,
            outbox,
            frame_bytes_max: FRAME_BYTES_MAX,
        };
        let (reader, writer) = stream.into_split();
        let decoder = FrameDecoder::new(Framing::Detected);
        connection::start(connection, reader, writer, decoder, &arrivals).await;
    }
}
