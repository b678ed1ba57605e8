//! Which files can be written, and that what is protected stays so.

use super::*;

const OUTSIDE: &[&str] = &[
    "create_outside",
    "write_outside",
    "truncate_outside",
    "mkdir_outside",
    "rmdir_outside",
    "unlink_outside",
    "rename_outside",
    "symlink_outside",
    "fifo_outside",
    "socket_outside",
    "write_by_proc_root",
];
const ACROSS: &[&str] = &["link_from_outside", "move_from_outside", "link_to_outside"];
const IN_ROOT: &[&str] = &[
    "create_in_root",
    "write_in_root",
    "mkdir_in_root",
    "rename_in_root",
];
const DEVICES: &[&str] = &["open_null", "open_zero", "open_full"];
const NEW_DEVICES: &[&str] = &["char_device_in_root", "block_device_in_root"];

/// Ways to change what is in `.git` or to put another one in its place.
const GIT: &[&str] = &[
    "create",
    "create_deep",
    "write",
    "truncate",
    "unlink",
    "chmod",
    "device",
    "rename_out",
    "rename_in",
    "link_out",
    "link_in",
    "rename_away",
    "remove",
    "exchange",
    "write_by_proc_root",
    "write_by_proc_cwd",
    "write_by_own_proc_root",
];

const REFUSED_BY_MOUNT: &[i32] = &[
    libc::EROFS,
    libc::EXDEV,
    libc::EBUSY,
    libc::EACCES,
    libc::EPERM,
];

fn refuses_everything_outside(outcome: &Outcome) {
    outcome.refuses(OUTSIDE);
    outcome.expect(ACROSS, &[libc::EACCES, libc::EXDEV, libc::EROFS]);
    outcome.refuses(NEW_DEVICES);
    outcome.allows(DEVICES);
    outcome.allows(&["read_outside", "list_outside"]);
}

#[test]
fn read_only_reads_everything_and_writes_nothing() {
    if !has(Need::Confinement) {
        return;
    }
    let place = Place::new();
    let outcome = attempt(&place, "files", &Sandbox::ReadOnly { network: false });
    refuses_everything_outside(&outcome);
    outcome.refuses(IN_ROOT);
    assert!(place.is_untouched());
    let expected = match machine().mounts {
        Ok(_) => FsEnforcement::LandlockAndMounts,
        Err(_) => FsEnforcement::Landlock,
    };
    assert_eq!(outcome.confined.fs, expected);
    assert_eq!(outcome.confined.network, NetworkEnforcement::Seccomp);
    assert_eq!(
        outcome.confined.landlock_abi,
        machine().landlock.clone().ok()
    );
}

#[test]
fn read_only_changes_no_modes_owners_times_or_attributes() {
    if !has(Need::Confinement) {
        return;
    }
    let place = Place::new();
    let attempts = ["chmod", "fchmod", "times", "chown", "attribute"];
    let outcome = attempt(&place, "metadata", &Sandbox::ReadOnly { network: true });
    outcome.expect(&attempts, &[libc::EPERM]);
    // They are refused by the policy, not by something else.
    let outcome = attempt(&place, "metadata", &Sandbox::DangerFullAccess);
    outcome.allows(&attempts[..4]);
}

#[test]
fn a_workspace_is_writable_and_nothing_else() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    for who in [Who::Child, Who::Descendant] {
        let attempt = Attempt {
            place: &place,
            list: "files",
            who,
        };
        for policy in [place.workspace(), place.workspace_in_tmp()] {
            let outcome = attempt.under(&policy);
            refuses_everything_outside(&outcome);
            outcome.allows(IN_ROOT);
            assert!(place.is_untouched());
            assert_eq!(outcome.confined.fs, FsEnforcement::LandlockAndMounts);
        }
    }
}

#[test]
fn git_stays_as_it_is_in_a_writable_root() {
    if !has(Need::Mounts) {
        return;
    }
    for who in [Who::Child, Who::Descendant] {
        let place = Place::new();
        let attempt = Attempt {
            place: &place,
            list: "git",
            who,
        };
        let outcome = attempt.under(&place.workspace());
        outcome.allows(&["read_config", "still_writable"]);
        outcome.expect(GIT, REFUSED_BY_MOUNT);
        outcome.expect(&["rename_root", "rename_above_root"], &[libc::EROFS]);
        assert!(place.is_untouched());
    }
}

