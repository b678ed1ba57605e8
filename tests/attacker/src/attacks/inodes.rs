//! Flags of inodes outside, and inodes of a dangerous kind inside.

use std::ffi::CStr;

use crate::scene::Scene;
use crate::sys::{CWD, at, c, close, cstring, into, mode_of, open, open_mode, sys};
use crate::tries::{Tries, Verdict};

// Numbers of `ioctl` as every 64-bit architecture of ours has them.
const FS_IOC_GETFLAGS: usize = 0x8008_6601;
const FS_IOC_SETFLAGS: usize = 0x4008_6602;
const FS_IOC_SETVERSION: usize = 0x4008_7602;
const FS_IOC_FSGETXATTR: usize = 0x801c_581f;
const FS_IOC_FSSETXATTR: usize = 0x401c_5820;
const FS_IOC_ENABLE_VERITY: usize = 0x4080_6685;
const FS_IOC_SET_ENCRYPTION_POLICY: usize = 0x800c_6613;
const EXT4_IOC_SETVERSION: usize = 0x4008_6604;
const EXT4_IOC_MIGRATE: usize = 0x6609;
const FIFREEZE: usize = 0xc004_5877;
const BTRFS_IOC_SUBVOL_CREATE: usize = 0x5000_940e;
const FS_NODUMP_FL: libc::c_long = 0x40;

/// Errors of a file system that has no such control, or none for this file.
const UNKNOWN: [i32; 3] = [libc::ENOTTY, libc::EOPNOTSUPP, libc::EINVAL];

pub(super) fn change_flags(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for name in ["file", "dir"] {
        let Ok(fd) = open(&scene.path("outside", name), libc::O_RDONLY) else {
            tries.skip(format!("{name} cannot be opened"));
            continue;
        };
        let mut flags: libc::c_long = 0;
        let ioctl =
            |number: usize, argument: usize| sys(libc::SYS_ioctl, &[fd as usize, number, argument]);
        let _ = ioctl(FS_IOC_GETFLAGS, into(&mut flags));
        let new = flags | FS_NODUMP_FL;
        let mut extended = [0_u32; 7];
        let _ = ioctl(FS_IOC_FSGETXATTR, into(&mut extended));
        extended[3] = 7;
        let generation: libc::c_long = 7;
        let verity = [0_u32; 32];
        let policy = [0_u8; 12];
        let subvolume = [0_u8; 4096];
        for (what, number, argument) in [
            ("flags", FS_IOC_SETFLAGS, at(&new)),
            ("project", FS_IOC_FSSETXATTR, at(&extended)),
            ("version", FS_IOC_SETVERSION, at(&generation)),
            ("version of ext4", EXT4_IOC_SETVERSION, at(&generation)),
            ("verity", FS_IOC_ENABLE_VERITY, at(&verity)),
            ("encryption", FS_IOC_SET_ENCRYPTION_POLICY, at(&policy)),
            ("migration", EXT4_IOC_MIGRATE, 0),
            ("subvolume", BTRFS_IOC_SUBVOL_CREATE, at(&subvolume)),
        ] {
            match ioctl(number, argument) {
                Err(errno) if UNKNOWN.contains(&errno) => tries.skip(format!("{what} of a {name}")),
                answer => tries.must_fail(format!("{what} of a {name}"), answer),
            }
        }
        // As root with full rights this would stop the file system, so only where it is refused.
        if scene.says("confined") {
            tries.must_fail("freeze", ioctl(FIFREEZE, 0));
        }
        close(fd);
    }
    tries.verdict()
}

fn is_set_id(path: &CStr) -> bool {
    mode_of(path).is_some_and(|mode| mode & (libc::S_ISUID | libc::S_ISGID) != 0)
}

