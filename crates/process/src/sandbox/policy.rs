//! What a policy says about a path.
//!
//! A policy becomes a map from canonical paths to what is allowed there; the most specific entry
//! decides, and what no entry covers is denied. The map is made once per spawn from the file system as
//! it is then: links are resolved, what is missing is skipped or refuses the policy. How the kernel is
//! made to enforce it is the business of `layout`, `landlock` and `filter`; a service that opens files
//! for a client itself asks a [`PathPolicy`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::error::{SpawnError, SpawnErrorKind};
use crate::sandbox::aliases::Aliases;
use crate::sandbox::{Access, MissingPath, Sandbox};

/// Writable under every policy, besides the process's own terminal.
pub(super) const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

/// Directly under a root of `WorkspaceWrite` these stay read-only if they exist.
const PROTECTED: [&str; 4] = [".git", ".codex", ".agents", ".turnlane"];

/// What a policy allows at a path, for whoever opens files on behalf of a sandboxed client.
///
/// Made from the file system as it is now: links in the policy are resolved here, once. Asking is
/// pure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPolicy {
    /// `None`: everything is allowed.
    rules: Option<Rules>,
}

impl PathPolicy {
    /// Resolves the policy's paths, or says which of them makes it one that is refused. `tmpdir` is
    /// the `TMPDIR` a process would get.
    pub fn new(policy: &Sandbox, tmpdir: Option<&Path>) -> Result<Self, SpawnError> {
        Ok(Self {
            rules: Rules::of(policy, tmpdir)?,
        })
    }

    /// What is allowed at a path that holds no links and no `..`; it need not exist.
    ///
    /// To create, remove or rename an entry both the entry and its directory must be writable.
    pub fn access(&self, resolved: &Path) -> Access {
        match &self.rules {
            None => Access::Write,
            Some(_) if DEVICES.iter().any(|device| resolved == Path::new(device)) => Access::Write,
            Some(rules) => rules.access(resolved),
        }
    }

    /// The least that is allowed at the path or anywhere below it: what somebody needs to know who
    /// removes, moves or copies a whole directory.
    pub fn least_below(&self, resolved: &Path) -> Access {
        match &self.rules {
            None => Access::Write,
            Some(rules) => rules.least_below(resolved),
        }
    }

    /// Whether the policy says nothing about files.
    pub fn is_unrestricted(&self) -> bool {
        self.rules.is_none()
    }
}

/// Canonical paths and what is allowed there and below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    /// Ordered by components, so that what lies below a path follows it.
    paths: BTreeMap<PathBuf, Access>,
    /// Links on the way to what is not writable. Whoever replaces one has replaced what it protects.
    links: BTreeSet<PathBuf>,
    /// Other ways to what is not writable although its surroundings are.
    aliases: BTreeSet<PathBuf>,
}

impl Rules {
    /// The rules of a policy; `None` if it has none about files.
    pub(super) fn of(policy: &Sandbox, tmpdir: Option<&Path>) -> Result<Option<Self>, SpawnError> {
        let mut rules = Self::default();
        match policy {
            Sandbox::DangerFullAccess | Sandbox::ExternalSandbox { .. } => return Ok(None),
            Sandbox::ReadOnly { .. } => rules.add(PathBuf::from("/"), Access::Read),
            Sandbox::WorkspaceWrite {
                roots,
                exclude_tmpdir,
                exclude_slash_tmp,
                ..
            } => {
                rules.add(PathBuf::from("/"), Access::Read);
                let tmpdir = tmpdir.filter(|_| !exclude_tmpdir);
                let slash_tmp = Some(Path::new("/tmp")).filter(|_| !exclude_slash_tmp);
                for shared in [tmpdir, slash_tmp].into_iter().flatten() {
                    rules.add_shared(shared)?;
                }
                for root in roots {
                    rules.add_root(root)?;
                }
            }
            Sandbox::Custom { rules: given, .. } => {
                for rule in given {
                    match canonical(&rule.path)? {
                        Some(path) if rule.access == Access::Write => rules.add(path, rule.access),
                        Some(path) => rules.add_protected(&rule.path, path, rule.access)?,
                        None if rule.missing == MissingPath::Skip => {}
                        None => return Err(refused(&rule.path).os(libc::ENOENT)),
                    }
                }
            }
        }
        rules.add_aliases()?;
        Ok(Some(rules))
    }

    /// The most specific rule may name one of several paths to the same thing.
    fn add_aliases(&mut self) -> Result<(), SpawnError> {
        let inner: Vec<(PathBuf, Access)> = self
            .iter()
            .filter(|(path, access)| *access < self.around(path))
            .map(|(path, access)| (path.to_owned(), access))
            .collect();
        let Some((first, _)) = inner.first() else {
            return Ok(());
        };
        let known = Aliases::now().map_err(|error| unresolved(first, &error))?;
        for (path, access) in &inner {
            for alias in known.of(path) {
                if !self.paths.contains_key(&alias) {
                    self.aliases.insert(alias.clone());
                    self.add(alias, *access);
                }
            }
        }
        Ok(())
    }

