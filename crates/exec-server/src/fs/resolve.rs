//! Where a path really leads, link by link.
//!
//! The result holds no links and no `..`, so that a policy can be asked about it; it may end in names
//! that do not exist yet. A link that lies where nothing may be read is not followed either: its
//! target would be told. Nothing is opened here, so the answer may be old when it arrives; who opens
//! the result does so without following links.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, readlinkat};
use rustix::io::Errno;
use turnlane_process::Access;

use super::failure::Result;
use super::guard::{Guard, Links};

/// As many as the system follows.
const LINKS_MAX: usize = 40;

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    /// Without links and `..`.
    pub(super) path: PathBuf,
    /// How many names at its end do not exist.
    pub(super) missing: usize,
    /// Whether a link at the end was followed.
    pub(super) by_link: bool,
}

/// One step.
enum Part {
    Up,
    Name(OsString),
}

/// Follows `path` as far as `links` says.
pub(super) fn resolve(guard: &Guard, path: &Path, links: Links) -> Result<Resolved> {
    let mut at = PathBuf::from("/");
    let mut rest: VecDeque<Part> = parts(path).collect();
    let mut followed = 0;
    let mut by_link = false;
    while let Some(part) = rest.pop_front() {
        let name = match part {
            Part::Up => {
                at.pop();
                continue;
            }
            Part::Name(name) => name,
        };
        let here = at.join(name);
        match readlinkat(CWD, &here, Vec::new()) {
            Ok(_) if rest.is_empty() && links != Links::Follow => at = here,
            Ok(_) if links == Links::Refuse => return Err(Errno::LOOP.into()),
            Ok(target) => {
                guard.permit(&here, Access::Read)?;
                followed += 1;
                if followed > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                by_link |= rest.is_empty();
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                for part in parts(&target).rev() {
                    rest.push_front(part);
                }
            }
            // Not a link.
            Err(Errno::INVAL) => at = here,
            Err(error) => {
                let tail: Option<Vec<_>> = rest.iter().map(Part::name).collect();
                let Some(tail) = tail else {
                    return Err(error.into());
                };
                let whole = tail.iter().fold(here, |path, name| path.join(name));
                // Whether something exists where nothing may be read is not told.
                guard.permit(&whole, Access::Read)?;
                if error != Errno::NOENT {
                    return Err(error.into());
                }
                return Ok(Resolved {
                    path: whole,
                    missing: 1 + tail.len(),
                    by_link,
                });
            }
        }
    }
    Ok(Resolved {
        path: at,
        missing: 0,
        by_link,
    })
}

impl Part {
    fn name(&self) -> Option<&OsStr> {
        match self {
            Self::Up => None,
            Self::Name(name) => Some(name),
        }
    }
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = Part> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(Part::Name(name.to_owned())),
        Component::ParentDir => Some(Part::Up),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_lead_where_the_system_says() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::create_dir_all(home.join("a/b")).unwrap();
        fs::write(home.join("a/b/file"), "").unwrap();
        symlink("a/b", home.join("relative")).unwrap();
        symlink(home.join("a"), home.join("absolute")).unwrap();
        symlink("../absolute/b/file", home.join("a/chain")).unwrap();
        symlink("nowhere", home.join("dangling")).unwrap();
        symlink("loop", home.join("loop")).unwrap();
        let guard = Guard::unrestricted();
        for path in [
            "a/b/file",
            "relative/file",
            "absolute/b/../chain",
            "relative/../b",
            "a/chain",
            ".",
        ] {
            let path = home.join(path);
            let resolved = resolve(&guard, &path, Links::Follow).unwrap();
            assert_eq!(resolved.path, path.canonicalize().unwrap());
            assert_eq!(resolved.missing, 0);
        }
        let resolved = |path: &str, links| resolve(&guard, &home.join(path), links);
        assert!(resolved("a/chain", Links::Follow).unwrap().by_link);
        assert!(!resolved("relative/file", Links::Follow).unwrap().by_link);
        let missing = resolved("dangling", Links::Follow).unwrap();
        assert_eq!((missing.path, missing.missing), (home.join("nowhere"), 1));
        let missing = resolved("relative/x/y", Links::Follow).unwrap();
        assert_eq!((missing.path, missing.missing), (home.join("a/b/x/y"), 2));
        assert!(
            resolved("x/../a", Links::Follow)
                .unwrap_err()
                .is_not_found()
        );
        assert!(resolved("loop", Links::Follow).is_err());
        let kept = resolved("absolute/chain", Links::KeepLast).unwrap();
        assert_eq!((kept.path, kept.by_link), (home.join("a/chain"), false));
        assert!(resolved("relative/file", Links::Refuse).is_err());
        assert_eq!(
            resolved("a/chain", Links::Refuse).unwrap().path,
            home.join("a/chain")
        );
    }
}