#[test]
fn a_root_in_tmp_cannot_be_renamed_with_its_git() {
    if !has(Need::Mounts) {
        return;
    }
    for who in [Who::Child, Who::Descendant] {
        let place = Place::new();
        let attempt = Attempt {
            place: &place,
            list: "git",
            who,
        };
        let outcome = attempt.under(&place.workspace_in_tmp());
        outcome.allows(&["read_config", "still_writable"]);
        outcome.expect(GIT, REFUSED_BY_MOUNT);
        outcome.expect(&["rename_root", "rename_above_root"], &[libc::EBUSY]);
        assert!(place.is_untouched());
    }
}

#[test]
fn without_protection_every_one_of_these_succeeds_somewhere() {
    // Else a refusal above would prove nothing.
    let place = Place::new();
    let outcome = attempt(&place, "git", &Sandbox::DangerFullAccess);
    outcome.allows(&["create", "create_deep", "write", "truncate", "unlink"]);
    outcome.allows(&["write_by_proc_root", "rename_away", "rename_root"]);
    let place = Place::new();
    let outcome = attempt(&place, "files", &Sandbox::DangerFullAccess);
    outcome.allows(&[
        "create_outside",
        "write_outside",
        "truncate_outside",
        "write_by_proc_root",
    ]);
    if is_root() {
        outcome.allows(NEW_DEVICES);
    }
}

#[test]
fn a_root_without_protected_names_is_confined_as_any_other() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    fs::remove_dir_all(place.root().join(".git")).unwrap();
    let outcome = attempt(&place, "files", &place.workspace_in_tmp());
    refuses_everything_outside(&outcome);
    outcome.allows(IN_ROOT);
    assert_eq!(outcome.confined.fs, FsEnforcement::LandlockAndMounts);
    let outcome = attempt(&place, "metadata", &place.workspace());
    let attempts = ["chmod", "fchmod", "times", "chown", "attribute"];
    outcome.expect(&attempts, &[libc::EROFS]);
}

#[test]
fn a_linked_git_is_protected_where_it_lies_and_the_link_stays() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let (root, real) = (place.root(), place.tmp.path().join("real"));
    fs::rename(root.join(".git"), &real).unwrap();
    std::os::unix::fs::symlink(&real, root.join(".git")).unwrap();
    let outcome = shell(
        &place.workspace_in_tmp(),
        "rm .git; mv .git x; ln -sfn /tmp .git; echo x > .git/config; mv ../../real ../../r2; echo fine > ok",
        &root,
    );
    assert_eq!(outcome.code, Some(0), "{}", outcome.said);
    assert_eq!(fs::read_link(root.join(".git")).unwrap(), real);
    assert_eq!(fs::read(real.join("config")).unwrap(), b"[core]\n");
}

#[test]
fn what_is_mounted_twice_is_protected_twice() {
    if !has(Need::Mounts) || !is_root() {
        return skipped("a second mount needs root");
    }
    let place = Place::new();
    let place = &place;
    // A thread can have mounts of its own, which end with it.
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // SAFETY: takes a number; this thread shares nothing that others rely on.
            assert_eq!(
                unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS) },
                0
            );
            rustix::mount::mount_change(
                "/",
                rustix::mount::MountPropagationFlags::PRIVATE
                    | rustix::mount::MountPropagationFlags::REC,
            )
            .unwrap();
            // What is known is looked at before the second mount is made.
            machine()
                .confine(&place.workspace_in_tmp(), nowhere())
                .unwrap();
            let second = place.tmp.path().join("second");
            fs::create_dir(&second).unwrap();
            rustix::mount::mount_bind(place.root(), &second).unwrap();
            let command = format!(
                "cd {} && echo x > new && echo x > .git/config; echo x > .git/new; mv .git g",
                second.display()
            );
            let outcome = shell(&place.workspace_in_tmp(), &command, &place.root());
            assert!(second.join("new").exists(), "{}", outcome.said);
            assert!(place.is_untouched());
        });
    });
}

