//! Terminals of the user and devices of the machine.

use std::os::unix::fs::FileTypeExt;

use crate::scene::Scene;
use crate::sys::{at, close, cstring, open, opens, sys};
use crate::tries::{Tries, Verdict};

const KVM_GET_API_VERSION: usize = 0xae00;

pub(super) fn terminals(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let mut paths = vec![scene.text("pts").to_owned()];
    let (_, number) = scene.text("pts").rsplit_once('/').unwrap_or_default();
    paths.push(format!(
        "/proc/{}/fd/{}",
        scene.number("bystander"),
        scene.text("pts-fd")
    ));
    paths.push(format!("/dev/../dev/pts/{number}"));
    for path in paths {
        for flags in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR] {
            let Ok(fd) = open(&cstring(path.as_str()), flags) else {
                tries.must_not("open", false);
                continue;
            };
            tries.must_not(format!("open {path} {flags}"), true);
            let byte = [b'x'];
            let typed = sys(
                libc::SYS_ioctl,
                &[fd as usize, libc::TIOCSTI as usize, at(&byte)],
            );
            tries.must_fail("type into it", typed);
            close(fd);
        }
    }
    // Into its own terminal, which a shell above might read; only a command on a terminal has one.
    if let Ok(fd) = open(c"/dev/tty", libc::O_RDWR) {
        let byte = [b'x'];
        let typed = sys(
            libc::SYS_ioctl,
            &[fd as usize, libc::TIOCSTI as usize, at(&byte)],
        );
        tries.must_fail("type into its own terminal", typed);
        close(fd);
    }
    tries.verdict()
}

/// Consoles and keyboards, which tell what somebody types. Other devices do things when they are
/// opened (a watchdog starts), so that only these are tried.
pub(super) fn consoles(_: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for (path, is_block) in devices() {
        let name = path.trim_start_matches("/dev/");
        let digits = name.trim_start_matches("tty");
        let is_tty = name != "tty" && digits.bytes().all(|byte| byte.is_ascii_digit());
        let tells = is_tty
            || name == "console"
            || name.starts_with("vcs")
            || name.starts_with("input/event")
            || name.starts_with("hidraw");
        if tells && !is_block {
            let opened = opens(&cstring(path.as_str()), libc::O_RDONLY);
            tries.must_fail(path, opened);
        }
    }
    tries.skip("there are none");
    tries.verdict()
}

/// Every device of `/dev`, two levels deep.
fn devices() -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut directories = vec!["/dev".to_owned()];
    for _ in 0..2 {
        let mut next = Vec::new();
        for directory in directories {
            for entry in std::fs::read_dir(&directory)
                .into_iter()
                .flatten()
                .flatten()
            {
                let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                if kind.is_dir() {
                    next.push(path);
                } else if kind.is_block_device() || kind.is_char_device() {
                    found.push((path, kind.is_block_device()));
                }
            }
        }
        directories = next;
    }
    found
}

pub(super) fn block(_: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for (path, is_block) in devices() {
        if is_block {
            tries.must_fail(
                path.as_str(),
                opens(&cstring(path.as_str()), libc::O_RDONLY),
            );
        }
    }
    for path in ["/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore"] {
        tries.must_fail(path, opens(&cstring(path), libc::O_RDONLY));
    }
    tries.verdict()
}

pub(super) fn control(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    if !scene.says("confined") {
        tries.skip("only in a sandbox");
        return tries.verdict();
    }
    // Opened for reading, which some policies allow; nothing may be asked of it.
    if let Ok(fd) = open(c"/dev/kvm", libc::O_RDONLY) {
        let version = sys(libc::SYS_ioctl, &[fd as usize, KVM_GET_API_VERSION, 0]);
        tries.must_fail("kvm", version);
        close(fd);
    } else {
        tries.must_not("kvm", false);
    }
    for path in [
        "/dev/kvm",
        "/dev/fuse",
        "/dev/loop-control",
        "/dev/net/tun",
        "/dev/uinput",
    ] {
        tries.must_fail(path, opens(&cstring(path), libc::O_RDWR));
    }
    tries.verdict()
}
