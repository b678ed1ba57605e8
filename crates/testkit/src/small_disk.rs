//! A small disk of a test's own, which can really be full, or read-only.
//!
//! The invariant here: the disk is a file system in memory that exists in one child alone, in a
//! namespace of its own; it is gone with the child, and nobody else ever sees it. It needs no rights,
//! but a system that lets users have namespaces: where it does not, the test says that it was skipped.
//!
//! A test that wants one is run twice: as itself it only starts the child and looks at how that ended,
//! and in the child, which is the same test of the same binary, it has a [`SmallDisk`].

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::wait::DEADLINE;
use crate::{Error, ProcessSpec, TestProcess, skipped};

/// Set in the child: the folder that is the disk.
const FOLDER: &str = "TURNLANE_SMALL_DISK";

/// Mounts the disk and becomes the test.
const CHILD: &str = "mount -t tmpfs -o size=\"$2\" none \"$1\" || exit 77
    TMPDIR=\"$1\" TURNLANE_SMALL_DISK=\"$1\" exec \"$3\" --exact \"$4\" --nocapture";

/// The disk, in the child. Temporary files are made on it.
#[derive(Debug)]
pub struct SmallDisk {
    folder: PathBuf,
}

/// Which test wants a disk, and how big it is to be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// `module_path!()` where the test is.
    pub module: &'static str,
    /// The test's function.
    pub test: &'static str,
    /// The size. It costs memory when it is filled.
    pub mebibytes: u32,
}

impl SmallDisk {
    /// The disk, or `None` where the child has been run and has passed, or cannot be run here.
    ///
    /// An error is a child that did not pass, with what it said.
    pub async fn of(wanted: Wanted) -> Result<Option<Self>, Error> {
        if let Some(folder) = std::env::var_os(FOLDER) {
            let folder = PathBuf::from(folder);
            return Ok(Some(Self { folder }));
        }
        let folder = tempfile::tempdir().map_err(Error::doing("make a temporary folder"))?;
        let binary = std::env::current_exe().map_err(Error::doing("find the test's binary"))?;
        // The name within the binary is without the crate's.
        let module = wanted.module.split_once("::").map_or("", |(_, rest)| rest);
        let child = ProcessSpec::new("/usr/bin/env")
            .args(["unshare", "--user", "--map-root-user", "--mount"])
            .args(["/bin/sh", "-c", CHILD, "sh"])
            .args([folder.path().as_os_str()])
            .args([format!("{}m", wanted.mebibytes)])
            .args([binary])
            .args([format!("{module}::{}", wanted.test)])
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // Snapshots are found by it where the user of the tests has no cargo to ask.
        let root = "INSTA_WORKSPACE_ROOT";
        let child = match std::env::var_os(root) {
            Some(path) => child.env(root, path),
            None => child,
        };
        let output = TestProcess::run(child, DEADLINE).await?;
        let said = String::from_utf8_lossy(&output.stdout);
        // 101 is a failed test; anything else is a system without `unshare`, or that forbids it.
        match output.status.code() {
            Some(0) if said.contains("1 passed") => Ok(None),
            Some(0 | 101) | None => Err(Error::Over {
                what: format!("{} on a small disk", wanted.test),
                seen: format!(": {said}\n{}", output.stderr_tail),
            }),
            Some(_) => {
                let test = wanted.test;
                skipped(format!(
                    "{test}: no disk of our own: {}",
                    output.stderr_tail
                ));
                Ok(None)
            }
        }
    }

    /// Where the disk is.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Uses up the disk to the last byte, once more if something was removed meanwhile.
    pub fn fill(&self) -> Result<(), Error> {
        let doing = || Error::doing("fill a small disk");
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(self.filler());
        let mut file = file.map_err(doing())?;
        for bytes in [1 << 20, 1 << 16, 1 << 12, 1] {
            let bytes = vec![1; bytes];
            loop {
                match file.write_all(&bytes) {
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(doing()(error)),
                }
            }
        }
        Ok(())
    }

    /// Makes room again: so many bytes of what [`SmallDisk::fill`] has used.
    pub fn free_bytes(&self, bytes: u64) -> Result<(), Error> {
        let doing = || Error::doing("free some bytes of a small disk");
        let filler = OpenOptions::new().write(true).open(self.filler());
        let filler = filler.map_err(doing())?;
        let used = filler.metadata().map_err(doing())?.len();
        filler.set_len(used.saturating_sub(bytes)).map_err(doing())
    }

    /// Makes room again: all that [`SmallDisk::fill`] has used.
    pub fn free(&self) -> Result<(), Error> {
        std::fs::remove_file(self.filler()).map_err(Error::doing("free a small disk"))
    }

    /// Nothing can be written any more, by nobody; who has a file open for writing prevents it.
    pub async fn make_read_only(&self) -> Result<(), Error> {
        // With `bind` the mount alone changes. Without it the options of the file system are given
        // again, among them an owner that a namespace of an ordinary user does not have.
        let remount = ProcessSpec::shell("exec mount -o remount,bind,ro \"$0\"");
        let output = TestProcess::run(remount.args([self.path()]), DEADLINE).await?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::doing("make a disk read-only")(
            std::io::Error::other(output.stderr_tail),
        ))
    }

    fn filler(&self) -> PathBuf {
        self.folder.join("filler")
    }
}