pub(super) fn leave_setuid_programs(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let tool = scene.path("root", "tool");
    let create = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
    for mode in [0o4755_u32, 0o2755, 0o6755] {
        let mode = mode as usize;
        let fresh = |how: &str| scene.path("root", &format!("set-id-{how}-{mode:o}"));
        let path = fresh("open");
        let _ = open_mode(&path, create, mode as u32).map(close);
        tries.must_not(format!("open {mode:o}"), is_set_id(&path));
        let path = fresh("mknod");
        let _ = sys(
            libc::SYS_mknodat,
            &[CWD, c(&path), mode | libc::S_IFREG as usize, 0],
        );
        tries.must_not(format!("mknod {mode:o}"), is_set_id(&path));
        let path = fresh("mkdir");
        let _ = sys(libc::SYS_mkdirat, &[CWD, c(&path), mode]);
        tries.must_not(format!("mkdir {mode:o}"), is_set_id(&path));
        let how = [(create | libc::O_CLOEXEC) as u64, mode as u64, 0];
        let path = fresh("openat2");
        let _ = sys(libc::SYS_openat2, &[CWD, c(&path), at(&how), 24]);
        tries.must_not(format!("openat2 {mode:o}"), is_set_id(&path));
        let path = fresh("nameless");
        let nameless = libc::O_RDWR | libc::O_TMPFILE;
        if let Ok(fd) = open_mode(&scene.path("root", ""), nameless, mode as u32) {
            let from = cstring(format!("/proc/self/fd/{fd}"));
            let follow = libc::AT_SYMLINK_FOLLOW as usize;
            let _ = sys(libc::SYS_linkat, &[CWD, c(&from), CWD, c(&path), follow]);
            let _ = sys(libc::SYS_fchmod, &[fd as usize, mode]);
            close(fd);
        }
        tries.must_not(format!("file without a name {mode:o}"), is_set_id(&path));
        // The bits in the upper half of the register, which the kernel does not look at, are noise.
        let noisy = mode | 0x5555_0000_0000_0000;
        for (how, number) in [("fchmodat", libc::SYS_fchmodat), ("fchmodat2", 452)] {
            let _ = sys(number, &[CWD, c(&tool), mode, 0]);
            tries.must_not(format!("{how} {mode:o}"), is_set_id(&tool));
            let _ = sys(number, &[CWD, c(&tool), noisy, 0]);
            tries.must_not(format!("{how} {mode:o} with noise"), is_set_id(&tool));
        }
        if let Ok(fd) = open(&tool, libc::O_RDONLY) {
            let _ = sys(libc::SYS_fchmod, &[fd as usize, mode]);
            tries.must_not(format!("fchmod {mode:o}"), is_set_id(&tool));
        }
        #[cfg(target_arch = "x86_64")]
        {
            let path = fresh("creat");
            let _ = sys(libc::SYS_creat, &[c(&path), mode]).map(close);
            tries.must_not(format!("creat {mode:o}"), is_set_id(&path));
            let path = fresh("old-open");
            let _ = sys(libc::SYS_open, &[c(&path), create as usize, mode]).map(close);
            tries.must_not(format!("open of old {mode:o}"), is_set_id(&path));
            let _ = sys(libc::SYS_chmod, &[c(&tool), mode]);
            tries.must_not(format!("chmod {mode:o}"), is_set_id(&tool));
        }
    }
    // `cap_setuid+ep`, version 2.
    let capability = [0x0200_0001_u32, 1 << 7, 0, 0, 0];
    let set = [c(&tool), c(c"security.capability"), at(&capability), 20, 0];
    tries.must_fail("file capability", sys(libc::SYS_setxattr, &set));
    tries.verdict()
}

pub(super) fn make_devices(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for (what, kind, device) in [
        ("character device", libc::S_IFCHR, libc::makedev(1, 5)),
        ("memory", libc::S_IFCHR, libc::makedev(1, 1)),
        ("block device", libc::S_IFBLK, libc::makedev(7, 0)),
    ] {
        for key in ["root", "outside"] {
            let path = scene.path(key, &format!("device-{device}"));
            let mode = (kind | 0o666) as usize;
            let made = sys(libc::SYS_mknodat, &[CWD, c(&path), mode, device as usize]);
            tries.must_fail(format!("{what} in {key}"), made);
        }
    }
    tries.verdict()
}
