//! Git, run so that a repository cannot make it run anything else.
//!
//! The invariant here: each call has an environment built from nothing, names the repository instead of
//! searching for it (but for the first), and switches off every program that a configuration can name:
//! hooks, file monitors, external diffs, signing, and filters.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use turnlane_process::{Containment, Io, ProcessService, Spec, Stdin, Survivors};

use super::path_of;

/// Switched off in every call.
const SAFE: [&str; 5] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "commit.gpgSign=false",
    "diff.external=",
    "core.untrackedCache=false",
];

/// Why git did not do what it should.
#[derive(Debug, thiserror::Error)]
pub(super) enum GitError {
    #[error("git could not be started: {0}")]
    Spawn(String),
    #[error("git {command} failed: {reason}")]
    Failed { command: String, reason: String },
    #[error("git {command} wrote more than is kept")]
    TooMuch { command: String },
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// A repository and how git is called on it.
#[derive(Clone, Debug)]
pub(super) struct Git {
    processes: ProcessService,
    cwd: PathBuf,
    directory: PathBuf,
    work_tree: PathBuf,
    index: Option<PathBuf>,
    /// `filter.NAME.clean=` and its kin, one for each that the configuration has.
    blanked: Vec<String>,
}

/// Output and exit code of a call.
struct Called {
    stdout: Vec<u8>,
    stderr: String,
    code: i32,
}

impl Git {
    /// The repository of a directory; none where there is none, or no git.
    pub(super) async fn find(
        processes: &ProcessService,
        cwd: &Path,
    ) -> Result<Option<Self>, GitError> {
        let mut git = Self {
            processes: processes.clone(),
            cwd: cwd.to_owned(),
            directory: PathBuf::new(),
            work_tree: PathBuf::new(),
            index: None,
            blanked: Vec::new(),
        };
        if !cwd
            .ancestors()
            .any(|directory| directory.join(".git").exists())
        {
            return Ok(None);
        }
        let arguments = ["rev-parse", "--absolute-git-dir", "--show-toplevel"];
        let found = git.call(&arguments, b"").await?;
        if found.code != 0 {
            return Err(git.failed(&arguments, &found));
        }
        let mut lines = found.stdout.split(|byte| *byte == b'\n');
        let (Some(directory), Some(work_tree)) = (lines.next(), lines.next()) else {
            return Ok(None);
        };
        git.directory = path_of(directory);
        git.work_tree = path_of(work_tree);
        git.cwd.clone_from(&git.work_tree);
        git.blank_filters().await?;
        Ok(Some(git))
    }

