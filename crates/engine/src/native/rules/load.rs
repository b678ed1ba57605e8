//! The rule files that hold for a working directory.
//!
//! The invariant here: every `*.rules` file of every directory is in force, or loading fails. Only a
//! directory that does not exist holds no rules. The files of a project are read where the user's own
//! configuration trusts the project, and what a thread's client says about trust does not count.
//!
//! Loaded rules are kept until a file comes, goes or changes. Every load looks at the file system, so
//! it blocks.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::parse;
use super::{RULES_MAX, RuleOrigin, RuleSet, RuleSources};

/// The rules of the machine.
const SYSTEM: &str = "/etc/codex/rules";
/// The ending of a rule file's name.
const ENDING: &str = "rules";
/// How many bytes a rule file has at most.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// How many rule files a directory has at most.
const FILES_MAX: usize = 1_000;
/// How many sets of rules are kept; a full cache starts anew.
const CACHED_MAX: usize = 64;

/// Why no turn starts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The file's text is not understood, or an example fails.
    #[error("failed to load rules: {}:{source}", path.display())]
    Invalid {
        path: PathBuf,
        source: parse::ParseError,
    },
    /// A file or directory cannot be read completely.
    #[error("failed to load rules: {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// All files together hold too much.
    #[error("failed to load rules: {}: there are more than {RULES_MAX} rules", path.display())]
    TooMany { path: PathBuf },
}

/// The directories whose rules hold for a turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RuleDirectories(Vec<(PathBuf, RuleOrigin)>);

impl RuleDirectories {
    /// The directories of the homes and of the project's directories, those of the system first.
    pub(crate) fn new(sources: RuleSources, homes: &[&Path], project: &[PathBuf]) -> Self {
        let mut directories = vec![(PathBuf::from(SYSTEM), RuleOrigin::System)];
        if sources == RuleSources::All {
            let homes = homes
                .iter()
                .map(|home| (home.join("rules"), RuleOrigin::User));
            let project = project.iter();
            let project = project.map(|at| (at.join(".codex/rules"), RuleOrigin::Project));
            for (path, origin) in homes.chain(project) {
                // A home inside of a project is read once, as the user's.
                if directories.iter().all(|(known, _)| *known != path) {
                    directories.push((path, origin));
                }
            }
        }
        Self(directories)
    }
}

/// Rules that were loaded before.
#[derive(Debug, Default)]
pub(crate) struct RuleCache {
    loaded: Mutex<HashMap<RuleDirectories, Loaded>>,
}

#[derive(Clone, Debug)]
struct Loaded {
    files: Vec<RulePath>,
    rules: Arc<RuleSet>,
}

/// A rule file as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RulePath {
    path: PathBuf,
    origin: RuleOrigin,
    stamp: Stamp,
}

/// Changes when a file does: device, inode, size, and the times of its content and of itself.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl RuleCache {
    /// The rules as they are now; parsed again only if a file changed.
    pub(crate) fn load(&self, directories: &RuleDirectories) -> Result<Arc<RuleSet>, Error> {
        // Stamps are taken before reading: a change in between is seen by the next load.
        let files = find(directories)?;
        let lock = || self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(directories)
            && known.files == files
        {
            return Ok(Arc::clone(&known.rules));
        }
        let rules = Arc::new(read(&files)?);
        let mut loaded = lock();
        if loaded.len() >= CACHED_MAX {
            loaded.clear();
        }
        let known = Loaded {
            files,
            rules: Arc::clone(&rules),
        };
        loaded.insert(directories.clone(), known);
        Ok(rules)
    }
}

/// Every rule file, in the order of directories and names.
fn find(directories: &RuleDirectories) -> Result<Vec<RulePath>, Error> {
    let mut files = Vec::new();
    for (directory, origin) in &directories.0 {
        let unreadable = |path: &Path, source: io::Error| Error::Unreadable {
            path: path.to_owned(),
            source,
        };
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => continue,
            Err(error) => return Err(unreadable(directory, error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| unreadable(directory, error))?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                paths.push(path);
            }
            if paths.len() > FILES_MAX {
                let error = io::Error::other(format!("it holds more than {FILES_MAX} files"));
                return Err(unreadable(directory, error));
            }
        }
        paths.sort();
        for path in paths {
            // A link to nothing is an error too: its rules are missing.
            let metadata = std::fs::metadata(&path).map_err(|error| unreadable(&path, error))?;
            let stamp = (
                metadata.dev(),
                metadata.ino(),
                metadata.len(),
                (metadata.mtime(), metadata.mtime_nsec()),
                (metadata.ctime(), metadata.ctime_nsec()),
            );
            files.push(RulePath {
                path,
                origin: *origin,
                stamp,
            });
        }
    }
    Ok(files)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn read(files: &[RulePath]) -> Result<RuleSet, Error> {
    let mut rules = RuleSet::default();
    for RulePath { path, origin, .. } in files {
        let text = text_of(path).map_err(|source| Error::Unreadable {
            path: path.clone(),
            source,
        })?;
        let file = parse::parse(&text, *origin).map_err(|source| Error::Invalid {
            path: path.clone(),
            source,
        })?;
        let parts = [
            file.prefixes.len(),
            file.network.len(),
            file.executables.len(),
        ];
        let known = [
            rules.prefixes.len(),
            rules.network.len(),
            rules.executables.len(),
        ];
        if parts.iter().chain(&known).sum::<usize>() > RULES_MAX {
            return Err(Error::TooMany { path: path.clone() });
        }
        rules.network.extend(file.network);
        for executable in file.executables {
            rules.add_executable(*origin, executable);
        }
        for rule in file.prefixes {
            rules.push(rule);
        }
    }
    Ok(rules)
}

fn text_of(path: &Path) -> io::Result<String> {
    // Looked at before it is opened: opening a pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    let mut file = File::open(path)?.take(FILE_BYTES_MAX + 1);
    file.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let problem = format!("it is longer than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::other(problem));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8"))
}