#[test]
fn where_there_are_mounts_nothing_outside_changes_its_mode_or_owner() {
    if !has(Need::Mounts) {
        return;
    }
    let place = Place::new();
    let outcome = attempt(&place, "metadata", &place.workspace());
    let attempts = ["chmod", "fchmod", "times", "chown", "attribute"];
    outcome.expect(&attempts, &[libc::EROFS]);
    let command = "chmod 600 file && touch file && chmod 644 made";
    let outcome = shell(
        &place.workspace(),
        &format!("echo > made; {command}"),
        &place.root(),
    );
    assert_eq!(outcome.code, Some(0), "{}", outcome.said);
}

#[test]
fn where_nothing_can_be_mounted_the_policy_is_refused_with_the_path() {
    let machine = Machine {
        mounts: Err("no namespaces here".to_owned()),
        ..machine().clone()
    };
    if !has(Need::Confinement) {
        return;
    }
    let place = Place::new();
    let error = machine.confine(&place.workspace(), nowhere()).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
    assert_eq!(error.path, Some(place.root().join(".git")));
    assert!(error.to_string().contains("no namespaces here"), "{error}");
    // A protected name that is missing must not be created either, and nothing is left behind.
    fs::remove_dir_all(place.root().join(".git")).unwrap();
    let error = machine.confine(&place.workspace(), nowhere()).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
    assert!(!place.root().join(".agents").exists());
}

#[test]
fn absent_mounts_are_tolerated_only_where_that_was_asked_for_and_nothing_hidden_shows() {
    let machine = Machine {
        mounts: Err("no namespaces here".to_owned()),
        ..machine().clone()
    };
    if !has(Need::Confinement) {
        return;
    }
    let place = Place::new();
    let around = Surroundings {
        absent_mounts: AbsentMounts::Tolerate,
        ..nowhere()
    };
    let confinement = machine.confine(&place.workspace(), around).unwrap();
    assert_eq!(confinement.confined.fs, FsEnforcement::Landlock);
    assert!(confinement.ruleset.is_some());
    assert!(!place.root().join(".agents").exists());
    // A hidden path inside of a writable root could be seen.
    let hidden = [place.root().join("secret")];
    fs::create_dir(&hidden[0]).unwrap();
    let around = Surroundings {
        hidden: &hidden,
        ..around
    };
    let error = machine.confine(&place.workspace(), around).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
}

/// In a user namespace of its own a process may forbid itself more namespaces, and nobody else.
const NO_NAMESPACES: &str = "echo 0 > /proc/sys/user/max_mnt_namespaces && \
    echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";

/// Set where there are no namespaces.
const WITHOUT: &str = "TRY_WITHOUT_NAMESPACES";

#[test]
fn where_the_kernel_gives_no_namespaces_the_policy_is_refused_and_not_weakened() {
    if !has(Need::Mounts) {
        return;
    }
    let exe = std::env::current_exe().unwrap().into_os_string();
    let before = [
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        NO_NAMESPACES,
        "sh",
    ];
    let test = "sandbox::tests::files::inside_no_namespaces";
    let after = ["--exact", test, "--nocapture"];
    let argv = before.iter().map(OsString::from);
    let argv = argv.chain([exe]).chain(after.iter().map(OsString::from));
    let env = [(WITHOUT, "1".into())];
    let outcome = run(&Sandbox::DangerFullAccess, argv, &env, Path::new("/"));
    if outcome.said.contains("1 passed") {
        assert_eq!(outcome.code, Some(0));
    } else {
        assert!(!outcome.said.contains("panicked"), "{}", outcome.said);
        skipped(&format!(
            "namespaces cannot be forbidden here: {}",
            outcome.said
        ));
    }
}

/// Has nothing to do unless the test above runs it.
#[test]
fn inside_no_namespaces() {
    if std::env::var_os(WITHOUT).is_none() {
        return;
    }
    let machine = Machine::probe();
    let why = machine.mounts.clone().unwrap_err();
    let place = Place::new();
    let error = machine.confine(&place.workspace(), nowhere()).unwrap_err();
    assert_eq!(error.kind, SpawnErrorKind::SandboxRefused);
    assert_eq!(error.path, Some(place.root().join(".git")));
    assert!(error.to_string().contains(&why), "{error}");
    // What needs no mounts is enforced as ever.
    machine
        .confine(&Sandbox::ReadOnly { network: false }, nowhere())
        .unwrap();
}
