//! Calls of git, built so that a repository cannot make git run another program.
//!
//! The invariants here: this is the only builder of git commands. Each call has an environment built
//! from nothing and names the repository instead of searching for it, but for the call that finds it.
//! Every program that a configuration can name is switched off: hooks, file monitors, external diffs,
//! signing and filters.
//!
//! Deliberately absent: the meaning of a call. Callers decide what is preserved, made or removed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use crate::{Containment, Io, ProcessService, SpawnErrorKind, Spec, Stdin, Survivors};

/// Switched off in every call.
const SAFE: [&str; 6] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "commit.gpgSign=false",
    "diff.external=",
    "core.untrackedCache=false",
    "submodule.recurse=false",
];

/// The time after which a call is ended: a checkout of 100,000 files takes three seconds.
const CALL_LIMIT: Duration = Duration::from_mins(5);

/// A call of git that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// This machine has no git.
    #[error("there is no program git")]
    NoGit,
    /// The directory is in no work tree of a repository.
    #[error("{cwd} is not in a git repository{}", .reason.as_ref().map(|it| format!(" ({it})")).unwrap_or_default())]
    NoRepository {
        /// The directory.
        cwd: String,
        /// The words of git, where they say more.
        reason: Option<String>,
    },
    /// Git could not be started.
    #[error("git could not be started: {0}")]
    Spawn(String),
    /// Git ended with an error.
    #[error("git {command} failed: {reason}")]
    Failed {
        /// The command.
        command: String,
        /// Its first line of errors, and its exit code.
        reason: String,
    },
    /// Git wrote more than is kept of its output.
    #[error("git {command} wrote more than is kept")]
    TooMuch {
        /// The command.
        command: String,
    },
    /// A file of the repository cannot be read or written.
    #[error("{path}: {reason}")]
    Io {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
}

impl GitError {
    /// An error of the system about a path.
    pub fn io(path: &Path, error: &std::io::Error) -> Self {
        Self::Io {
            path: path.display().to_string(),
            reason: error.to_string(),
        }
    }
}

/// A repository with one of its work trees, and how git is called on them.
#[derive(Clone, Debug)]
pub struct Git {
    processes: ProcessService,
    cwd: PathBuf,
    /// The directory that all work trees share; empty until the repository is found.
    common: PathBuf,
    /// The git directory of this work tree.
    directory: PathBuf,
    work_tree: PathBuf,
    index: Option<PathBuf>,
    /// `filter.NAME.clean=` and the like, one for each filter of the configuration.
    blanked: Vec<String>,
}

/// The registration of a linked work tree in its repository.
#[derive(Clone, Debug)]
pub struct LinkedTree {
    directory: PathBuf,
}

impl LinkedTree {
    /// Returns true if git has not finished making the tree.
    pub fn is_initializing(&self) -> bool {
        let reason = std::fs::read_to_string(self.directory.join("locked"));
        reason.is_ok_and(|reason| reason.trim() == Self::INITIALIZING)
    }

    /// The reason of the lock on a tree that is being made, in the words of git.
    pub const INITIALIZING: &str = "initializing";

    /// Locks the tree for this reason: nobody removes or prunes it by accident. No call of git, since
    /// git reads the registrations of all trees, and fails over one that is being made.
    pub fn lock(&self, reason: &str) -> Result<(), GitError> {
        let path = self.directory.join("locked");
        std::fs::write(&path, reason).map_err(|error| GitError::io(&path, &error))
    }

    /// Unlocks the tree. A tree that is not locked is left as it is.
    pub fn unlock(&self) -> Result<(), GitError> {
        let path = self.directory.join("locked");
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(GitError::io(&path, &error))
            }
            _ => Ok(()),
        }
    }
}

struct Called {
    stdout: Vec<u8>,
    stderr: String,
    code: i32,
}

