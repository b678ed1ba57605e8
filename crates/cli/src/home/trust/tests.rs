//! What is obeyed and what is not, by owner, mode and type.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::fs::{CWD, mkfifoat};

use super::*;

const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    mode(home.path(), 0o700);
    home
}

fn written(home: &Path, name: &str, bits: u32) -> PathBuf {
    let path = home.join(name);
    fs::write(&path, "a = 1\n").unwrap();
    mode(&path, bits);
    path
}

#[test]
fn only_files_of_the_user_or_root_are_obeyed() {
    for (owner, me, obeyed) in [
        (1000, 1000, true),
        (0, 1000, true),
        (0, 0, true),
        (1001, 1000, false),
        // As root in the home of another user: `sudo turnlane` with HOME kept.
        (1000, 0, false),
    ] {
        let problem = judge(Kind::Settings, owner, REGULAR | 0o644, me);
        assert_eq!(problem.is_none(), obeyed, "{owner} {me}: {problem:?}");
    }
}

#[test]
fn permissions_of_other_users_are_judged_by_kind() {
    for (kind, bits, obeyed) in [
        (Kind::Directory, DIRECTORY | 0o700, true),
        (Kind::Directory, DIRECTORY | 0o755, true),
        (Kind::Directory, DIRECTORY | 0o770, false),
        (Kind::Directory, DIRECTORY | 0o702, false),
        (Kind::Directory, DIRECTORY | 0o1777, false),
        (Kind::Settings, REGULAR | 0o644, true),
        (Kind::Settings, REGULAR | 0o444, true),
        (Kind::Settings, REGULAR | 0o664, false),
        (Kind::Settings, REGULAR | 0o646, false),
        (Kind::Secret, REGULAR | 0o600, true),
        (Kind::Secret, REGULAR | 0o400, true),
        (Kind::Secret, REGULAR | 0o640, false),
        (Kind::Secret, REGULAR | 0o604, false),
        (Kind::Secret, DIRECTORY | 0o700, false),
        (Kind::Directory, REGULAR | 0o600, false),
        (Kind::SettingsOrDirectory, DIRECTORY | 0o755, true),
        (Kind::SettingsOrDirectory, REGULAR | 0o755, true),
        (Kind::SettingsOrDirectory, REGULAR | 0o775, false),
    ] {
        let problem = judge(kind, 7, bits, 7);
        assert_eq!(problem.is_none(), obeyed, "{kind:?} {bits:o}: {problem:?}");
    }
}

#[test]
fn a_pipe_or_a_device_is_refused_at_once() {
    let home = home();
    let pipe = home.path().join("config.toml");
    mkfifoat(CWD, &pipe, Mode::from(0o600)).unwrap();
    // The pipe has no writer: a read that waits would never return.
    let fault = read(&pipe, Kind::Settings, 10).unwrap_err().to_string();
    assert!(
        fault.contains("is a named pipe, not a regular file"),
        "{fault}"
    );
    for device in ["/dev/zero", "/dev/null"] {
        let link = home.path().join("token");
        symlink(device, &link).unwrap();
        let fault = read(&link, Kind::Secret, 10).unwrap_err().to_string();
        assert!(fault.contains("is a device, not a regular file"), "{fault}");
        fs::remove_file(link).unwrap();
    }
    let socket = home.path().join("keys.env");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let fault = read(&socket, Kind::Secret, 10).unwrap_err().to_string();
    assert!(fault.contains("is a socket, not a regular file"), "{fault}");
}

#[test]
fn a_file_is_read_whole_or_refused_for_its_length() {
    let home = home();
    let path = written(home.path(), "config.toml", 0o644);
    let text = read(&path, Kind::Settings, 6).unwrap();
    assert_eq!(text.as_deref(), Some("a = 1\n"));
    let fault = read(&path, Kind::Settings, 5).unwrap_err().to_string();
    assert!(fault.contains("is longer than 5 bytes"), "{fault}");
    let absent = read(&home.path().join("absent"), Kind::Settings, 5);
    assert!(absent.unwrap().is_none());
    fs::write(&path, [0xff]).unwrap();
    let fault = read(&path, Kind::Settings, 5).unwrap_err().to_string();
    assert!(fault.contains("is not UTF-8 text"), "{fault}");
}

#[test]
fn a_link_counts_as_its_target() {
    let (home, dotfiles) = (home(), home());
    let target = written(dotfiles.path(), "turnlane.toml", 0o644);
    let link = home.path().join("config.toml");
    symlink(&target, &link).unwrap();
    assert!(read(&link, Kind::Settings, 100).unwrap().is_some());
    mode(&target, 0o666);
    let fault = read(&link, Kind::Settings, 100).unwrap_err().to_string();
    assert!(fault.contains("can be written by other users"), "{fault}");
}

#[test]
fn every_entry_that_decides_something_is_looked_at() {
    let home = home();
    let path = home.path();
    assert!(faults(&path.join("absent")).is_empty());
    assert!(faults(path).is_empty());
    let mut expected = Vec::new();
    for (name, kind) in ENTRIES {
        let entry = path.join(name);
        match kind {
            Kind::Directory => fs::create_dir(&entry).unwrap(),
            _ => fs::write(&entry, "").unwrap(),
        }
        mode(&entry, 0o777);
        expected.push(entry);
    }
    expected.push(written(path, "hooks.json", 0o666));
    let found: Vec<_> = faults(path)
        .iter()
        .map(|fault| fault.path().to_owned())
        .collect();
    assert_eq!(found, expected);
    // A home that others can write is told with everything in it.
    mode(path, 0o777);
    assert_eq!(faults(path).len(), expected.len() + 1);
}

#[test]
fn each_fault_names_the_command_that_mends_it() {
    let home = home();
    mode(home.path(), 0o770);
    let (shown, quoted) = (home.path().display(), quoted(home.path()));
    let fault = check(home.path(), Kind::Directory).unwrap_err().to_string();
    let expected =
        format!("{shown} can be written by other users (mode 0770); run: chmod 700 {quoted}");
    assert_eq!(fault, expected);
    let odd = written(home.path(), "a b'c", 0o602);
    let fault = check(&odd, Kind::Settings).unwrap_err();
    let expected = format!("run: chmod go-w '{shown}/a b'\\''c'");
    assert_eq!(fault.remedy().unwrap(), expected);
    let foreign = |me| Fault {
        path: "/h".into(),
        kind: Kind::Directory,
        problem: Problem::ForeignOwner(1000),
        me,
    };
    assert_eq!(
        foreign(1001).to_string(),
        "/h belongs to user 1000, but this process runs as user 1001; \
         take it over: sudo chown 1001 /h"
    );
    assert_eq!(
        foreign(0).to_string(),
        "/h belongs to user 1000, but this process runs as user 0; run turnlane as that user: \
         sudo -u '#1000' turnlane ..., or take it over: chown 0 /h"
    );
}
