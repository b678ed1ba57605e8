//! Calls of git for worktrees, safe in a repository that wants to run programs.
//!
//! The invariant here: each call has an environment built from nothing and names the repository, but for
//! the call that finds it. The `.git` file of a tree is not read: the agent in the tree can write it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use turnlane_process::{Containment, Io, ProcessService, Spec, Stdin, Survivors};

use super::WorktreeError;

/// Switched off in every call.
const SAFE: [&str; 6] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "commit.gpgSign=false",
    "diff.external=",
    "core.untrackedCache=false",
    "submodule.recurse=false",
];

/// The time after which a call is ended: a tree of 100,000 files takes three seconds.
const CALL_LIMIT: Duration = Duration::from_mins(5);

/// A repository and how git is called on it.
#[derive(Clone, Debug)]
pub(super) struct Git {
    processes: ProcessService,
    cwd: PathBuf,
    /// The directory that all trees share, and that of this tree.
    common: PathBuf,
    directory: PathBuf,
    work_tree: PathBuf,
    /// Settings that empty the filters of the configuration.
    blanked: Vec<String>,
}

/// The registration of a tree in its repository.
#[derive(Clone, Debug)]
pub(super) struct Registered {
    directory: PathBuf,
}

impl Registered {
    /// Returns true if git has not finished making the tree.
    pub(super) fn is_initializing(&self) -> bool {
        let reason = std::fs::read_to_string(self.directory.join("locked"));
        reason.is_ok_and(|reason| reason.trim() == "initializing")
    }
}

struct Called {
    stdout: Vec<u8>,
    stderr: String,
    code: i32,
}

impl Git {
    pub(super) async fn find(
        processes: &ProcessService,
        cwd: &Path,
    ) -> Result<Self, WorktreeError> {
        let mut git = Self {
            processes: processes.clone(),
            cwd: cwd.to_owned(),
            common: PathBuf::new(),
            directory: PathBuf::new(),
            work_tree: PathBuf::new(),
            blanked: Vec::new(),
        };
        let arguments = [
            "rev-parse",
            "--path-format=absolute",
            "--git-common-dir",
            "--git-dir",
            "--show-toplevel",
        ];
        let found = git.call(&arguments).await?;
        let mut lines = found.stdout.split(|byte| *byte == b'\n').map(path_of);
        let (Some(common), Some(directory), Some(work_tree), 0) =
            (lines.next(), lines.next(), lines.next(), found.code)
        else {
            return Err(WorktreeError::NoRepository(cwd.display().to_string()));
        };
        git.common = common;
        git.directory = directory;
        git.cwd.clone_from(&work_tree);
        git.work_tree = work_tree;
        git.blank_filters().await?;
        Ok(git)
    }

    /// Reading the configuration runs nothing.
    async fn blank_filters(&mut self) -> Result<(), WorktreeError> {
        let listed = self
            .call(&["config", "--list", "--name-only", "-z"])
            .await?;
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

    /// The same repository, seen from one of its trees.
    pub(super) fn inside(&self, tree: &Registered, path: &Path) -> Self {
        Self {
            cwd: path.to_owned(),
            directory: tree.directory.clone(),
            work_tree: path.to_owned(),
            ..self.clone()
        }
    }

    /// The registration of the tree at a path; none where there is none.
    pub(super) fn worktree(&self, path: &Path) -> Result<Option<Registered>, WorktreeError> {
        let folder = self.common.join("worktrees");
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error(&folder, &error)),
        };
        let wanted = path.join(".git");
        for entry in entries.flatten() {
            let directory = entry.path();
            let Ok(registered) = std::fs::read(directory.join("gitdir")) else {
                continue;
            };
            if path_of(registered.trim_ascii_end()) == wanted {
                return Ok(Some(Registered { directory }));
            }
        }
        Ok(None)
    }

    /// Removes a tree and its registration, locked or half made.
    pub(super) async fn unregister(&self, path: &Path) -> Result<(), WorktreeError> {
        let path = path.display().to_string();
        let remove = ["worktree", "remove", "--force", "--force", "--", &path];
        self.run(&remove).await.map(drop)
    }

    /// The object of a revision; none where there is none.
    pub(super) async fn resolve(&self, revision: &str) -> Result<Option<String>, WorktreeError> {
        let arguments = [
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            revision,
        ];
        let called = self.call(&arguments).await?;
        let found = String::from_utf8_lossy(&called.stdout).trim().to_owned();
        Ok((called.code == 0 && !found.is_empty()).then_some(found))
    }

    /// Tracked files that differ from a commit.
    pub(super) async fn changed(&self, commit: &str) -> Result<Vec<String>, WorktreeError> {
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
        Ok(names(&self.run(&arguments).await?))
    }

    /// Files that git does not know and does not ignore.
    pub(super) async fn untracked(&self) -> Result<Vec<String>, WorktreeError> {
        let arguments = ["ls-files", "--others", "--exclude-standard", "-z"];
        Ok(names(&self.run(&arguments).await?))
    }

    /// A call that must succeed; its output.
    pub(super) async fn run(&self, arguments: &[&str]) -> Result<Vec<u8>, WorktreeError> {
        let called = self.call(arguments).await?;
        if called.code == 0 {
            return Ok(called.stdout);
        }
        let reason = called.stderr.lines().next().unwrap_or_default();
        let reason = format!("{reason} (exit code {})", called.code);
        Err(git_error(arguments, reason))
    }

    async fn call(&self, arguments: &[&str]) -> Result<Called, WorktreeError> {
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
        let process = process.map_err(|error| git_error(arguments, error.to_string()))?;
        let ended = process.communicate(Bytes::new(), Some(CALL_LIMIT)).await;
        let ended = ended.map_err(|error| git_error(arguments, error.to_string()))?;
        let stdout = &ended.snapshot.stdout;
        if stdout.omitted_bytes > 0 {
            return Err(git_error(
                arguments,
                "it wrote more than is kept".to_owned(),
            ));
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
        variables
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Names of files; bytes that are not UTF-8 are replaced, since the names are for people.
fn names(listed: &[u8]) -> Vec<String> {
    let names = listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    names
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

fn git_error(arguments: &[&str], reason: String) -> WorktreeError {
    let command: Vec<&str> = arguments.iter().take(2).copied().collect();
    WorktreeError::Git {
        command: command.join(" "),
        reason,
    }
}

pub(super) fn io_error(path: &Path, error: &std::io::Error) -> WorktreeError {
    WorktreeError::Io {
        path: path.display().to_string(),
        reason: error.to_string(),
    }
}