    #[must_use]
    pub(super) fn with_index(mut self, index: PathBuf) -> Self {
        self.index = Some(index);
        self
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn work_tree(&self) -> &Path {
        &self.work_tree
    }

    /// Reading the configuration runs nothing.
    async fn blank_filters(&mut self) -> Result<(), GitError> {
        let listed = self
            .call(&["config", "--list", "--name-only", "-z"], b"")
            .await?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let is_filter = |name: &&str| {
            let lower = name.to_ascii_lowercase();
            let ends = [".clean", ".smudge", ".process"];
            lower.starts_with("filter.") && ends.iter().any(|end| lower.ends_with(end))
        };
        for name in listed.split('\0').filter(is_filter) {
            self.blanked.push(format!("{name}="));
            if let Some((filter, _)) = name.rsplit_once('.') {
                self.blanked.push(format!("{filter}.required=false"));
            }
        }
        Ok(())
    }

    /// The object of a revision; none where there is none.
    pub(super) async fn resolve(&self, revision: &str) -> Result<Option<String>, GitError> {
        let called = self
            .call(&["rev-parse", "--verify", "--quiet", revision], b"")
            .await?;
        let found = String::from_utf8_lossy(&called.stdout).trim().to_owned();
        Ok((called.code == 0 && !found.is_empty()).then_some(found))
    }

    /// Tracked files that differ from the index.
    pub(super) async fn changed(&self) -> Result<Vec<Vec<u8>>, GitError> {
        let arguments = ["diff-files", "--name-only", "--ignore-submodules=all", "-z"];
        Ok(names(&self.run(&arguments, b"").await?))
    }

    /// Files that git does not know and does not ignore.
    pub(super) async fn untracked(&self) -> Result<Vec<Vec<u8>>, GitError> {
        let arguments = ["ls-files", "--others", "--exclude-standard", "-z"];
        Ok(names(&self.run(&arguments, b"").await?))
    }

    /// The one line that a call writes.
    pub(super) async fn line(&self, arguments: &[&str]) -> Result<String, GitError> {
        let written = self.run(arguments, b"").await?;
        Ok(String::from_utf8_lossy(&written).trim().to_owned())
    }

    /// A call that must succeed; its output.
    pub(super) async fn run(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let called = self.call(arguments, input).await?;
        if called.code == 0 {
            return Ok(called.stdout);
        }
        Err(self.failed(arguments, &called))
    }

    #[expect(clippy::unused_self, reason = "reads as a part of the call")]
    fn failed(&self, arguments: &[&str], called: &Called) -> GitError {
        let reason = called.stderr.lines().next().unwrap_or_default();
        GitError::Failed {
            command: arguments.first().copied().unwrap_or_default().to_owned(),
            reason: format!("{reason} (exit code {})", called.code),
        }
    }

    async fn call(&self, arguments: &[&str], input: &[u8]) -> Result<Called, GitError> {
        let mut argv: Vec<OsString> = vec!["git".into()];
        let settings = SAFE
            .iter()
            .copied()
            .chain(self.blanked.iter().map(String::as_str));
        for setting in settings {
            argv.extend(["-c".into(), setting.into()]);
        }
        argv.extend(arguments.iter().map(OsString::from));
        let mut spec = Spec::new(argv, &self.cwd);
        spec.env.vars = self.environment();
        spec.io = Io::Pipe { stdin: Stdin::Open };
        // What git may start is switched off, so its group is everything.
        spec.containment = Containment::Group;
        spec.survivors = Survivors::End;
        let process = self.processes.spawn(spec).await;
        let process = process.map_err(|error| GitError::Spawn(error.to_string()))?;
        let input = Bytes::copy_from_slice(input);
        let ended = process.communicate(input, None).await;
        let ended = ended.map_err(|error| GitError::Spawn(error.to_string()))?;
        let stdout = &ended.snapshot.stdout;
        if stdout.omitted_bytes > 0 {
            let command = arguments.first().copied().unwrap_or_default().to_owned();
            return Err(GitError::TooMuch { command });
        }
        Ok(Called {
            stdout: [&stdout.head[..], &stdout.tail[..]].concat(),
            stderr: ended.snapshot.stderr.text(),
            code: ended.status.code,
        })
    }

    fn environment(&self) -> BTreeMap<OsString, OsString> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let mut variables: BTreeMap<OsString, OsString> = [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_LITERAL_PATHSPECS", "1"),
            ("GIT_AUTHOR_NAME", "turnlane"),
            ("GIT_AUTHOR_EMAIL", "turnlane@localhost"),
            ("GIT_COMMITTER_NAME", "turnlane"),
            ("GIT_COMMITTER_EMAIL", "turnlane@localhost"),
            ("LC_ALL", "C"),
        ]
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
        variables.insert("PATH".into(), path);
        if !self.directory.as_os_str().is_empty() {
            variables.insert("GIT_DIR".into(), self.directory.clone().into());
            variables.insert("GIT_WORK_TREE".into(), self.work_tree.clone().into());
        }
        if let Some(index) = &self.index {
            variables.insert("GIT_INDEX_FILE".into(), index.clone().into());
        }
        variables
    }
}

fn names(listed: &[u8]) -> Vec<Vec<u8>> {
    let names = listed.split(|byte| *byte == 0);
    names
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}
