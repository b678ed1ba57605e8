//! Where a suite runs: databases that are opened by several workers, who may die.
//!
//! The invariant here: a test sees a backend only through [`Backend`], so a further one needs an
//! implementation here and a line in each of the two macros below, and every test runs on it. One
//! database belongs to one test and is gone with it.
//!
//! What only one backend can do (a full disk, a newer schema) is tested in a file of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use turnlane_store::sqlite::{Options, SqliteStore};
use turnlane_store::{Store, Worker};
use turnlane_testkit::wait::{DEADLINE, eventually};

/// Runs tests that need several workers: on each backend that can be shared.
macro_rules! on_many_workers {
    ($($test:ident),* $(,)?) => {
        $crate::backend::run_on!(sqlite, $crate::backend::SqliteFile::new(); $($test),*);
    };
}

/// Runs tests that need one worker: on each backend.
macro_rules! on_one_worker {
    ($($test:ident),* $(,)?) => {
        $crate::backend::run_on!(sqlite_alone, $crate::backend::SqliteFile::new(); $($test),*);
        $crate::backend::run_on!(memory_alone, $crate::backend::SqliteMemory; $($test),*);
    };
}

/// Runs tests on one backend, in a module of its name.
macro_rules! run_on {
    ($backend:ident, $database:expr; $($test:ident),*) => {
        mod $backend {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test($crate::build::Db::on($database)).await;
                }
            )*
        }
    };
}

pub(crate) use {on_many_workers, on_one_worker, run_on};

/// One database.
pub(crate) trait Backend: Send + Sync {
    /// Opens it as this worker; each further call is another process's view of it.
    fn open(&self, worker: Worker) -> LocalBoxFuture<'_, Arc<dyn Store>>;

    /// Ends a worker as `kill -9` does: without a word to the database. When it has ended, the
    /// others can see that the worker is dead.
    fn die(&self, store: Arc<dyn Store>) -> LocalBoxFuture<'_, ()>;
}

/// A database file that several workers share.
pub(crate) struct SqliteFile {
    folder: PathBuf,
    /// Removes the directory, where it belongs to the test.
    _owned: Option<tempfile::TempDir>,
    readers: Option<usize>,
}

impl SqliteFile {
    /// An empty one, in memory where the system has a file system there: what survives a loss of
    /// power is not asked here, and syncs are what takes time.
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        let owned = folder.unwrap();
        Self {
            folder: owned.path().to_owned(),
            _owned: Some(owned),
            readers: None,
        }
    }

    /// In a directory of the caller.
    pub(crate) fn within(directory: &Path) -> Self {
        Self {
            folder: directory.to_owned(),
            _owned: None,
            readers: None,
        }
    }

    /// As little as works: for tests that open thousands of them.
    pub(crate) fn small() -> Self {
        Self {
            readers: Some(1),
            ..Self::new()
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("turnlane.db")
    }
}

impl Backend for SqliteFile {
    fn open(&self, worker: Worker) -> LocalBoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async move {
            let mut options = Options::new(self.path(), worker);
            options.readers = self.readers.unwrap_or(options.readers);
            Arc::new(SqliteStore::open(options).unwrap()) as Arc<dyn Store>
        })
    }

    fn die(&self, store: Arc<dyn Store>) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            let folder = self.folder.join("turnlane.db.workers");
            let lock = folder.join(store.worker().to_string());
            assert_eq!(
                Arc::strong_count(&store),
                1,
                "somebody else holds the store"
            );
            drop(store);
            let is_free = || File::open(&lock).is_ok_and(|file| file.try_lock_shared().is_ok());
            // Mostly it is in a moment, and some tests kill thousands.
            let soon = (0..1_000).any(|_| {
                std::thread::yield_now();
                is_free()
            });
            let free = async || soon || is_free();
            eventually("the worker's lock to be free", DEADLINE, free)
                .await
                .unwrap();
        })
    }
}

/// A database that only one worker sees.
pub(crate) struct SqliteMemory;

impl Backend for SqliteMemory {
    fn open(&self, worker: Worker) -> LocalBoxFuture<'_, Arc<dyn Store>> {
        Box::pin(
            async move { Arc::new(SqliteStore::open_in_memory(worker).unwrap()) as Arc<dyn Store> },
        )
    }

    fn die(&self, store: Arc<dyn Store>) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move { drop(store) })
    }
}
