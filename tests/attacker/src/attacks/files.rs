//! Files outside of the roots, and the names inside them that stay the user's.

use crate::scene::Scene;
use crate::sys::{Answer, CWD, at, c, close, cstring, into, mode_of, open, open_mode, opens, sys};
use crate::tries::{Tries, Verdict};

const CREATE: i32 = libc::O_WRONLY | libc::O_CREAT;

pub(super) fn write_outside(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let outside = |name: &str| scene.path("outside", name);
    let (file, new) = (outside("file"), outside("new"));
    for flags in [
        libc::O_WRONLY,
        libc::O_RDWR,
        libc::O_WRONLY | libc::O_APPEND,
    ] {
        tries.must_fail(format!("open for writing {flags:#o}"), opens(&file, flags));
    }
    tries.must_fail("truncate", sys(libc::SYS_truncate, &[c(&file), 3]));
    tries.must_fail("create", opens(&new, CREATE));
    let _ = sys(libc::SYS_unlinkat, &[CWD, c(&new), 0]);
    if scene.says("confined") {
        tries.must_fail("create below /", opens(c"/turnlane-attack", CREATE));
        tries.must_fail("create in /etc", opens(c"/etc/turnlane-attack", CREATE));
    }
    let nameless = opens(&scene.path("outside", ""), libc::O_RDWR | libc::O_TMPFILE);
    tries.must_fail("file without a name", nameless);
    tries.must_fail("mkdir", sys(libc::SYS_mkdirat, &[CWD, c(&new), 0o700]));
    let rmdir = [CWD, c(&outside("dir")), libc::AT_REMOVEDIR as usize];
    tries.must_fail("rmdir", sys(libc::SYS_unlinkat, &rmdir));
    tries.must_fail(
        "unlink",
        sys(libc::SYS_unlinkat, &[CWD, c(&outside("spare")), 0]),
    );
    tries.must_fail("rename", moved(&file, &outside("moved")));
    tries.must_fail(
        "symlink",
        sys(libc::SYS_symlinkat, &[c(c"x"), CWD, c(&new)]),
    );
    let fifo = (libc::S_IFIFO | 0o600) as usize;
    tries.must_fail("fifo", sys(libc::SYS_mknodat, &[CWD, c(&new), fifo, 0]));
    let plain = scene.path("root", "plain");
    let exchanged = rename(&plain, &file, libc::RENAME_EXCHANGE);
    if exchanged.is_ok() {
        let _ = rename(&plain, &file, libc::RENAME_EXCHANGE);
    }
    tries.must_fail("exchange", exchanged);
    let taken = moved(&file, &scene.path("root", "moved"));
    tries.must_fail("move into the root", taken);
    let given = moved(&scene.path("root", "plain"), &new);
    tries.must_fail("move out of the root", given);
    tries.verdict()
}

fn rename(from: &std::ffi::CStr, to: &std::ffi::CStr, flags: u32) -> Answer {
    sys(
        libc::SYS_renameat2,
        &[CWD, c(from), CWD, c(to), flags as usize],
    )
}

/// Renames, and renames back, so that the next attempt finds its target.
fn moved(from: &std::ffi::CStr, to: &std::ffi::CStr) -> Answer {
    let answer = rename(from, to, libc::RENAME_NOREPLACE);
    if answer.is_ok() {
        let _ = rename(to, from, libc::RENAME_NOREPLACE);
    }
    answer
}

fn link(from: &std::ffi::CStr, to: &std::ffi::CStr) -> Answer {
    let follow = libc::AT_SYMLINK_FOLLOW as usize;
    sys(libc::SYS_linkat, &[CWD, c(from), CWD, c(to), follow])
}