impl Git {
    /// Finds the repository of a directory.
    pub async fn find(processes: &ProcessService, cwd: &Path) -> Result<Self, GitError> {
        let mut git = Self {
            processes: processes.clone(),
            cwd: cwd.to_owned(),
            common: PathBuf::new(),
            directory: PathBuf::new(),
            work_tree: PathBuf::new(),
            index: None,
            blanked: Vec::new(),
        };
        let arguments = [
            "rev-parse",
            "--path-format=absolute",
            "--git-common-dir",
            "--git-dir",
            "--show-toplevel",
        ];
        let found = git.call(&arguments, b"").await?;
        let mut lines = found.stdout.split(|byte| *byte == b'\n').map(path_of);
        let (Some(common), Some(directory), Some(work_tree), 0) =
            (lines.next(), lines.next(), lines.next(), found.code)
        else {
            let reason = found.stderr.lines().next().unwrap_or("fatal: no work tree");
            let reason = reason.strip_prefix("fatal: ").unwrap_or(reason);
            let says_more = !reason.starts_with("not a git repository");
            return Err(GitError::NoRepository {
                cwd: cwd.display().to_string(),
                reason: says_more.then(|| reason.to_owned()),
            });
        };
        git.common = common;
        git.directory = directory;
        git.cwd.clone_from(&work_tree);
        git.work_tree = work_tree;
        git.blank_filters().await?;
        Ok(git)
    }

    /// The same repository with another index file.
    #[must_use]
    pub fn with_index(mut self, index: PathBuf) -> Self {
        self.index = Some(index);
        self
    }

    /// The same repository, seen from one of its linked trees. The `.git` file of the tree is not read:
    /// an agent in the tree can write it.
    pub async fn inside(&self, tree: &LinkedTree, path: &Path) -> Result<Self, GitError> {
        let mut git = Self {
            cwd: path.to_owned(),
            directory: tree.directory.clone(),
            work_tree: path.to_owned(),
            ..self.clone()
        };
        // A tree can have a configuration of its own.
        git.blank_filters().await?;
        Ok(git)
    }

    /// The git directory of this work tree.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The top directory of this work tree.
    pub fn work_tree(&self) -> &Path {
        &self.work_tree
    }

    /// Reading the configuration runs nothing.
    async fn blank_filters(&mut self) -> Result<(), GitError> {
        let arguments = ["config", "--list", "--name-only", "-z"];
        let listed = self.call(&arguments, b"").await?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for name in listed.split('\0') {
            let lower = name.to_ascii_lowercase();
            let ends = [".clean", ".smudge", ".process"];
            if lower.starts_with("filter.") && ends.iter().any(|end| lower.ends_with(end)) {
                self.blanked.push(format!("{name}="));
                if let Some((filter, _)) = name.rsplit_once('.') {
                    self.blanked.push(format!("{filter}.required=false"));
                }
            }
        }
        Ok(())
    }

