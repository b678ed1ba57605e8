//! From rules about paths to what the kernel is told: grants for Landlock, and mounts.
//!
//! Landlock's rules only add rights: a grant holds for everything below. So a rule that allows more
//! than what surrounds it becomes a grant, and one that allows less becomes a mount over the path. A
//! path that may not even be read is also left out of the grant around it, which then is a grant for
//! every entry beside the way to that path. A mount can be avoided by renaming a directory above it,
//! hence every such directory that could be renamed is mounted on itself, which makes renaming fail
//! with EBUSY; so is every writable path inside of another one. Where mounts are available, everything
//! that is not writable is mounted read-only: Landlock knows nothing of modes, owners, times and
//! attributes.
//!
//! Pure: reads no file system. What was asked for and cannot be expressed is refused with its path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::policy::{DEVICES, Rules, refused};
use crate::error::SpawnError;
use crate::sandbox::Access;

/// Programs read these; all other devices stay closed to reading, the user's terminals and raw disks
/// among them.
const READABLE_DEVICES: [&str; 2] = ["/dev/random", "/dev/urandom"];

/// Where POSIX shared memory and semaphores are files.
pub(super) const SHARED_MEMORY: &str = "/dev/shm";

/// What to grant and what to mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Never [`Access::Deny`]; a directory before what lies in it.
    pub(super) grants: Vec<(PathBuf, Access)>,
    /// Left out of the grants for reading around them.
    pub(super) excluded: BTreeSet<PathBuf>,
    /// Ordered by components: a directory before what lies in it.
    pub(super) mounts: BTreeMap<PathBuf, Cover>,
    /// Mounts that make what Landlock denies invisible as well, where mounts are available.
    masks: BTreeSet<PathBuf>,
}

/// What a mount does to its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// Keeps the name where it is.
    Pin,
    /// Everything below can only be read.
    ReadOnly,
    /// An empty directory is there.
    Empty,
    /// There is nothing to be seen.
    Mask,
    /// Everything below can be written, although what is around it cannot.
    Open,
    /// Everything but what is opened again can only be read.
    Freeze,
    /// This directory is seen instead, and can be written.
    Instead(PathBuf),
}

impl Layout {
    /// How to enforce the rules for a process with this terminal.
    pub(super) fn of(rules: &Rules, pts: Option<&Path>) -> Result<Self, SpawnError> {
        let mut layout = Self::default();
        layout.close_devices(rules);
        for (path, access) in rules.iter() {
            // What is always writable stays so, whatever a rule says.
            if always_writable(pts).any(|device| device == path) {
                continue;
            }
            let around = rules.around(path);
            if access < around || rules.is_alias(path) {
                layout.reduce(rules, path, (access, around), pts)?;
            } else if access > around {
                layout.grant(path, access)?;
            } else if access == Access::Write {
                // Else a command could replace the directory, and with it what the next command
                // gets for this rule.
                layout.mounts.insert(path.to_owned(), Cover::Pin);
            }
        }
        layout.pin_links(rules);
        layout.pin_above(rules);
        if !layout.mounts.is_empty() {
            layout.freeze(rules);
        }
        Ok(layout)
    }

    /// The same with mounts although no rule needs them.
    #[must_use]
    pub(super) fn with_mounts(mut self, rules: &Rules) -> Self {
        for path in std::mem::take(&mut self.masks) {
            self.mounts.insert(path, Cover::Mask);
        }
        self.freeze(rules);
        self
    }

    /// Shows a directory of the process's own as the machine's shared memory.
    pub(super) fn with_shared_memory(&mut self, rules: &Rules, own: &Path) {
        let path = Path::new(SHARED_MEMORY);
        if rules.access(path) == Access::Read {
            let instead = Cover::Instead(own.to_owned());
            self.mounts.insert(path.to_owned(), instead);
            self.grants.push((own.to_owned(), Access::Write));
        }
    }

    /// Whether everything that may not be seen is closed by Landlock alone.
    pub(super) fn needs_no_mask(&self) -> bool {
        !self.mounts.values().any(|cover| *cover == Cover::Mask)
    }

    /// Whether nothing at all is writable.
    pub(super) fn is_frozen(&self) -> bool {
        self.first_writable().is_none()
    }

    /// A path that is writable although not everything is.
    pub(super) fn first_writable(&self) -> Option<&Path> {
        let mut grants = self.grants.iter();
        let (path, _) = grants.find(|(_, access)| *access == Access::Write)?;
        Some(path)
    }