pub(super) fn write_through_links(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let file = scene.path("outside", "file");
    let text = scene.text("outside");
    let symlink = scene.path("root", "link-out");
    let _ = sys(libc::SYS_symlinkat, &[c(&file), CWD, c(&symlink)]);
    tries.must_fail("symlink in the root", opens(&symlink, libc::O_WRONLY));
    let hard = scene.path("root", "hard-out");
    tries.must_fail("hard link into the root", link(&file, &hard));
    tries.must_fail("hard link opened", opens(&hard, libc::O_WRONLY));
    let inner = link(&scene.path("root", "plain"), &scene.path("outside", "new"));
    tries.must_fail("hard link out of the root", inner);
    let mut ways = vec![
        "/proc/self/root".to_owned(),
        "/proc/thread-self/root".to_owned(),
    ];
    for (_, pid) in scene.outsiders() {
        ways.push(format!("/proc/{pid}/root"));
    }
    ways.push("/proc/1/root".to_owned());
    ways.push(format!(
        "/proc/{}/root",
        std::os::unix::process::parent_id()
    ));
    for way in ways {
        let path = cstring(format!("{way}{text}/file"));
        tries.must_fail(format!("through {way}"), opens(&path, libc::O_WRONLY));
    }
    for flags in [libc::O_RDONLY, libc::O_PATH] {
        if let Ok(fd) = open(&file, flags) {
            let again = cstring(format!("/proc/self/fd/{fd}"));
            tries.must_fail(
                format!("reopened from {flags:#o}"),
                opens(&again, libc::O_RDWR),
            );
            let linked = link(&again, &scene.path("root", "linked"));
            tries.must_fail(format!("linked from {flags:#o}"), linked);
            tries.must_fail("ftruncate", sys(libc::SYS_ftruncate, &[fd as usize, 3]));
            let writable = (libc::PROT_READ | libc::PROT_WRITE) as usize;
            let shared = libc::MAP_SHARED as usize;
            let mapped = sys(libc::SYS_mmap, &[0, 4096, writable, shared, fd as usize, 0]);
            tries.must_fail("shared mapping", mapped);
            close(fd);
        }
    }
    // A handle of a file names its inode, past every path.
    let mut handle = [0_u32; 34];
    handle[0] = 128;
    let mut mount = 0_i32;
    let named = [CWD, c(&file), into(&mut handle), into(&mut mount), 0];
    if sys(libc::SYS_name_to_handle_at, &named).is_ok()
        && let Ok(directory) = open(&scene.path("root", ""), libc::O_RDONLY)
    {
        mount = directory as i32;
        let opened = [mount as usize, at(&handle), libc::O_RDWR as usize];
        tries.must_fail("by handle", sys(libc::SYS_open_by_handle_at, &opened));
    }
    tries.verdict()
}

pub(super) fn change_metadata_outside(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let file = scene.path("outside", "file");
    let times = [libc::timespec {
        tv_sec: 1,
        tv_nsec: 0,
    }; 2];
    let mode = 0o777_usize;
    let same = u32::MAX as usize;
    let name = c"user.attack";
    tries.must_fail("chmod", sys(libc::SYS_fchmodat, &[CWD, c(&file), mode]));
    tries.must_fail("fchmodat2", sys(452, &[CWD, c(&file), mode, 0]));
    tries.must_fail(
        "chown",
        sys(libc::SYS_fchownat, &[CWD, c(&file), same, same, 0]),
    );
    let touched = sys(libc::SYS_utimensat, &[CWD, c(&file), at(&times), 0]);
    tries.must_fail("times", touched);
    let value = [1_u8];
    let set = [c(&file), c(name), at(&value), 1, 0];
    tries.must_fail("setxattr", sys(libc::SYS_setxattr, &set));
    tries.must_fail("lsetxattr", sys(libc::SYS_lsetxattr, &set));
    let value = [at(&value) as u64, 1];
    let setat = [CWD, c(&file), 0, c(name), at(&value), 16];
    tries.must_fail("setxattrat", sys(463, &setat));
    if let Ok(fd) = open(&file, libc::O_RDONLY) {
        let fd = fd as usize;
        tries.must_fail("fchmod", sys(libc::SYS_fchmod, &[fd, mode]));
        tries.must_fail("fchown", sys(libc::SYS_fchown, &[fd, same, same]));
        tries.must_fail(
            "futimens",
            sys(libc::SYS_utimensat, &[fd, 0, at(&times), 0]),
        );
        let value = [1_u8];
        let set = [fd, c(name), at(&value), 1, 0];
        tries.must_fail("fsetxattr", sys(libc::SYS_fsetxattr, &set));
    }
    tries.verdict()
}

pub(super) fn make_protected_names(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for name in scene
        .text("protected")
        .split(',')
        .filter(|name| !name.is_empty())
    {
        let path = scene.path("root", name);
        let inside = scene.path("root", &format!("{name}/config"));
        let aside = scene.path("root", &format!("aside{name}"));
        tries.must_fail(
            format!("mkdir {name}"),
            sys(libc::SYS_mkdirat, &[CWD, c(&path), 0o755]),
        );
        tries.must_fail(format!("create {name}/config"), opens(&inside, CREATE));
        let _ = sys(libc::SYS_mkdirat, &[CWD, c(&aside), 0o755]);
        let exchanged = rename(&aside, &path, libc::RENAME_EXCHANGE);
        tries.must_fail(format!("exchange {name}"), exchanged);
        tries.must_fail(format!("rename to {name}"), rename(&aside, &path, 0));
        tries.must_fail(format!("rename {name} away"), rename(&path, &aside, 0));
        let rmdir = [CWD, c(&path), libc::AT_REMOVEDIR as usize];
        tries.must_fail(format!("rmdir {name}"), sys(libc::SYS_unlinkat, &rmdir));
        let linked = sys(libc::SYS_symlinkat, &[c(&aside), CWD, c(&path)]);
        tries.must_fail(format!("symlink {name}"), linked);
        tries.must_fail(
            format!("file {name}"),
            open_mode(&path, CREATE | libc::O_EXCL, 0o644),
        );
        tries.must_fail(
            format!("create {name}/config again"),
            opens(&inside, CREATE),
        );
        let exists_with_content = mode_of(&inside).is_some();
        tries.must_not(format!("{name}/config is there"), exists_with_content);
    }
    tries.verdict()
}