    /// The linked tree that is registered for a path; none where none is.
    pub fn linked_tree(&self, path: &Path) -> Result<Option<LinkedTree>, GitError> {
        let trees = self.common.join("worktrees");
        let entries = match std::fs::read_dir(&trees) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(GitError::io(&trees, &error)),
        };
        let wanted = path.join(".git");
        for entry in entries.flatten() {
            let directory = entry.path();
            let Ok(registered) = std::fs::read(directory.join("gitdir")) else {
                continue;
            };
            if path_of(registered.trim_ascii_end()) == wanted {
                return Ok(Some(LinkedTree { directory }));
            }
        }
        Ok(None)
    }

    /// The object of a revision; none where there is none.
    pub async fn resolve(&self, revision: &str) -> Result<Option<String>, GitError> {
        let arguments = [
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            revision,
        ];
        let called = self.call(&arguments, b"").await?;
        let found = String::from_utf8_lossy(&called.stdout).trim().to_owned();
        Ok((called.code == 0 && !found.is_empty()).then_some(found))
    }

    /// Tracked files that differ from the index, as bytes.
    pub async fn differing_from_index(&self) -> Result<Vec<Vec<u8>>, GitError> {
        let arguments = ["diff-files", "--name-only", "--ignore-submodules=all", "-z"];
        Ok(names(&self.run(&arguments, b"").await?))
    }

    /// Tracked files that differ from a commit, as bytes.
    pub async fn differing_from(&self, commit: &str) -> Result<Vec<Vec<u8>>, GitError> {
        let arguments = [
            "diff",
            "--name-only",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=all",
            "-z",
            commit,
            "--",
        ];
        Ok(names(&self.run(&arguments, b"").await?))
    }

    /// Files that git does not know and does not ignore, as bytes.
    pub async fn untracked(&self) -> Result<Vec<Vec<u8>>, GitError> {
        let arguments = ["ls-files", "--others", "--exclude-standard", "-z"];
        Ok(names(&self.run(&arguments, b"").await?))
    }

    /// The one line that a call writes.
    pub async fn line(&self, arguments: &[&str]) -> Result<String, GitError> {
        let written = self.run(arguments, b"").await?;
        Ok(String::from_utf8_lossy(&written).trim().to_owned())
    }

    /// Makes a call that must succeed; its output.
    pub async fn run(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let called = self.call(arguments, input).await?;
        if called.code == 0 {
            return Ok(called.stdout);
        }
        let reason = called.stderr.lines().next().unwrap_or_default();
        Err(GitError::Failed {
            command: command(arguments),
            reason: format!("{reason} (exit code {})", called.code),
        })
    }

    async fn call(&self, arguments: &[&str], input: &[u8]) -> Result<Called, GitError> {
        let mut argv: Vec<OsString> = vec!["git".into()];
        let blanked = self.blanked.iter().map(String::as_str);
        for setting in SAFE.into_iter().chain(blanked) {
            argv.extend(["-c".into(), setting.into()]);
        }
        argv.extend(arguments.iter().map(OsString::from));
        let mut spec = Spec::new(argv, &self.cwd);
        spec.env.vars = self.environment();
        spec.io = Io::Pipe { stdin: Stdin::Open };
        // The programs that git could start are switched off, so its group is everything.
        spec.containment = Containment::Group;
        spec.survivors = Survivors::End;
        let process = self.processes.spawn(spec).await;
        let process = process.map_err(|error| match error.kind {
            SpawnErrorKind::ProgramNotFound => GitError::NoGit,
            SpawnErrorKind::CwdNotFound => GitError::NoRepository {
                cwd: self.cwd.display().to_string(),
                reason: Some("the directory does not exist".to_owned()),
            },
            _ => GitError::Spawn(error.to_string()),
        })?;
        let input = Bytes::copy_from_slice(input);
        let ended = process.communicate(input, Some(CALL_LIMIT)).await;
        let ended = ended.map_err(|error| GitError::Spawn(error.to_string()))?;
        let stdout = &ended.snapshot.stdout;
        if stdout.omitted_bytes > 0 {
            let command = command(arguments);
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
        let fixed = [
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
        ];
        let fixed = fixed
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        let mut variables: BTreeMap<OsString, OsString> = fixed.collect();
        variables.insert("PATH".into(), path);
        if !self.directory.as_os_str().is_empty() {
            variables.insert("GIT_DIR".into(), self.directory.clone().into());
            variables.insert("GIT_COMMON_DIR".into(), self.common.clone().into());
            variables.insert("GIT_WORK_TREE".into(), self.work_tree.clone().into());
        }
        if let Some(index) = &self.index {
            variables.insert("GIT_INDEX_FILE".into(), index.clone().into());
        }
        variables
    }
}

/// The command of a call, with the first word behind it.
fn command(arguments: &[&str]) -> String {
    let words: Vec<&str> = arguments.iter().take(2).copied().collect();
    words.join(" ")
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

fn names(listed: &[u8]) -> Vec<Vec<u8>> {
    let names = listed.split(|byte| *byte == 0);
    names
        .filter(|name| !name.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}
