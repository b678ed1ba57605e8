//! Which failure is told as what.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::error::SpawnErrorKind;
use crate::error::SpawnErrorKind::*;

fn failure(spec: &Spec) -> SpawnError {
    run(spec).unwrap_err()
}

fn file(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_program_that_is_not_there_is_named_as_it_was_asked_for() {
    for program in [
        "no-such-program",
        "/no/such/program",
        "./no-such-program",
        "/bin/sh/x",
    ] {
        let error = failure(&Spec::new([program], "/"));
        assert_eq!(error.kind, ProgramNotFound, "{program}");
        assert_eq!(error.path.as_deref(), Some(Path::new(program)));
    }
    assert_eq!(
        failure(&Spec::new(["no-such-program"], "/")).os_error,
        Some(libc::ENOENT)
    );
    assert_eq!(
        failure(&Spec::new(["/bin/sh/x"], "/")).os_error,
        Some(libc::ENOTDIR)
    );
}

#[test]
fn a_missing_directory_is_never_taken_for_a_missing_program() {
    for program in ["true", "no-such-program"] {
        let error = failure(&Spec::new([program], "/no/such/directory"));
        assert_eq!(error.kind, CwdNotFound);
        assert_eq!(error.path.as_deref(), Some(Path::new("/no/such/directory")));
        assert_eq!(error.os_error, Some(libc::ENOENT));
    }
    let error = failure(&Spec::new(["true"], "/bin/sh"));
    assert_eq!(
        (error.kind, error.os_error),
        (CwdNotFound, Some(libc::ENOTDIR))
    );
    assert_eq!(failure(&Spec::new(["true"], "")).kind, CwdNotFound);
}

#[test]
fn a_directory_that_may_not_be_entered_is_denied() {
    alone(
        "errors::a_directory_that_may_not_be_entered_is_denied",
        || {
            let directory = tempfile::tempdir().unwrap();
            let closed = std::fs::Permissions::from_mode(0o000);
            std::fs::set_permissions(directory.path(), closed).unwrap();
            let path = directory.path().to_owned();
            let denied = std::thread::spawn(move || {
                if is_root() {
                    become_nobody();
                }
                failure(&Spec::new(["true"], path))
            });
            let error = denied.join().unwrap();
            assert_eq!(
                (error.kind, error.os_error),
                (CwdDenied, Some(libc::EACCES))
            );
            assert_eq!(error.path.as_deref(), Some(directory.path()));
        },
    );
}

#[test]
fn what_cannot_be_executed_is_there_but_not_executable() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    file(&path("plain"), "#!/bin/sh\n", 0o644);
    file(&path("nonsense"), "nonsense", 0o755);
    file(&path("orphan"), "#!/no/such/interpreter\n", 0o755);
    let cases = [
        ("plain", libc::EACCES),
        ("nonsense", libc::ENOEXEC),
        ("orphan", libc::ENOENT),
        (".", libc::EACCES),
    ];
    for (name, errno) in cases {
        let error = failure(&Spec::new([path(name)], "/"));
        assert_eq!(
            (error.kind, error.os_error),
            (NotExecutable, Some(errno)),
            "{name}"
        );
        assert_eq!(error.path, Some(path(name)));
        // The same, relative to the child's directory.
        let error = failure(&Spec::new([format!("./{name}")], directory.path()));
        assert_eq!(error.kind, NotExecutable, "./{name}");
    }
}

