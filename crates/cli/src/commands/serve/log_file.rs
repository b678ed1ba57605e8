//! The log file of a daemon without a terminal: `log/serve.log` in the home.
//!
//! The invariant here: only its owner can read the file, and file and predecessor together stay near
//! twice [`BYTES_MAX`]. The daemon writes to standard error as always; here standard error becomes the
//! file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use rustix::stdio::dup2_stdin;
use tokio::time::{MissedTickBehavior, interval};

use crate::home;
use crate::logging::{Weight, announce};
use crate::shown::out;

/// A longer file is put aside as `serve.log.1`, in place of the one before.
const BYTES_MAX: u64 = 8 << 20;
/// How often its length is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The log file of a home.
pub(super) struct LogFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
}

impl LogFile {
    /// Opens the file for appending; a long one is put aside first.
    pub(super) fn open(home: &Path) -> anyhow::Result<Self> {
        let directory = home.join("log");
        home::make(&directory)?;
        let path = directory.join("serve.log");
        Self::append(&path).with_context(|| format!("cannot write {}", path.display()))
    }

    fn append(path: &Path) -> io::Result<Self> {
        let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
        if length > BYTES_MAX {
            fs::rename(path, path.with_extension("log.1"))?;
        }
        let mut options = OpenOptions::new();
        let options = options.append(true).create(true).mode(0o600);
        Ok(Self {
            path: path.to_owned(),
            file: options.open(path)?,
        })
    }

    /// Puts the file aside whenever it is long, for as long as the process runs. Standard error is
    /// the file.
    pub(super) fn keep_bounded(home: &Path) {
        let home = home.to_owned();
        tokio::spawn(async move {
            let mut look = interval(LOOK_EVERY);
            look.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                look.tick().await;
                let path = home.join("log/serve.log");
                let length = fs::metadata(&path).map_or(0, |metadata| metadata.len());
                if length <= BYTES_MAX {
                    continue;
                }
                let renewed = Self::append(&path).and_then(|log| out::redirect_errors(&log.file));
                if let Err(error) = renewed {
                    tracing::warn!(%error, "the log file could not be put aside");
                }
            }
        });
    }
}

/// The standard streams that are a terminal. A terminal that is gone cannot be told from others, so
/// this is found out at the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terminals {
    input: bool,
    output: bool,
    error: bool,
}

impl Terminals {
    /// The terminals of a process that has one; none where no terminal controls it.
    pub(super) fn of_this_process() -> Option<Self> {
        File::open("/dev/tty").ok()?;
        Some(Self {
            input: io::stdin().is_terminal(),
            output: io::stdout().is_terminal(),
            error: io::stderr().is_terminal(),
        })
    }

    /// Goes on without the terminal: streams that were the terminal become the log file.
    pub(super) fn leave(self, home: &Path) {
        let left = || -> anyhow::Result<()> {
            if self.error || self.output {
                let log = LogFile::open(home)?;
                if self.error {
                    out::redirect_errors(&log.file)?;
                    LogFile::keep_bounded(home);
                }
                if self.output {
                    out::redirect_output(&log.file)?;
                }
            }
            if self.input {
                dup2_stdin(File::open("/dev/null")?)?;
            }
            Ok(())
        };
        let line = match left() {
            Ok(()) => {
                "the terminal is gone; going on without it, `turnlane serve stop` stops".to_owned()
            }
            Err(error) => {
                format!("the terminal is gone, and the log file cannot be used: {error:#}")
            }
        };
        // Standard error may be the terminal that is gone.
        let _ = announce(Weight::Info, &line);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_long_log_is_put_aside_and_only_its_owner_reads_it() {
        let home = tempfile::tempdir().unwrap();
        let mut log = LogFile::open(home.path()).unwrap();
        log.file.write_all(b"first\n").unwrap();
        let mode = fs::metadata(&log.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        log.file.set_len(BYTES_MAX + 1).unwrap();
        let mut next = LogFile::open(home.path()).unwrap();
        next.file.write_all(b"second\n").unwrap();
        assert_eq!(fs::read(&next.path).unwrap(), b"second\n");
        let aside = home.path().join("log/serve.log.1");
        assert_eq!(fs::metadata(aside).unwrap().len(), BYTES_MAX + 1);
    }
}
