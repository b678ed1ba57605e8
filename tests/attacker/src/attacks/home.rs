//! The server's home directory and Codex's key, by every path to them.

use std::ffi::CString;

use crate::scene::Scene;
use crate::sys::{CWD, at, c, close, cstring, open, opens, sys};
use crate::tries::{Tries, Verdict};

/// Files of a home; the test makes those that the server does not.
const FILES: [&str; 6] = [
    "config.toml",
    "keys.env",
    "token",
    "turnlane.db",
    "turnlane.db-wal",
    "turnlane.db-shm",
];

/// The secret files, each with the directory that holds it.
fn files(scene: &Scene) -> Vec<(&'static str, &'static str)> {
    let mut files: Vec<_> = FILES.iter().map(|name| ("home", *name)).collect();
    files.push(("codex", "auth.json"));
    // A file that is not there proves nothing.
    files.retain(|(key, name)| {
        let list = scene.text(&format!("files-of-{key}"));
        list.split(',').any(|known| known == *name)
    });
    files
}

/// Other names of a path.
fn ways(scene: &Scene, key: &str, name: &str) -> Vec<(String, CString)> {
    let path = format!("{}/{name}", scene.text(key));
    let mut ways = vec![(name.to_owned(), cstring(path.clone()))];
    for (whose, pid) in scene.outsiders() {
        for entry in ["root", "cwd/../../../../../../../.."] {
            let by = format!("/proc/{pid}/{entry}{path}");
            ways.push((
                format!("{name} through {entry} of the {whose}"),
                cstring(by),
            ));
        }
    }
    ways.push((
        format!("{name} through its own root"),
        cstring(format!("/proc/self/root{path}")),
    ));
    let link = scene.path("root", &format!("link-to-{name}"));
    let target = cstring(path);
    let _ = sys(libc::SYS_symlinkat, &[c(&target), CWD, c(&link)]);
    ways.push((format!("{name} through a link"), link));
    let hard = scene.path("root", &format!("hard-link-to-{name}"));
    let _ = sys(libc::SYS_linkat, &[CWD, c(&target), CWD, c(&hard), 0]);
    ways.push((format!("{name} through a hard link"), hard));
    ways
}

pub(super) fn read(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for (key, name) in files(scene) {
        for (what, path) in ways(scene, key, name) {
            tries.must_fail(what, opens(&path, libc::O_RDONLY));
        }
        if let Ok(directory) = open(&scene.path(key, ""), libc::O_PATH | libc::O_DIRECTORY) {
            let name_c = cstring(name);
            let opened = sys(libc::SYS_openat, &[directory as usize, c(&name_c), 0, 0]);
            tries.must_fail(format!("{name} from its directory"), opened);
            close(directory);
        }
        let path = scene.path(key, name);
        tries.must_fail(format!("{name} for execution"), {
            let arguments = [0_usize; 1];
            // Succeeds only by becoming another program, which then says nothing.
            sys(
                libc::SYS_execve,
                &[c(&path), at(&arguments), at(&arguments)],
            )
        });
    }
    tries.verdict()
}

pub(super) fn list(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    if !scene.says("mounts") {
        tries.skip("without mounts the names of a home stay visible");
        return tries.verdict();
    }
    let path = scene.text("home");
    for way in [path.to_owned(), format!("/proc/self/root{path}")] {
        let names = std::fs::read_dir(&way).map(|entries| {
            let names = entries.flatten().map(|entry| entry.file_name());
            names
                .filter(|name| FILES.iter().any(|known| name == known))
                .count()
        });
        tries.must_not(format!("names in {way}"), names.unwrap_or(0) > 0);
    }
    tries.verdict()
}

pub(super) fn write(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for (key, name) in files(scene) {
        for (what, path) in ways(scene, key, name) {
            tries.must_fail(what, opens(&path, libc::O_WRONLY | libc::O_APPEND));
        }
        let path = scene.path(key, name);
        let mode = 0o666;
        tries.must_fail(
            format!("chmod {name}"),
            sys(libc::SYS_fchmodat, &[CWD, c(&path), mode]),
        );
        let aside = scene.path("root", &format!("taken-{name}"));
        let renamed = sys(libc::SYS_renameat, &[CWD, c(&path), CWD, c(&aside)]);
        if renamed.is_ok() {
            let _ = sys(libc::SYS_renameat, &[CWD, c(&aside), CWD, c(&path)]);
        }
        tries.must_fail(format!("rename {name}"), renamed);
    }
    let new = scene.path("home", "planted");
    let created = opens(&new, libc::O_WRONLY | libc::O_CREAT);
    tries.must_fail("create in the home", created);
    let made = sys(
        libc::SYS_mkdirat,
        &[CWD, c(&scene.path("home", "planted.d")), 0o700],
    );
    tries.must_fail("mkdir in the home", made);
    let home = scene.path("home", "");
    let aside = cstring(format!("{}.aside", scene.text("home")));
    let renamed = sys(libc::SYS_renameat, &[CWD, c(&home), CWD, c(&aside)]);
    if renamed.is_ok() {
        let _ = sys(libc::SYS_renameat, &[CWD, c(&aside), CWD, c(&home)]);
    }
    tries.must_fail("rename the home", renamed);
    // A directory above the home that can be renamed takes the home with it.
    let text = scene.text("home");
    if let Some((above, _)) = text.rsplit_once('/') {
        let (from, to) = (cstring(above), cstring(format!("{above}.aside")));
        let renamed = sys(libc::SYS_renameat, &[CWD, c(&from), CWD, c(&to)]);
        if renamed.is_ok() {
            let _ = sys(libc::SYS_renameat, &[CWD, c(&to), CWD, c(&from)]);
        }
        tries.must_fail("rename what holds the home", renamed);
    }
    tries.verdict()
}

pub(super) fn lock(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    for (key, name) in files(scene) {
        let path = scene.path(key, name);
        let Ok(fd) = open(&path, libc::O_RDONLY) else {
            tries.must_not(format!("open {name}"), false);
            continue;
        };
        // One byte far behind those that the database uses, so that a success stops nothing.
        let byte = libc::flock {
            l_type: libc::F_RDLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: 1 << 40,
            l_len: 1,
            l_pid: 0,
        };
        for (what, number) in [("lock", libc::F_SETLK), ("lock by file", libc::F_OFD_SETLK)] {
            let locked = sys(libc::SYS_fcntl, &[fd as usize, number as usize, at(&byte)]);
            tries.must_fail(format!("{what} of {name}"), locked);
        }
        let leased = [
            fd as usize,
            libc::F_SETLEASE as usize,
            libc::F_RDLCK as usize,
        ];
        tries.must_fail(format!("lease of {name}"), sys(libc::SYS_fcntl, &leased));
        close(fd);
    }
    tries.verdict()
}