#[test]
fn a_search_passes_over_what_it_cannot_execute() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (
        directory.path().join("first"),
        directory.path().join("second"),
    );
    std::fs::create_dir(&first).unwrap();
    std::fs::create_dir(&second).unwrap();
    file(&first.join("tool"), "#!/bin/sh\necho first", 0o644);
    file(&second.join("tool"), "#!/bin/sh\necho second", 0o755);
    let search = |path: String| {
        let mut spec = Spec::new(["tool"], directory.path());
        spec.env.vars.insert("PATH".into(), path.into());
        run(&spec)
    };
    let (first, second) = (first.display(), second.display());
    let found = search(format!("/no/such:{first}:/bin/sh:{second}")).unwrap();
    assert_eq!(found.stdout, "second\n");
    // Entries are relative to the child's directory too.
    assert_eq!(
        search("first:second".to_owned()).unwrap().stdout,
        "second\n"
    );
    // Nothing better is found: what was there is told, not the last that was missing.
    let error = search(format!("{first}:/no/such")).unwrap_err();
    assert_eq!(
        (error.kind, error.os_error),
        (NotExecutable, Some(libc::EACCES))
    );
    assert_eq!(error.path.as_deref(), Some(Path::new("tool")));
    assert_eq!(
        search("/no/such".to_owned()).unwrap_err().kind,
        ProgramNotFound
    );
}

#[test]
fn an_empty_entry_of_the_path_is_the_childs_directory() {
    let directory = tempfile::tempdir().unwrap();
    file(
        &directory.path().join("tool"),
        "#!/bin/sh\necho here",
        0o755,
    );
    let mut spec = Spec::new(["tool"], directory.path());
    spec.env.vars.insert("PATH".into(), "/no/such:".into());
    assert_eq!(run(&spec).unwrap().stdout, "here\n");
}

#[test]
fn too_many_arguments_are_a_limit() {
    let error = failure(&Spec::new(["true".to_owned(), "x".repeat(1 << 20)], "/"));
    assert_eq!(
        (error.kind, error.os_error),
        (ResourceLimit, Some(libc::E2BIG))
    );
}

#[test]
fn a_limit_that_may_not_be_raised_fails_the_launch_with_its_name() {
    // Above what the kernel allows to anybody.
    let mut spec = Spec::new(["true"], "/");
    spec.limits.open_files = Some(u64::MAX - 1);
    let error = failure(&spec);
    assert_eq!(
        (error.kind, error.os_error),
        (ResourceLimit, Some(libc::EPERM))
    );
    assert_eq!(error.detail.as_deref(), Some("open_files"));
}

#[test]
fn an_ordinary_user_cannot_raise_any_limit() {
    alone("errors::an_ordinary_user_cannot_raise_any_limit", || {
        use rustix::process::{Resource, Rlimit, setrlimit};
        // That of core dumps is zero already, as for every child.
        for resource in [Resource::Cpu, Resource::As, Resource::Fsize] {
            let limit = Some(1 << 40);
            setrlimit(
                resource,
                Rlimit {
                    current: limit,
                    maximum: limit,
                },
            )
            .unwrap();
        }
        let ordinary = std::thread::spawn(|| {
            if is_root() {
                become_nobody();
            }
            let more = (1 << 40) + 1;
            let time = std::time::Duration::from_secs(more);
            let limits = crate::Limits::default();
            let cases = [
                (
                    "cpu_time",
                    crate::Limits {
                        cpu_time: Some(time),
                        ..limits
                    },
                ),
                (
                    "address_space",
                    crate::Limits {
                        address_space: Some(more),
                        ..limits
                    },
                ),
                (
                    "file_size",
                    crate::Limits {
                        file_size: Some(more),
                        ..limits
                    },
                ),
                (
                    "core",
                    crate::Limits {
                        core: Some(more),
                        ..limits
                    },
                ),
            ];
            for (name, limits) in cases {
                let mut spec = Spec::new(["true"], "/");
                spec.limits = limits;
                let error = failure(&spec);
                assert_eq!(
                    (error.kind, error.os_error),
                    (ResourceLimit, Some(libc::EPERM))
                );
                assert_eq!(error.detail.as_deref(), Some(name));
            }
        });
        ordinary.join().unwrap();
    });
}

