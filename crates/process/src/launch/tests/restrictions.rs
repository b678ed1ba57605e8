//! What a child gives up is given up, and only by the child.

use std::ffi::CStr;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::*;
use crate::error::SpawnErrorKind;

/// Allows every call.
const ALLOW: [u8; 8] = filter_entry(0x06, 0x7fff_0000);

/// An instruction without jumps, in its memory layout.
const fn filter_entry(code: u16, value: u32) -> [u8; 8] {
    let code = code.to_ne_bytes();
    let value = value.to_ne_bytes();
    [
        code[0], code[1], 0, 0, value[0], value[1], value[2], value[3],
    ]
}

fn path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Mounts as this user can make them.
fn mounts(steps: Vec<MountStep>) -> Restrictions {
    let ids = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    Restrictions {
        mounts: Some(Mounts {
            user_namespace: (!is_root()).then_some(ids),
            steps,
        }),
        ..Restrictions::default()
    }
}

/// A ruleset that allows no file to be made.
fn no_new_files() -> Option<OwnedFd> {
    let make_regular_file: u64 = 1 << 8;
    // SAFETY: the attribute lives here and has the size of its first version.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const make_regular_file,
            size_of::<u64>(),
            0,
        )
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the call has just made it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Whether this machine lets the child do it; says so if not.
fn ran_or_skipped(plan: &Plan) -> Option<Ran> {
    match run_with(plan, None) {
        Ok(ran) => Some(ran),
        Err(error) if matches!(error.stage, Stage::Clone | Stage::Namespace | Stage::Mount) => {
            skip(&format!("no mount namespace on this machine: {error:?}"));
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// A directory with something to protect.
fn project() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["git", "hidden", "kept"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
        std::fs::write(directory.path().join(name).join("file"), "content").unwrap();
    }
    std::fs::write(directory.path().join("secret"), "secret").unwrap();
    directory
}

fn protecting(directory: &Path) -> Vec<MountStep> {
    vec![
        MountStep::BindSelf(path(directory)),
        MountStep::ReadOnly(path(&directory.join("git"))),
        MountStep::MaskDirectory(path(&directory.join("hidden"))),
        MountStep::MaskFile(path(&directory.join("secret"))),
    ]
}

const SCRIPT: &str = "
    echo x > kept/new && echo kept is writable
    (echo x > git/new) 2>/dev/null || echo git is not
    cat git/file; echo
    ls hidden 2>/dev/null | wc -l
    (cat secret || echo x > secret) 2>/dev/null || echo secret is closed
    mv git git2 2>/dev/null || echo git stays
    mv ../${PWD##*/} ../moved 2>/dev/null || echo root stays";

const SAID: &str =
    "kept is writable\ngit is not\ncontent\n0\nsecret is closed\ngit stays\nroot stays\n";

#[test]
fn mounts_protect_what_they_cover_and_are_seen_by_the_child_only() {
    alone(
        "restrictions::mounts_protect_what_they_cover_and_are_seen_by_the_child_only",
        || {
            let directory = project();
            let mut spec = sh(SCRIPT);
            spec.cwd = directory.path().into();
            let mut plan = plan(&spec);
            plan.restrictions = Some(mounts(protecting(directory.path())));
            let before = own_state();
            let Some(ran) = ran_or_skipped(&plan) else {
                return;
            };
            assert_eq!(ran.stdout, SAID, "{}", ran.stderr);
            assert_eq!(own_state(), before);
            let secret = std::fs::read_to_string(directory.path().join("secret")).unwrap();
            assert_eq!(secret, "secret");
        },
    );
}

#[test]
fn an_ordinary_user_gets_the_same_mounts_in_a_user_namespace() {
    alone(
        "restrictions::an_ordinary_user_gets_the_same_mounts_in_a_user_namespace",
        || {
            let directory = project();
            if is_root() {
                chown_all(directory.path());
            }
            let root = directory.path().to_owned();
            let ordinary = std::thread::spawn(move || {
                if is_root() {
                    become_nobody();
                }
                // SAFETY: takes no arguments; of this thread, not of the process.
                let ids = unsafe { (libc::geteuid(), libc::getegid()) };
                let mut spec = sh(&format!("{SCRIPT}\nid -u; id -g"));
                spec.cwd = root.clone();
                let mut plan = plan(&spec);
                plan.restrictions = Some(Restrictions {
                    mounts: Some(Mounts {
                        user_namespace: Some(ids),
                        steps: protecting(&root),
                    }),
                    ..Restrictions::default()
                });
                let before = own_state();
                let Some(ran) = ran_or_skipped(&plan) else {
                    return;
                };
                assert_eq!(own_state(), before);
                let (uid, gid) = ids;
                assert_eq!(
                    ran.stdout,
                    format!("{SAID}{uid}\n{gid}\n"),
                    "{}",
                    ran.stderr
                );
            });
            ordinary.join().unwrap();
        },
    );
}

fn chown_all(directory: &Path) {
    std::os::unix::fs::chown(directory, Some(65_534), Some(65_534)).unwrap();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap().path();
        if entry.is_dir() {
            chown_all(&entry);
        } else {
            std::os::unix::fs::chown(&entry, Some(65_534), Some(65_534)).unwrap();
        }
    }
}

#[test]
fn a_mount_that_cannot_be_made_fails_the_launch_with_its_path() {
    let missing: &CStr = c"/no/such/directory";
    let mut plan = plan(&sh("exit 0"));
    plan.restrictions = Some(mounts(vec![
        MountStep::BindSelf(c"/tmp".to_owned()),
        MountStep::ReadOnly(missing.to_owned()),
    ]));
    let failed = run_with(&plan, None).unwrap_err();
    if failed.stage != Stage::Mount || failed.index != 1 {
        return skip(&format!("no mount namespace on this machine: {failed:?}"));
    }
    let error = failed.explain(&plan);
    assert_eq!(error.kind, SpawnErrorKind::SandboxUnavailable);
    assert_eq!(error.path.as_deref(), Some(Path::new("/no/such/directory")));
    assert_eq!(error.os_error, Some(libc::ENOENT));
}

#[test]
fn capabilities_and_new_privileges_are_given_up_by_the_child_only() {
    alone(
        "restrictions::capabilities_and_new_privileges_are_given_up_by_the_child_only",
        || {
            let mut slots = Slots::reserve().unwrap();
            let before = own_state();
            // CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER.
            for kept in [0_u64, 0b1011] {
                let mut plan = cat();
                plan.restrictions = Some(Restrictions {
                    capabilities_kept: kept,
                    filter: vec![ALLOW],
                    ..Restrictions::default()
                });
                let held = Held::start(&mut slots, &plan, None);
                let permitted = u64::from_str_radix(&before["CapPrm"], 16).unwrap();
                let expected = format!("{:016x}", kept & permitted);
                for field in ["CapPrm", "CapEff"] {
                    assert_eq!(held.status(field), expected, "{field}");
                }
                assert_eq!(held.status("CapAmb"), format!("{:016x}", 0));
                if is_root() {
                    assert_eq!(held.status("CapBnd"), expected);
                }
                assert_eq!(held.status("NoNewPrivs"), "1");
                assert_eq!(held.status("Seccomp"), "2");
                assert_eq!(own_state(), before);
            }
            // Nor does the next child inherit any of it.
            let held = Held::start(&mut slots, &cat(), None);
            for field in ["CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp"] {
                assert_eq!(held.status(field), before[field], "{field}");
            }
        },
    );
}

#[test]
fn a_ruleset_holds_for_the_child_only() {
    let Some(ruleset) = no_new_files() else {
        return skip("no Landlock on this machine");
    };
    let directory = tempfile::tempdir().unwrap();
    let mut spec = sh("echo x > made");
    spec.cwd = directory.path().into();
    let mut plan = plan(&spec);
    plan.restrictions = Some(Restrictions::default());
    let refused = run_with(&plan, Some(ruleset.as_fd())).unwrap();
    assert_ne!(refused.code, Some(0));
    assert!(!directory.path().join("made").exists());
    std::fs::write(directory.path().join("ours"), "x").unwrap();
    assert_eq!(run_with(&plan, None).unwrap().code, Some(0));
}

#[test]
fn a_sandbox_that_cannot_be_set_up_fails_the_launch_with_its_stage() {
    let null = ends::null().unwrap();
    let mut plan = plan(&sh("exit 0"));
    plan.restrictions = Some(Restrictions::default());
    let failed = run_with(&plan, Some(null.as_fd())).unwrap_err();
    assert_eq!(failed.stage, Stage::Landlock);
    // A filter that does not end with a verdict.
    plan.restrictions = Some(Restrictions {
        filter: vec![filter_entry(0x00, 0)],
        ..Restrictions::default()
    });
    let failed = run_with(&plan, None).unwrap_err();
    assert_eq!((failed.stage, failed.errno), (Stage::Seccomp, libc::EINVAL));
    let error = failed.explain(&plan);
    assert_eq!(error.kind, SpawnErrorKind::SandboxUnavailable);
    assert_eq!(error.detail.as_deref(), Some("seccomp"));
}

#[test]
fn a_filter_is_in_force_when_the_program_starts() {
    // Every call fails with EPERM, so the exec is refused: it was the last before it.
    let mut plan = plan(&sh("exit 0"));
    plan.restrictions = Some(Restrictions {
        filter: vec![filter_entry(0x20, 0), filter_entry(0x06, 0x0005_0001)],
        ..Restrictions::default()
    });
    let ran = run_with(&plan, None);
    assert!(ran.is_err(), "{ran:?}");
}

#[test]
fn the_longest_way_of_a_child_fits_its_stack_many_times() {
    let mut slots = Slots::reserve().unwrap();
    let directory = project();
    let mut plan = cat();
    plan.restrictions = Some(Restrictions {
        capabilities_kept: 1,
        filter: vec![ALLOW],
        ..mounts(protecting(directory.path()))
    });
    let io = Io::Pipe {
        stdin: Stdin::Closed,
    };
    let (ends, _ours) = open_ends(io, crate::Delivery::Discard).unwrap();
    if let Ok(launched) = launch(&mut slots, &plan, &ends, None, None) {
        wait(launched.pidfd.as_fd());
    } else {
        skip("no mount namespace on this machine: the stack of a shorter way is looked at");
    }
    let used = slots.stack.used();
    assert!((1..8 * 1024).contains(&used), "{used} bytes of the stack");
}

/// Set where `clone3` is hidden.
const HIDDEN: &str = "TRY_WITHOUT_CLONE3";

/// As container runtimes do it: the call is not there, the C library falls back, and so do we.
#[test]
fn where_clone3_is_hidden_children_are_cloned_by_the_older_call() {
    const CLONE3: u32 = 435;
    let no_such_call = 0x0005_0000 | libc::ENOSYS.cast_unsigned();
    let mut is_clone3 = filter_entry(0x15, CLONE3);
    // Not equal: one instruction further.
    is_clone3[3] = 1;
    let filter = vec![
        filter_entry(0x20, 0),
        is_clone3,
        filter_entry(0x06, no_such_call),
        ALLOW,
    ];
    let exe = std::env::current_exe().unwrap();
    let inside = "launch::tests::restrictions::inside_without_clone3";
    let arguments = [exe.to_str().unwrap(), "--exact", inside, "--nocapture"];
    let mut plan = plan(&Spec::new(arguments, "/"));
    plan.envp.push(CString::new(format!("{HIDDEN}=1")).unwrap());
    plan.restrictions = Some(Restrictions {
        filter,
        capabilities_kept: u64::MAX,
        ..Restrictions::default()
    });
    let ran = run_with(&plan, None).unwrap();
    assert!(ran.stdout.contains("1 passed"), "{}", ran.stdout);
}

#[test]
fn inside_without_clone3() {
    if std::env::var_os(HIDDEN).is_none() {
        return;
    }
    let ran = run(&sh("grep SigIgn /proc/self/status; exit 7")).unwrap();
    assert_eq!(ran.code, Some(7));
    assert!(ran.stdout.contains("0000000000000000"), "{}", ran.stdout);
    let missing = run(&Spec::new(["/no/such/program"], "/")).unwrap_err();
    assert_eq!(missing.kind, SpawnErrorKind::ProgramNotFound);
    assert!(clone::is_clone3_hidden());
}