    /// What is allowed in the directory that holds the path.
    pub(super) fn around(&self, path: &Path) -> Access {
        path.parent()
            .map_or(Access::Deny, |parent| self.access(parent))
    }

    /// Whether the kernel would see what is granted around some other path to it.
    pub(super) fn is_alias(&self, path: &Path) -> bool {
        self.aliases.contains(path)
    }

    /// Of equal paths the stricter rule wins.
    fn add(&mut self, path: PathBuf, access: Access) {
        let entry = self.paths.entry(path).or_insert(access);
        *entry = access.min(*entry);
    }

    /// A path that is not writable, together with the links that led to it.
    fn add_protected(
        &mut self,
        given: &Path,
        path: PathBuf,
        access: Access,
    ) -> Result<(), SpawnError> {
        if given != path {
            let links = links_on(given).map_err(|error| unresolved(given, &error))?;
            self.links.extend(links);
        }
        self.add(path, access);
        Ok(())
    }

    /// A temporary directory. One that is missing or relative to who knows what is not writable.
    fn add_shared(&mut self, given: &Path) -> Result<(), SpawnError> {
        if given.is_absolute()
            && let Some(path) = canonical(given)?
        {
            self.add_writable(path, given)?;
        }
        Ok(())
    }

    fn add_root(&mut self, given: &Path) -> Result<(), SpawnError> {
        let Some(root) = canonical(given)? else {
            return Err(refused(given).os(libc::ENOENT));
        };
        if !root.is_dir() {
            return Err(refused(given).os(libc::ENOTDIR));
        }
        for name in PROTECTED {
            let given = root.join(name);
            match given.symlink_metadata() {
                // The root has no links in it; only a name that is one needs to be resolved.
                Ok(found) if !found.is_symlink() => self.add(given, Access::Read),
                Err(error) if is_missing(&error) => {}
                Ok(_) | Err(_) => {
                    if let Some(path) = canonical(&given)? {
                        self.add_protected(&given, path, Access::Read)?;
                    }
                }
            }
        }
        self.add_writable(root, given)
    }

    fn add_writable(&mut self, path: PathBuf, given: &Path) -> Result<(), SpawnError> {
        if path == Path::new("/") {
            return Err(refused(given).because("the root directory cannot be a writable root"));
        }
        self.add(path, Access::Write);
        Ok(())
    }

    /// What the most specific rule says.
    pub(super) fn access(&self, path: &Path) -> Access {
        path.ancestors()
            .find_map(|ancestor| self.paths.get(ancestor))
            .copied()
            .unwrap_or(Access::Deny)
    }

    fn least_below(&self, path: &Path) -> Access {
        self.paths
            .range(path.to_owned()..)
            .take_while(|(below, _)| below.starts_with(path))
            .map(|(_, access)| *access)
            .fold(self.access(path), Access::min)
    }

    /// The links that lead to what is not writable, each where it really lies.
    pub(super) fn links(&self) -> impl Iterator<Item = &Path> {
        self.links.iter().map(PathBuf::as_path)
    }

    /// Every rule, a directory before what lies in it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, Access)> {
        self.paths
            .iter()
            .map(|(path, access)| (path.as_path(), *access))
    }
}

#[cfg(test)]
impl FromIterator<(PathBuf, Access)> for Rules {
    /// As if every path were there and held no links.
    fn from_iter<I: IntoIterator<Item = (PathBuf, Access)>>(given: I) -> Self {
        let mut rules = Self::default();
        for (path, access) in given {
            rules.add(path, access);
        }
        rules
    }
}

/// The path without links, `None` if nothing is there.
fn canonical(path: &Path) -> Result<Option<PathBuf>, SpawnError> {
    if !path.is_absolute() {
        return Err(refused(path).because("a path of a policy must be absolute"));
    }
    match path.canonicalize() {
        Ok(path) => Ok(Some(path)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(unresolved(path, &error)),
    }
}

pub(super) fn unresolved(path: &Path, error: &io::Error) -> SpawnError {
    refused(path).os(error.raw_os_error().unwrap_or(libc::EIO))
}

/// As many links as the kernel follows in one path.
const LINKS_MAX: usize = 40;

/// The links that are followed on the way along an absolute path that leads to something.
fn links_on(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut links = Vec::new();
    let mut at = PathBuf::from("/");
    let mut rest: Vec<OsString> = names(path);
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        if !next.symlink_metadata()?.is_symlink() {
            at = next;
            continue;
        }
        let target = next.read_link()?;
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        rest.extend(names(&target));
        links.push(next);
        if links.len() > LINKS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
    }
    Ok(links)
}

/// The names of a path, last one first.
fn names(path: &Path) -> Vec<OsString> {
    path.components()
        .rev()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(|part| part.as_os_str().to_owned())
        .collect()
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

pub(super) fn refused(path: &Path) -> SpawnError {
    SpawnError::new(SpawnErrorKind::SandboxRefused).at(path)
}

#[cfg(test)]
mod tests;