#[test]
fn no_room_for_descriptors_is_a_limit() {
    alone("errors::no_room_for_descriptors_is_a_limit", || {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let hard = getrlimit(Resource::Nofile).maximum;
        let open = u64::try_from(open_descriptors().len()).unwrap();
        for more in 0..6 {
            let limit = Rlimit {
                current: Some(open + more),
                maximum: hard,
            };
            setrlimit(Resource::Nofile, limit).unwrap();
            for io in [
                Io::Pipe { stdin: Stdin::Open },
                Io::Pty(crate::TerminalSize::default()),
            ] {
                if let Err(error) = open_ends(io, crate::Delivery::Stream) {
                    assert_eq!(
                        (error.kind, error.os_error),
                        (ResourceLimit, Some(libc::EMFILE))
                    );
                }
            }
        }
        let limit = Rlimit {
            current: Some(open),
            maximum: hard,
        };
        setrlimit(Resource::Nofile, limit).unwrap();
        assert!(open_ends(Io::Pipe { stdin: Stdin::Open }, crate::Delivery::Stream).is_err());
        setrlimit(
            Resource::Nofile,
            Rlimit {
                current: hard,
                maximum: hard,
            },
        )
        .unwrap();
        assert_eq!(u64::try_from(open_descriptors().len()).unwrap(), open);
    });
}

#[test]
fn each_stage_is_explained_in_its_own_words() {
    let step = |path: &std::ffi::CStr| MountStep::ReadOnly(path.to_owned());
    let mut plan = plan(&Spec::new(["tool"], "/cwd"));
    let cases: [(Stage, i32, SpawnErrorKind, &str); 14] = [
        (Stage::Clone, libc::EAGAIN, TooManyProcesses, ""),
        (Stage::Clone, libc::ENOMEM, ResourceLimit, ""),
        (Stage::Clone, libc::EMFILE, ResourceLimit, ""),
        (Stage::Clone, libc::EPERM, Other, ""),
        (Stage::Clone, libc::EACCES, ContainmentUnavailable, ""),
        (Stage::Session, libc::ESRCH, Other, ""),
        (Stage::Stdio, libc::ENFILE, ResourceLimit, ""),
        (Stage::Namespace, libc::EPERM, SandboxUnavailable, ""),
        (Stage::Capabilities, libc::EPERM, SandboxUnavailable, ""),
        (Stage::Landlock, libc::EOPNOTSUPP, SandboxUnavailable, ""),
        (Stage::Seccomp, libc::EINVAL, SandboxUnavailable, ""),
        (Stage::Cwd, libc::EIO, Other, "/cwd"),
        (Stage::Exec, libc::ENOMEM, ResourceLimit, "tool"),
        (Stage::Exec, libc::ETXTBSY, NotExecutable, "tool"),
    ];
    for (stage, errno, kind, path) in cases {
        let error = LaunchError {
            stage,
            errno,
            index: u32::MAX,
        }
        .explain(&plan);
        assert_eq!(
            (error.kind, error.os_error),
            (kind, Some(errno)),
            "{stage:?} {errno}"
        );
        assert_eq!(error.path.unwrap_or_default(), Path::new(path), "{stage:?}");
        if kind == SandboxUnavailable {
            assert_eq!(error.detail.as_deref(), Some(stage.name()));
        }
    }
    plan.restrictions = Some(Restrictions {
        mounts: Some(Mounts {
            user_namespace: None,
            steps: vec![step(c"/a"), step(c"/b")],
        }),
        ..Restrictions::default()
    });
    let failed = |stage, index| {
        LaunchError {
            stage,
            errno: libc::EPERM,
            index,
        }
        .explain(&plan)
    };
    assert_eq!(failed(Stage::Clone, u32::MAX).kind, SandboxUnavailable);
    let error = failed(Stage::Mount, 1);
    assert_eq!(
        (error.kind, error.path.as_deref()),
        (SandboxUnavailable, Some(Path::new("/b")))
    );
    assert_eq!(failed(Stage::Mount, u32::MAX).path, None);
}
