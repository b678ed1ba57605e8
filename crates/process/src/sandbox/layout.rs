//! From rules about paths to what the kernel is told: grants for Landlock, and mounts.
//!
//! Landlock's rules only add rights: a grant holds for everything below. So a rule that allows more
//! than what surrounds it becomes a grant, and one that allows less becomes a mount over the path. A
//! mount can be gone round by renaming a directory above it, hence every such directory that could be
//! renamed is mounted on itself, which makes renaming fail with EBUSY.
//!
//! Pure: reads no file system. What was asked for and cannot be expressed is refused with its path.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::policy::{DEVICES, Rules, refused};
use crate::error::SpawnError;
use crate::sandbox::Access;

/// What to grant and what to mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// Never [`Access::Deny`]; a directory before what lies in it.
    pub(super) grants: Vec<(PathBuf, Access)>,
    /// Ordered by components: a directory before what lies in it.
    pub(super) mounts: BTreeMap<PathBuf, Cover>,
}

/// What a mount does to its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// Keeps the name where it is.
    Pin,
    /// Everything below can only be read.
    ReadOnly,
    /// There is nothing to be seen.
    Mask,
}

impl Layout {
    /// How to enforce the rules for a process with this terminal.
    pub(super) fn of(rules: &Rules, pts: Option<&Path>) -> Result<Self, SpawnError> {
        let mut layout = Self::default();
        for (path, access) in rules.iter() {
            // What is always writable stays so, whatever a rule says.
            if always_writable(pts).any(|device| device == path) {
                continue;
            }
            let around = rules.around(path);
            if access < around || rules.is_alias(path) {
                layout.cover(path, access, pts)?;
            } else if access > around {
                layout.grant(path, access)?;
            }
        }
        layout.pin_links(rules);
        layout.pin_above(rules);
        Ok(layout)
    }

    fn grant(&mut self, path: &Path, access: Access) -> Result<(), SpawnError> {
        // The nearest mount hides what is below it, or makes it read-only.
        let above = path
            .ancestors()
            .find_map(|above| self.mounts.get(above).map(|cover| (above, *cover)));
        if let Some((above, cover)) = above {
            let allows = match cover {
                Cover::Pin => Access::Write,
                Cover::ReadOnly => Access::Read,
                Cover::Mask => Access::Deny,
            };
            if access > allows {
                return Err(refused(path).because(format!(
                    "it allows more than {}, which itself allows less than what is around it",
                    above.display()
                )));
            }
        }
        self.grants.push((path.to_owned(), access));
        Ok(())
    }

    fn cover(&mut self, path: &Path, access: Access, pts: Option<&Path>) -> Result<(), SpawnError> {
        let cover = match access {
            Access::Deny => Cover::Mask,
            Access::Read | Access::Write => Cover::ReadOnly,
        };
        // Devices can be written on a read-only mount, but not below a mask.
        let hidden = always_writable(pts).find(|device| device.starts_with(path));
        if let (Cover::Mask, Some(device)) = (cover, hidden) {
            return Err(refused(path).because(format!("{} must stay writable", device.display())));
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
}

fn is_renamable(path: &Path, rules: &Rules) -> bool {
    rules.around(path) == Access::Write
}

/// The devices every process may write to, and its own terminal.
pub(super) fn always_writable(pts: Option<&Path>) -> impl Iterator<Item = &Path> {
    DEVICES.iter().map(Path::new).chain(pts)
}
