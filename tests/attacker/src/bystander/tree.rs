//! A directory as lines of text: equal lines, equal directories.

use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::sys::{into, sys};

/// Larger files are compared by size and time.
const CONTENTS_MAX: u64 = 64 * 1024;
/// More entries than any test makes.
const ENTRIES_MAX: usize = 2_000;

const FS_IOC_GETFLAGS: usize = 0x8008_6601;
const FS_IOC_GETVERSION: usize = 0x8008_7601;
const FS_IOC_FSGETXATTR: usize = 0x801c_581f;

/// One line for each entry, sorted by path; links are not followed.
pub(super) fn of(root: &Path) -> Vec<String> {
    let mut lines = vec![line(root)];
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            if lines.len() > ENTRIES_MAX {
                lines.push("more entries than can be compared".to_owned());
                return lines;
            }
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push(path.clone());
            }
            lines.push(line(&path));
        }
    }
    lines.sort();
    lines
}

fn line(path: &Path) -> String {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return format!("{} is missing", path.display());
    };
    let mut line = format!(
        "{} {:o} {}:{} {} links, {} bytes, {}.{:09} ",
        path.display(),
        found.mode(),
        found.uid(),
        found.gid(),
        found.nlink(),
        found.size(),
        found.mtime(),
        found.mtime_nsec()
    );
    // The change time tells of every change of metadata, extended attributes included.
    line.push_str(&format!("{}.{:09}", found.ctime(), found.ctime_nsec()));
    if found.is_file() || found.is_dir() {
        line.push_str(&inode(path));
    }
    if found.is_file() && found.size() <= CONTENTS_MAX {
        let bytes = std::fs::read(path).unwrap_or_default();
        line.push_str(&format!(" {:016x}", hash(&bytes)));
    }
    if let Ok(target) = std::fs::read_link(path) {
        line.push_str(&format!(" -> {}", target.display()));
    }
    line
}

/// Flags, version and project of an inode, where the file system has them.
fn inode(path: &Path) -> String {
    let Ok(file) = std::fs::File::open(path) else {
        return " unreadable".to_owned();
    };
    let fd = file.as_raw_fd() as usize;
    let (mut flags, mut version, mut extended) = (0_u64, 0_u64, [0_u32; 7]);
    let _ = sys(libc::SYS_ioctl, &[fd, FS_IOC_GETFLAGS, into(&mut flags)]);
    let _ = sys(
        libc::SYS_ioctl,
        &[fd, FS_IOC_GETVERSION, into(&mut version)],
    );
    let _ = sys(
        libc::SYS_ioctl,
        &[fd, FS_IOC_FSGETXATTR, into(&mut extended)],
    );
    format!(
        " flags {flags:#x} version {version} project {}",
        extended[3]
    )
}

/// FNV-1a: a change by accident is noticed, which is all that is needed.
fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