    /// Leaves devices out of what is only read, but for the harmless ones and those that a rule names.
    fn close_devices(&mut self, rules: &Rules) {
        let devices = Path::new("/dev");
        if rules.access(devices) != Access::Read {
            return;
        }
        self.excluded.insert(devices.to_owned());
        for device in READABLE_DEVICES.map(Path::new) {
            if rules.access(device) == Access::Read && !rules.names(device) {
                self.grants.push((device.to_owned(), Access::Read));
            }
        }
    }

    fn grant(&mut self, path: &Path, access: Access) -> Result<(), SpawnError> {
        // The nearest mount hides what is below it, or makes it read-only.
        let above = path
            .ancestors()
            .find_map(|above| self.mounts.get(above).map(|cover| (above, cover)));
        match above {
            Some((above, Cover::Mask)) => {
                return Err(refused(path).because(format!(
                    "it lies in {}, where nothing can be seen",
                    above.display()
                )));
            }
            Some((_, Cover::ReadOnly | Cover::Empty)) => {
                self.mounts.insert(path.to_owned(), Cover::Open);
            }
            Some((_, Cover::Pin | Cover::Open | Cover::Freeze | Cover::Instead(_))) | None => {}
        }
        self.grants.push((path.to_owned(), access));
        Ok(())
    }

    /// Less than around it: a mount, and where it cannot be read no grant either.
    fn reduce(
        &mut self,
        rules: &Rules,
        path: &Path,
        (access, around): (Access, Access),
        pts: Option<&Path>,
    ) -> Result<(), SpawnError> {
        let cover = match access {
            Access::Deny => Cover::Mask,
            Access::Read | Access::Write if rules.is_missing(path) => Cover::Empty,
            Access::Read | Access::Write => Cover::ReadOnly,
        };
        // Devices can be written on a read-only mount, but not below a mask.
        let below = always_writable(pts).find(|device| device.starts_with(path));
        if let (Cover::Mask, Some(device)) = (&cover, below) {
            return Err(refused(path).because(format!("{} must stay writable", device.display())));
        }
        if access == Access::Deny && around == Access::Read {
            self.excluded.insert(path.to_owned());
            if rules.is_hidden(path) {
                self.masks.insert(path.to_owned());
                return Ok(());
            }
        }
        self.mounts.insert(path.to_owned(), cover);
        Ok(())
    }

    /// A link that names something protected must not be replaced by something else.
    fn pin_links(&mut self, rules: &Rules) {
        for link in rules.links() {
            if is_renamable(link, rules) {
                self.mounts.entry(link.to_owned()).or_insert(Cover::Pin);
            }
        }
    }

    /// Every directory above a mount that could be renamed with all below it, and another put in its
    /// place.
    fn pin_above(&mut self, rules: &Rules) {
        let covered: Vec<PathBuf> = self.mounts.keys().cloned().collect();
        for path in covered {
            for above in path.ancestors().skip(1) {
                if is_renamable(above, rules) {
                    self.mounts.entry(above.to_owned()).or_insert(Cover::Pin);
                }
            }
        }
    }

    /// What was said about the whole tree comes first, being the shortest path.
    fn freeze(&mut self, rules: &Rules) {
        let root = Path::new("/");
        if rules.access(root) == Access::Write {
            return;
        }
        let writable = self
            .grants
            .iter()
            .filter(|(_, access)| *access == Access::Write);
        for (path, _) in writable {
            self.mounts.insert(path.clone(), Cover::Open);
        }
        self.mounts.insert(root.to_owned(), Cover::Freeze);
    }
}

fn is_renamable(path: &Path, rules: &Rules) -> bool {
    rules.around(path) == Access::Write
}

