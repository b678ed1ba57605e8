//! The folder of a demo: a home, a place to work in, and what lies there.
//!
//! The invariant here: whatever becomes of the demo, the folder goes with this value, unless somebody
//! wants to keep it. It is new, for its owner only, and nobody else's home is touched.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use turnlane_engine::scripted::DEMO;

use super::{Keep, Pace};
use crate::home;

/// The agent's first command: something inside of the folder, and something outside.
const REPORT: &str = "\
set -e
ls | sort > report.txt
echo 'report.txt: written'
if { echo 1 > ../outside.txt; } 2> /dev/null
then echo '../outside.txt: written'
else echo '../outside.txt: refused'
fi
";

/// The one that is cut off: it takes a minute unless its first half is there. Whoever has read its pid
/// may kill it at once, so the first half is written before.
const CHECK: &str = "\
[ -e half.txt ] && rest='echo check passed' || rest='exec sleep 60'
echo 1 > half.txt
echo \"check runs as pid $$\"
$rest
";

/// How a pause is written in the script.
const PAUSE: &str = "delta_ms: 120";

/// How many names are tried.
const NAMES_MAX: u32 = 100;

/// The longest path that a socket can have on Linux, its end included.
const SOCKET_PATH_MAX: usize = 108;

/// A folder that vanishes.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    keep: Keep,
}

impl Folder {
    /// Makes it, with everything that the demo of a queue needs.
    pub(super) fn make(keep: Keep, pace: Pace) -> anyhow::Result<Self> {
        let folder = Self::empty(keep)?;
        folder.fill(pace)?;
        Ok(folder)
    }

    /// Makes it, with a home and a directory to work in.
    pub(super) fn empty(keep: Keep) -> anyhow::Result<Self> {
        let above = std::env::temp_dir();
        let path = new_folder(&above).map_err(|error| {
            anyhow!(
                "the demo cannot make a folder in {}: {error}\n  \
                 set TMPDIR to a folder where you may write, and try again",
                above.display()
            )
        })?;
        // From here on it is removed, whatever fails.
        let folder = Self { path, keep };
        for inner in [folder.home(), folder.work()] {
            home::make(&inner)?;
        }
        Ok(folder)
    }

    fn fill(&self, pace: Pace) -> anyhow::Result<()> {
        let socket = home::socket(&self.home());
        if socket.as_os_str().as_bytes().len() >= SOCKET_PATH_MAX {
            bail!(
                "{} is too long for the path of a socket\n  \
                 set TMPDIR to a folder with a shorter name, such as /tmp",
                socket.display()
            );
        }
        let script = match pace {
            Pace::Readable => DEMO.to_owned(),
            Pace::Fast => DEMO.replace(PAUSE, "delta_ms: 0"),
        };
        let (work, build) = (self.work(), self.work().join("build"));
        home::make(&build)?;
        for (path, text) in [
            (self.script(), script.as_str()),
            (work.join("report.sh"), REPORT),
            (work.join("check.sh"), CHECK),
            (build.join("old.o"), "old\n"),
        ] {
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// `TURNLANE_HOME` of the demo's worker.
    pub(super) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// Where the agent works.
    pub(super) fn work(&self) -> PathBuf {
        self.path.join("work")
    }

    pub(super) fn script(&self) -> PathBuf {
        self.path.join("script.yaml")
    }

    /// Removes it, unless it is kept.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        if self.keep == Keep::Yes {
            return Ok(());
        }
        // Once: what cannot be removed now is told, not tried again.
        self.keep = Keep::Yes;
        std::fs::remove_dir_all(&self.path)
            .with_context(|| format!("cannot remove {}; please do", self.path.display()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.keep == Keep::No
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "the demo's folder is left");
        }
    }
}

/// A folder that was not there before.
fn new_folder(above: &Path) -> io::Result<PathBuf> {
    let pid = std::process::id();
    let mut number = 0;
    loop {
        let mut name = OsString::from(format!("turnlane-demo-{pid}"));
        if number > 0 {
            name.push(format!("-{number}"));
        }
        let path = above.join(name);
        match DirBuilder::new().mode(0o700).create(&path) {
            // Without links: a sandbox knows folders by their own names.
            Ok(()) => return path.canonicalize(),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use turnlane_engine::scripted::{AbortSteps, Script};

    use super::*;

    #[test]
    fn the_fast_script_can_be_played_and_has_no_pause_in_the_turns_of_the_demo() {
        let fast = DEMO.replace(PAUSE, "delta_ms: 0");
        Script::parse("demo.yaml", &fast, AbortSteps::Refused).unwrap();
        let ours = fast.split("What anybody else may ask for").next().unwrap();
        let waits = |line: &&str| line.contains("ms:") && !line.contains("delta_ms: 0");
        let steps = ours
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        assert_eq!(steps.filter(waits).count(), 0, "{ours}");
        assert!(DEMO.matches(PAUSE).count() > 5);
    }

    #[test]
    fn a_folder_is_new_and_goes_with_its_value() {
        let folder = Folder::make(Keep::No, Pace::Fast).unwrap();
        let other = Folder::make(Keep::No, Pace::Fast).unwrap();
        assert_ne!(folder.path(), other.path());
        let (path, second) = (folder.path().to_owned(), other.path().to_owned());
        assert!(path.join("work/build/old.o").exists());
        drop(folder);
        other.end().unwrap();
        assert!(!path.exists() && !second.exists());
    }
}
