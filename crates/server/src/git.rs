//! What a thread remembers of the repository it was started in.
//!
//! The invariant here: only files of the repository are read, each up to a bound; no program is run,
//! so nothing in a directory that nobody trusts is executed. What cannot be read is not known.
//!
//! Nothing here follows the repository later: these are facts of the moment a thread is started.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use turnlane_protocol::thread::GitInfo;

/// The most of a small file that is read: HEAD, a reference, a pointer to another directory.
const SMALL_MAX: u64 = 4 * 1024;
/// The most of a configuration.
const CONFIG_MAX: u64 = 256 * 1024;
/// The most of the packed references; what is behind it is not found.
const PACKED_MAX: u64 = 8 * 1024 * 1024;
/// How many references may name each other.
const HOPS_MAX: usize = 5;

/// The repository of a directory, as it is now; none when it is in none.
pub(crate) async fn info(cwd: &str) -> Option<GitInfo> {
    let cwd = PathBuf::from(cwd);
    let found = tokio::task::spawn_blocking(move || look(&cwd)).await;
    found.ok().flatten()
}

fn look(cwd: &Path) -> Option<GitInfo> {
    let repository = cwd.ancestors().find_map(Repository::at)?;
    let head = repository.head();
    let (branch, sha) = match head {
        Some(Head::Branch(name)) => (
            Some(name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned()),
            repository.resolve(&name),
        ),
        Some(Head::Commit(sha)) => (None, Some(sha)),
        None => (None, None),
    };
    Some(GitInfo {
        branch,
        origin_url: repository.origin(),
        sha,
    })
}

/// What HEAD says.
enum Head {
    /// The whole name of a reference.
    Branch(String),
    /// A commit.
    Commit(String),
}

/// Where a repository keeps what.
struct Repository {
    /// HEAD, and what else belongs to one working tree.
    own: PathBuf,
    /// References and configuration, of all working trees.
    common: PathBuf,
}

impl Repository {
    /// The repository whose working tree begins here.
    fn at(tree: &Path) -> Option<Self> {
        let dot_git = tree.join(".git");
        let own = if dot_git.is_dir() {
            dot_git
        } else {
            // A working tree beside the first, or a submodule.
            let text = read(&dot_git, SMALL_MAX)?;
            tree.join(text.strip_prefix("gitdir:")?.trim())
        };
        if !own.join("HEAD").is_file() {
            return None;
        }
        let common = read(&own.join("commondir"), SMALL_MAX);
        let common = common.map_or_else(|| own.clone(), |path| own.join(path.trim()));
        Some(Self { own, common })
    }

    fn head(&self) -> Option<Head> {
        let text = read(&self.own.join("HEAD"), SMALL_MAX)?;
        match reference(&text) {
            Some(name) => Some(Head::Branch(name)),
            None => commit(&text).map(Head::Commit),
        }
    }

    /// The commit that a reference names in the end.
    fn resolve(&self, name: &str) -> Option<String> {
        let mut name = name.to_owned();
        for _ in 0..HOPS_MAX {
            if !is_plain(&name) {
                return None;
            }
            let own = read(&self.own.join(&name), SMALL_MAX);
            let Some(text) = own.or_else(|| read(&self.common.join(&name), SMALL_MAX)) else {
                return self.packed(&name);
            };
            match reference(&text) {
                Some(next) => name = next,
                None => return commit(&text),
            }
        }
        None
    }

    fn packed(&self, name: &str) -> Option<String> {
        let text = read(&self.common.join("packed-refs"), PACKED_MAX)?;
        let named = |line: &str| {
            let (sha, found) = line.split_once(' ')?;
            (found.trim_end() == name).then(|| commit(sha))?
        };
        text.lines().find_map(named)
    }

    /// The address of the remote `origin`, without what may be a password.
    fn origin(&self) -> Option<String> {
        let text = read(&self.common.join("config"), CONFIG_MAX)?;
        let mut within = false;
        let mut url = None;
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                within = is_origin(line);
            } else if within && let Some((key, value)) = line.split_once('=') {
                let value = value.trim().trim_matches('"');
                if key.trim().eq_ignore_ascii_case("url") && !value.is_empty() {
                    // The first one is where things come from.
                    url.get_or_insert_with(|| without_secret(value));
                }
            }
        }
        url
    }
}

fn is_origin(section: &str) -> bool {
    let inner = section.trim_start_matches('[').split(']').next();
    let words = inner.unwrap_or_default().split_once('"');
    words.is_some_and(|(kind, name)| {
        kind.trim().eq_ignore_ascii_case("remote") && name.trim_end_matches('"') == "origin"
    })
}

/// An address without user and password; `git@host:path` names no password and stays.
fn without_secret(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (place, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, ""),
    };
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// What a text says that names a reference.
fn reference(text: &str) -> Option<String> {
    let name = text.strip_prefix("ref:")?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// A commit, in either of the two lengths there are.
fn commit(text: &str) -> Option<String> {
    let text = text.trim();
    let fits = matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| text.to_owned())
}

/// Whether a name of a reference stays within its directory.
fn is_plain(name: &str) -> bool {
    name.starts_with("refs/") && name.split('/').all(|part| !part.is_empty() && part != "..")
}

/// A file that is one, up to a bound.
fn read(path: &Path, max: u64) -> Option<String> {
    // A pipe of that name would be waited for.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    let file = File::open(path).ok()?;
    file.take(max).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests;
