//! What a policy says about a path.
//!
//! A policy becomes a map from canonical paths to what is allowed there; the most specific entry
//! decides, and what no entry covers is denied. The map is made once per spawn from the file system as
//! it is then: links are resolved, what is missing is skipped or refuses the policy. How the kernel is
//! made to enforce it is the business of `layout`, `landlock` and `filter`; a service that opens files
//! for a client itself asks a [`PathPolicy`].
//!
//! Two rules stand above every policy. Hidden paths are denied whatever a rule says about them or about
//! something below them. And a writable path may not lead through a link that a confined command could
//! have made: such a link would let the first command choose where the second one writes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::error::{SpawnError, SpawnErrorKind};
use crate::sandbox::aliases::Aliases;
use crate::sandbox::{Access, MissingPath, Sandbox, mount_points};

/// Writable under every policy, besides the process's own terminal.
pub(super) const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

/// Directly under a root of `WorkspaceWrite` these stay read-only, and cannot be created where they are
/// missing: programs outside of the sandbox read them and do as they say.
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
    /// the `TMPDIR` a process would get; `hidden` are the hidden paths of the process service
    /// ([`crate::ProcessService::hidden`]).
    pub fn new(
        policy: &Sandbox,
        tmpdir: Option<&Path>,
        hidden: &[PathBuf],
    ) -> Result<Self, SpawnError> {
        Ok(Self {
            rules: Rules::of(policy, tmpdir, hidden)?,
        })
    }

    /// What is allowed at a path that holds no links and no `..`; it need not exist.
    ///
    /// To create, remove or rename an entry both the entry and its directory must be writable.
    pub fn access(&self, resolved: &Path) -> Access {
        match &self.rules {
            None => Access::Write,
            Some(_) if DEVICES.iter().any(|device| resolved == Path::new(device)) => Access::Write,
            // Removing or replacing a link that names something protected would unprotect it.
            Some(rules) if rules.links.contains(resolved) => {
                rules.access(resolved).min(Access::Read)
            }
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

    /// A writable root that was named by a path with links, if there is one. The directories of a
    /// thread are named without: a link on the way to one came later.
    pub fn linked_root(&self) -> Option<&Path> {
        self.rules.as_ref().and_then(Rules::linked_root)
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
    /// Denied whatever the other rules say.
    hidden: BTreeSet<PathBuf>,
    /// Protected names that do not exist.
    missing: BTreeSet<PathBuf>,
    /// Writable paths as they were given, where links lead to them.
    led: Vec<Led>,
}

/// A writable path that leads through links.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Led {
    given: PathBuf,
    links: Vec<PathBuf>,
}

impl Rules {
    /// The rules of a policy; `None` if it has none about files.
    pub(super) fn of(
        policy: &Sandbox,
        tmpdir: Option<&Path>,
        hidden: &[PathBuf],
    ) -> Result<Option<Self>, SpawnError> {
        let mut rules = Self::default();
        for given in hidden {
            rules.hide(given)?;
        }
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
                rules.add_roots(roots)?;
                // Last, since where commands may write decides which link they could replace.
                let slash_tmp = Some(Path::new("/tmp")).filter(|_| !exclude_slash_tmp);
                let tmpdir = tmpdir.filter(|_| !exclude_tmpdir);
                for shared in [slash_tmp, tmpdir].into_iter().flatten() {
                    rules.add_shared(shared)?;
                }
            }
            Sandbox::Custom { rules: given, .. } => {
                for rule in given {
                    match canonical(&rule.path)? {
                        Some(path) if rule.access == Access::Write => {
                            rules.lead(&rule.path, &path)?;
                            rules.add(path, rule.access);
                        }
                        Some(path) => rules.add_protected(&rule.path, path, rule.access)?,
                        None if rule.missing == MissingPath::Skip => {
                            rules.protect_missing(&rule.path)?;
                        }
                        None => return Err(refused(&rule.path).os(libc::ENOENT)),
                    }
                }
            }
        }
        rules.add_aliases()?;
        rules.check_hidden()?;
        rules.check_links()?;
        Ok(Some(rules))
    }

    /// Denies a path by every way to it. One that does not exist hides nothing yet.
    fn hide(&mut self, given: &Path) -> Result<(), SpawnError> {
        if let Some(path) = canonical(given)? {
            self.hidden.insert(path.clone());
            self.add_protected(given, path, Access::Deny)?;
        }
        Ok(())
    }

    /// Refuses a policy that opens something inside of a hidden path: it would open nothing.
    fn check_hidden(&self) -> Result<(), SpawnError> {
        for (path, access) in &self.paths {
            let inside = path
                .ancestors()
                .skip(1)
                .find(|above| self.hidden.contains(*above));
            if let (Some(hidden), Access::Read | Access::Write) = (inside, *access) {
                return Err(refused(path).because(format!(
                    "it lies in {}, which no sandbox may see",
                    hidden.display()
                )));
            }
        }
        Ok(())
    }

    fn linked_root(&self) -> Option<&Path> {
        let mut led = self.led.iter().filter(|led| !led.links.is_empty());
        led.next().map(|led| led.given.as_path())
    }

    /// Refuses every writable path that leads through a link.
    pub(super) fn refuse_links(&self) -> Result<(), SpawnError> {
        match self.linked_root() {
            None => Ok(()),
            Some(given) => Err(refused(given).because(
                "it was a directory when it was named, and now a link is on the way to it",
            )),
        }
    }

    /// Refuses a writable path that leads through a link in a place where commands may write.
    fn check_links(&self) -> Result<(), SpawnError> {
        for Led { given, links } in &self.led {
            if let Some(link) = links.iter().find(|link| self.around(link) == Access::Write) {
                return Err(refused(given).because(format!(
                    "it leads through the link {}, which commands may replace; name the directory \
                     itself",
                    link.display()
                )));
            }
        }
        Ok(())
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
                    if self.hidden.contains(path) {
                        self.hidden.insert(alias.clone());
                    }
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

    /// A temporary directory. One that is missing, relative, hidden or behind a link that a command may
    /// replace is not writable; it was not asked for by name, so the policy holds without it.
    fn add_shared(&mut self, given: &Path) -> Result<(), SpawnError> {
        if !given.is_absolute() {
            return Ok(());
        }
        let Some(path) = canonical(given)? else {
            return Ok(());
        };
        let is_hidden = path.ancestors().any(|above| self.hidden.contains(above));
        let links = links_on(given).map_err(|error| unresolved(given, &error))?;
        let is_replaceable = links.iter().any(|link| self.around(link) == Access::Write);
        if is_hidden || is_replaceable {
            return Ok(());
        }
        self.add_writable(path, given)
    }

    fn add_roots(&mut self, given: &[PathBuf]) -> Result<(), SpawnError> {
        let roots = given
            .iter()
            .map(|given| Ok((root(given)?, given)))
            .collect::<Result<Vec<_>, SpawnError>>()?;
        // A root that is itself a protected name was named on purpose.
        let named: BTreeSet<&Path> = roots.iter().map(|(root, _)| root.as_path()).collect();
        for (root, given) in &roots {
            self.lead(given, root)?;
            for name in PROTECTED {
                self.protect(root.join(name), &named)?;
            }
            self.add_writable(root.clone(), given)?;
        }
        Ok(())
    }

    fn protect(&mut self, given: PathBuf, named: &BTreeSet<&Path>) -> Result<(), SpawnError> {
        if named.contains(given.as_path()) {
            return Ok(());
        }
        match given.symlink_metadata() {
            // The root has no links in it; only a name that is one needs to be resolved.
            Ok(found) if !found.is_symlink() => {
                if mount_points::is_ours(&given, &found) {
                    // Made for another command, which may be about to end.
                    self.missing.insert(given.clone());
                }
                self.add(given, Access::Read);
            }
            Err(error) if is_missing(&error) => {
                self.missing.insert(given.clone());
                self.add(given, Access::Read);
            }
            Ok(_) | Err(_) => match canonical(&given)? {
                Some(path) => self.add_protected(&given, path, Access::Read)?,
                // Nothing can be mounted over a link that leads nowhere.
                None => return Err(refused(&given).because("it is a link that leads nowhere")),
            },
        }
        Ok(())
    }

    /// A rule about a protected name that does not exist: it may not come to exist either.
    fn protect_missing(&mut self, given: &Path) -> Result<(), SpawnError> {
        let name = given
            .file_name()
            .filter(|name| PROTECTED.iter().any(|known| name == known));
        if let (Some(name), Some(parent)) = (name, given.parent())
            && let Some(parent) = canonical(parent)?
            && parent.is_dir()
        {
            let path = parent.join(name);
            self.missing.insert(path.clone());
            self.add(path, Access::Read);
        }
        Ok(())
    }

    fn add_writable(&mut self, path: PathBuf, given: &Path) -> Result<(), SpawnError> {
        if path == Path::new("/") {
            return Err(refused(given).because("the root directory cannot be a writable root"));
        }
        self.add(path, Access::Write);
        Ok(())
    }

    /// Remembers the links that lead to a writable path.
    fn lead(&mut self, given: &Path, path: &Path) -> Result<(), SpawnError> {
        if given != path {
            let links = links_on(given).map_err(|error| unresolved(given, &error))?;
            self.led.push(Led {
                given: given.to_owned(),
                links,
            });
        }
        Ok(())
    }

    /// What the most specific rule says; nothing at all below a hidden path.
    pub(super) fn access(&self, path: &Path) -> Access {
        if path.ancestors().any(|above| self.hidden.contains(above)) {
            return Access::Deny;
        }
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

    /// Whether the path is one of the hidden ones.
    pub(super) fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.contains(path)
    }

    /// Whether a rule is about exactly this path.
    pub(super) fn names(&self, path: &Path) -> bool {
        self.paths.contains_key(path)
    }

    /// Protected names that need a mount point of their own for as long as a command runs.
    pub(super) fn missing(&self) -> impl Iterator<Item = &Path> {
        let missing = self.missing.iter().map(PathBuf::as_path);
        missing.filter(|path| self.around(path) == Access::Write)
    }

    /// Whether it is a protected name that does not exist.
    pub(super) fn is_missing(&self, path: &Path) -> bool {
        self.missing.contains(path)
    }

    /// Takes back the protection of a name that no command can create.
    pub(super) fn give_up(&mut self, path: &Path) {
        self.missing.remove(path);
        self.paths.remove(path);
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

/// A root without links.
fn root(given: &Path) -> Result<PathBuf, SpawnError> {
    let Some(root) = canonical(given)? else {
        return Err(refused(given).os(libc::ENOENT));
    };
    if root.is_dir() {
        Ok(root)
    } else {
        Err(refused(given).os(libc::ENOTDIR))
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
