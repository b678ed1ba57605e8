//! Other paths to the same file or directory, through file systems that are mounted more than once.
//!
//! Landlock grants a directory by its inode, whichever mount leads to it, but a read-only mount
//! covers one path only. So a protected path must be covered at every place where it can be reached,
//! else `/mnt/disk/home/me/project/.git` is writable while `/home/me/project/.git` is not. Reads the
//! table of mounts; changes nothing.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, CWD, StatxFlags};

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    id: u64,
    /// `major:minor`, the same for every mount of one file system.
    device: Vec<u8>,
    /// Which directory of the file system is mounted.
    root: PathBuf,
    point: PathBuf,
}

/// What a path leads to, and through which mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    mount: u64,
    inode: u64,
    device: (u32, u32),
}

/// The last table that was read; one descriptor stays open for it.
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);

struct Known {
    /// Which namespace's: a thread may have one of its own.
    namespace: u64,
    file: File,
    aliases: Arc<Aliases>,
}

impl Known {
    fn refreshed(&mut self) -> io::Result<Arc<Aliases>> {
        let mut changed = [PollFd::new(&self.file, PollFlags::PRI)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // Asking also says that the change was seen, so it comes before reading.
        if rustix::event::poll(&mut changed, Some(&at_once))? > 0 {
            self.file.rewind()?;
            self.aliases = Arc::new(Aliases::read(&self.file)?);
        }
        Ok(Arc::clone(&self.aliases))
    }
}

/// The mounts of this process's namespace.
#[derive(Debug)]
pub(super) struct Aliases {
    mounts: Vec<Mount>,
}

impl Aliases {
    /// The table as it is now.
    ///
    /// It is read again only when the kernel says that it has changed, since writing it takes the
    /// kernel longer than everything else a policy needs.
    pub(super) fn now() -> io::Result<Arc<Self>> {
        let namespace = rustix::fs::stat("/proc/thread-self/ns/mnt")?.st_ino;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_mut().filter(|known| known.namespace == namespace) {
            return known.refreshed();
        }
        let file = File::open("/proc/thread-self/mountinfo")?;
        let aliases = Arc::new(Self::read(&file)?);
        *known = Some(Known {
            namespace,
            file,
            aliases: Arc::clone(&aliases),
        });
        Ok(aliases)
    }

    fn read(mut file: &File) -> io::Result<Self> {
        let mut table = Vec::with_capacity(16 * 1024);
        file.read_to_end(&mut table)?;
        let lines = table.split(|&byte| byte == b'\n');
        Ok(Self {
            mounts: lines.filter_map(parse).collect(),
        })
    }

    /// Where else the path, or a part of what lies below it, can be reached now.
    pub(super) fn of(&self, path: &Path) -> Vec<PathBuf> {
        self.of_with(path, look)
    }

    fn of_with(&self, path: &Path, look: impl Fn(&Path) -> Option<Seen>) -> Vec<PathBuf> {
        let Some(seen) = look(path) else {
            return Vec::new();
        };
        let Some((inside, device)) = self.inside(path, seen.mount) else {
            return Vec::new();
        };
        let others = self
            .mounts
            .iter()
            .filter(|mount| mount.id != seen.mount && mount.device == device);
        others
            .filter_map(|mount| {
                if let Ok(rest) = inside.strip_prefix(&mount.root) {
                    let alias = mount.point.components().chain(rest.components()).collect();
                    // Another mount may lie over it, or another directory be there by now.
                    let same = Some(Seen {
                        mount: mount.id,
                        ..seen
                    });
                    Some(alias).filter(|alias: &PathBuf| look(alias) == same)
                } else {
                    let point = &mount.point;
                    let reachable =
                        mount.root.starts_with(&inside) && look(point)?.mount == mount.id;
                    Some(point.clone()).filter(|_| reachable)
                }
            })
            .filter(|alias| alias != path)
            .collect()
    }

    /// The path as its file system knows it.
    fn inside(&self, path: &Path, id: u64) -> Option<(PathBuf, &[u8])> {
        let mount = self.mounts.iter().find(|mount| mount.id == id)?;
        let rest = path.strip_prefix(&mount.point).ok()?;
        let inside = mount.root.components().chain(rest.components()).collect();
        Some((inside, &mount.device))
    }
}

fn look(path: &Path) -> Option<Seen> {
    let wanted = StatxFlags::INO | StatxFlags::MNT_ID;
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = rustix::fs::statx(CWD, path, flags, wanted).ok()?;
    Some(Seen {
        mount: found.stx_mnt_id,
        inode: found.stx_ino,
        device: (found.stx_dev_major, found.stx_dev_minor),
    })
}

/// `36 35 98:0 /root /point options …`
fn parse(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let device = words.nth(1)?.to_vec();
    let root = unescape(words.next()?);
    let point = unescape(words.next()?);
    Some(Mount {
        id,
        device,
        root,
        point,
    })
}

/// Blanks, line ends and backslashes are written as `\` and three octal digits.
fn unescape(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let code = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(code) = code {
            bytes.push(code);
            rest = &after[3..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &[&str]) -> Aliases {
        Aliases {
            mounts: lines
                .iter()
                .map(|line| parse(line.as_bytes()).unwrap())
                .collect(),
        }
    }

    const ONE_INODE: (u64, (u32, u32)) = (7, (8, 1));

    /// Sees one inode everywhere, through the mounts listed by their points.
    fn through(points: &[(&str, u64)]) -> impl Fn(&Path) -> Option<Seen> {
        move |path| {
            let (_, mount) = points.iter().find(|(point, _)| path.starts_with(point))?;
            let (inode, device) = ONE_INODE;
            Some(Seen {
                mount: *mount,
                inode,
                device,
            })
        }
    }

    #[test]
    fn a_file_system_mounted_twice_gives_a_second_path() {
        let aliases = table(&[
            "20 1 8:1 / / rw - ext4 /dev/a rw",
            "21 20 8:2 /@home /home rw - btrfs /dev/b rw",
            r"22 20 8:2 / /mnt/whole\040disk rw - btrfs /dev/b rw",
            "23 20 8:3 /@home /other rw - btrfs /dev/c rw",
        ]);
        let look = through(&[("/home", 21), ("/mnt/whole disk", 22), ("/other", 23)]);
        assert_eq!(
            aliases.of_with(Path::new("/home/me/.git"), look),
            [PathBuf::from("/mnt/whole disk/@home/me/.git")]
        );
    }

    #[test]
    fn a_mount_of_something_inside_is_found_and_a_hidden_one_is_not() {
        let aliases = table(&[
            "20 1 8:1 / / rw - ext4 /dev/a rw",
            "21 20 8:1 /p/.git/hooks /tmp/hooks rw - ext4 /dev/a rw",
            "22 20 8:1 /p /tmp/hidden rw - ext4 /dev/a rw",
            "23 20 8:9 / /tmp/hidden rw - tmpfs none rw",
        ]);
        let look = through(&[("/tmp/hooks", 21), ("/tmp/hidden", 23), ("/", 20)]);
        assert_eq!(
            aliases.of_with(Path::new("/p/.git"), look),
            [PathBuf::from("/tmp/hooks")]
        );
    }

    #[test]
    fn the_table_of_this_process_can_be_read() {
        let aliases = Aliases::now().unwrap();
        let root = look(Path::new("/")).unwrap();
        assert!(aliases.mounts.iter().any(|mount| mount.id == root.mount));
    }
}