/// The devices every process may write to, and its own terminal.
pub(super) fn always_writable(pts: Option<&Path>) -> impl Iterator<Item = &Path> {
    DEVICES.iter().map(Path::new).chain(pts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SpawnErrorKind;

    const READ: Access = Access::Read;
    const WRITE: Access = Access::Write;
    const DENY: Access = Access::Deny;

    fn layout(rules: &[(&str, Access)]) -> Result<Layout, SpawnError> {
        let rules = rules.iter().map(|(path, access)| (path.into(), *access));
        Layout::of(&rules.collect(), None)
    }

    /// But for the devices that are always readable.
    fn grants(layout: &Layout) -> Vec<(&str, Access)> {
        let grants = layout.grants.iter();
        grants
            .filter(|(path, _)| !path.starts_with("/dev"))
            .map(|(path, access)| (path.to_str().unwrap(), *access))
            .collect()
    }

    fn mounts(layout: &Layout) -> Vec<(&str, Cover)> {
        let mounts = layout.mounts.iter();
        mounts
            .map(|(path, cover)| (path.to_str().unwrap(), cover.clone()))
            .collect()
    }

    #[test]
    fn what_only_allows_more_needs_no_mounts() {
        let layout = layout(&[("/", READ), ("/p", WRITE), ("/usr", READ), ("/v", WRITE)]).unwrap();
        assert_eq!(grants(&layout), [("/", READ), ("/p", WRITE), ("/v", WRITE)]);
        assert!(layout.mounts.is_empty());
    }

    #[test]
    fn a_writable_path_inside_of_another_one_is_pinned() {
        let layout = layout(&[("/", READ), ("/tmp", WRITE), ("/tmp/a/ws", WRITE)]).unwrap();
        let expected = [
            ("/", Cover::Freeze),
            ("/tmp", Cover::Open),
            ("/tmp/a", Cover::Pin),
            ("/tmp/a/ws", Cover::Pin),
        ];
        assert_eq!(mounts(&layout), expected);
    }

    #[test]
    fn devices_are_left_out_of_what_is_read_unless_a_rule_names_one() {
        let device = |name: &str| (PathBuf::from(name), READ);
        for rules in [&[("/", READ)][..], &[("/usr", READ), ("/dev", READ)][..]] {
            let closed = layout(rules).unwrap();
            assert!(closed.excluded.contains(Path::new("/dev")));
            assert!(closed.grants.contains(&device("/dev/urandom")));
        }
        let open = layout(&[("/", READ), ("/dev/dri", WRITE)]).unwrap();
        assert!(open.grants.contains(&("/dev/dri".into(), WRITE)));
        let none = layout(&[("/usr", READ)]).unwrap();
        assert!(!none.grants.contains(&device("/dev/urandom")));
    }

    #[test]
    fn where_mounts_can_be_had_whatever_is_not_writable_is_frozen() {
        let rules: Rules = [("/", READ), ("/p", WRITE)]
            .map(|(path, access)| (path.into(), access))
            .into_iter()
            .collect();
        let layout = Layout::of(&rules, None).unwrap().with_mounts(&rules);
        let expected = [("/", Cover::Freeze), ("/p", Cover::Open)];
        assert_eq!(mounts(&layout), expected);
        let rules: Rules = [("/".into(), READ)].into_iter().collect();
        let layout = Layout::of(&rules, None).unwrap().with_mounts(&rules);
        assert_eq!(mounts(&layout), [("/", Cover::Freeze)]);
    }

    #[test]
    fn what_allows_less_is_covered_and_what_is_above_it_is_pinned_where_it_could_be_renamed() {
        let layout = layout(&[
            ("/", READ),
            ("/tmp", WRITE),
            ("/tmp/a/p", WRITE),
            ("/tmp/a/p/.git", READ),
            ("/home/p", WRITE),
            ("/home/p/.env", DENY),
        ])
        .unwrap();
        let expected = [
            ("/", Cover::Freeze),
            ("/home/p", Cover::Open),
            ("/home/p/.env", Cover::Mask),
            ("/tmp", Cover::Open),
            ("/tmp/a", Cover::Pin),
            ("/tmp/a/p", Cover::Pin),
            ("/tmp/a/p/.git", Cover::ReadOnly),
        ];
        assert_eq!(mounts(&layout), expected);
        let expected = [("/", READ), ("/home/p", WRITE), ("/tmp", WRITE)];
        assert_eq!(grants(&layout), expected);
    }

    #[test]
    fn a_writable_root_directory_is_not_frozen() {
        let layout = layout(&[("/", WRITE), ("/a/b", READ), ("/a/b/c", WRITE)]).unwrap();
        let expected = [
            ("/a", Cover::Pin),
            ("/a/b", Cover::ReadOnly),
            ("/a/b/c", Cover::Open),
        ];
        assert_eq!(mounts(&layout), expected);
    }

    #[test]
    fn a_rule_about_a_device_that_is_always_writable_changes_nothing() {
        let with = layout(&[("/", READ), ("/dev/null", DENY)]).unwrap();
        assert_eq!(with, layout(&[("/", READ)]).unwrap());
    }

    #[test]
    fn nothing_can_be_seen_below_a_mask() {
        for rules in [
            [("/", READ), ("/a", DENY), ("/a/b", READ)],
            [("/", WRITE), ("/a", DENY), ("/a/b", WRITE)],
        ] {
            let error = layout(&rules).unwrap_err();
            assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
            assert_eq!(error.path.as_deref(), Some(Path::new("/a/b")));
        }
        // Nothing is masked where nothing was visible.
        let layout = layout(&[("/a", DENY), ("/a/b", READ)]).unwrap();
        assert_eq!(grants(&layout), [("/a/b", READ)]);
    }
}
