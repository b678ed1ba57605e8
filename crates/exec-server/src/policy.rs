//! From a thread's sandbox policy to what the process service enforces, and whether it can.
//!
//! The invariant here: the result never allows more than the policy's words do. A root that does not
//! exist holds nothing and is left out; a relative one begins at the working directory. What is said
//! to be enforceable is judged by what the service found by trying, never by the system's name.
//!
//! The last word is the spawn's, which refuses what it cannot enforce; what is asked here only lets a
//! thread or a turn be refused before it begins.

use std::path::{Path, PathBuf};

use turnlane_process::{AbsentMounts, Access, Enforces, LANDLOCK_ABI_MIN, PathPolicy, Sandbox};
use turnlane_protocol::policy::{NetworkAccess, SandboxPolicy};

/// The sandbox of a command that starts in `cwd`, which is writable with `more_roots` where the
/// policy lets a workspace be written.
///
/// Looks at the file system for the roots, so it blocks.
pub fn sandbox(policy: &SandboxPolicy, cwd: &Path, more_roots: &[PathBuf]) -> Sandbox {
    match policy {
        SandboxPolicy::DangerFullAccess => Sandbox::DangerFullAccess,
        SandboxPolicy::ReadOnly { network_access } => Sandbox::ReadOnly {
            network: *network_access,
        },
        SandboxPolicy::ExternalSandbox { network_access } => Sandbox::ExternalSandbox {
            network: *network_access == NetworkAccess::Enabled,
        },
        SandboxPolicy::WorkspaceWrite(limits) => {
            let mut roots = vec![cwd.to_owned()];
            let named = limits.writable_roots.iter().map(Path::new);
            for root in named.chain(more_roots.iter().map(PathBuf::as_path)) {
                let root = cwd.join(root);
                if !roots.contains(&root) && root.is_dir() {
                    roots.push(root);
                }
            }
            Sandbox::WorkspaceWrite {
                roots,
                network: limits.network_access,
                exclude_tmpdir: limits.exclude_tmpdir_env_var,
                exclude_slash_tmp: limits.exclude_slash_tmp,
            }
        }
    }
}

/// Whether this machine has what the policy needs anywhere; says what is missing.
///
/// Asks only for what the policy needs. Looks at no path. A machine that passes may still refuse a directory, see [`check`].
pub fn check_machine(machine: &impl Enforces, policy: &SandboxPolicy) -> Result<(), String> {
    let (files, calls) = match policy {
        SandboxPolicy::DangerFullAccess => (false, false),
        SandboxPolicy::ExternalSandbox { network_access } => {
            (false, *network_access == NetworkAccess::Restricted)
        }
        SandboxPolicy::ReadOnly { .. } | SandboxPolicy::WorkspaceWrite(_) => (true, true),
    };
    if files {
        match machine.landlock() {
            Ok(abi) if *abi >= LANDLOCK_ABI_MIN => {}
            Ok(abi) => return Err(format!("Landlock: only version {abi}")),
            Err(why) => return Err(format!("Landlock: {why}")),
        }
    }
    if calls && let Err(why) = machine.seccomp() {
        return Err(format!("filter of system calls: {why}"));
    }
    Ok(())
}

/// Whether this machine can enforce the policy for commands in `cwd`; says why not.
///
/// Looks at the policy's paths as they are now, so it blocks.
pub fn check(machine: &impl Enforces, policy: &SandboxPolicy, cwd: &Path) -> Result<(), String> {
    let sandbox = sandbox(policy, cwd, &[]);
    let tmpdir = std::env::var_os("TMPDIR").map(PathBuf::from);
    check_machine(machine, policy)
        .and_then(|()| check_paths(machine, &sandbox, tmpdir.as_deref()))
        .map_err(|why| format!("the sandbox {} cannot be enforced: {why}", sandbox.name()))
}

fn check_paths(
    machine: &impl Enforces,
    sandbox: &Sandbox,
    tmpdir: Option<&Path>,
) -> Result<(), String> {
    let roots = match sandbox {
        Sandbox::DangerFullAccess | Sandbox::ExternalSandbox { .. } => return Ok(()),
        Sandbox::WorkspaceWrite { roots, .. } => roots.as_slice(),
        Sandbox::ReadOnly { .. } | Sandbox::Custom { .. } => &[],
    };
    let paths =
        PathPolicy::new(sandbox, tmpdir, machine.hidden()).map_err(|error| error.to_string())?;
    // What is protected inside of a writable root needs a mount of its own.
    let bound = match machine.absent_mounts() {
        AbsentMounts::Refuse => Access::Write,
        // Only what may not be seen at all still does.
        AbsentMounts::Tolerate => Access::Read,
    };
    let is_divided = |root: &PathBuf| {
        let root = root.canonicalize().unwrap_or_else(|_| root.clone());
        paths.least_below(&root) < bound
    };
    if roots.iter().any(is_divided)
        && let Err(why) = machine.mounts()
    {
        return Err(format!("mounts: {why}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use turnlane_process::{ContainmentKind, DefaultLimitsReport, MountsBy, Report};
    use turnlane_protocol::policy::WorkspaceWrite;

    use super::*;

    fn able() -> Report {
        Report {
            containment: ContainmentKind::Group,
            containment_absent: vec![],
            cgroup_root: None,
            cgroup_controllers: vec![],
            landlock: Ok(LANDLOCK_ABI_MIN),
            seccomp: Ok(()),
            mounts: Ok(MountsBy::Root),
            default_limits: DefaultLimitsReport {
                pids_max: None,
                memory_max: None,
                oom_score: Ok(()),
            },
        }
    }

    fn every_policy() -> [SandboxPolicy; 5] {
        [
            SandboxPolicy::DangerFullAccess,
            SandboxPolicy::ExternalSandbox {
                network_access: NetworkAccess::Enabled,
            },
            SandboxPolicy::ExternalSandbox {
                network_access: NetworkAccess::Restricted,
            },
            SandboxPolicy::ReadOnly {
                network_access: true,
            },
            SandboxPolicy::WorkspaceWrite(WorkspaceWrite::default()),
        ]
    }

    #[test]
    fn a_machine_is_asked_only_for_what_the_policy_needs() {
        let refused = |report: &Report| {
            every_policy().map(|policy| check_machine(report, &policy).err().unwrap_or_default())
        };
        assert_eq!(refused(&able()), [""; 5]);
        let old = Report {
            landlock: Ok(LANDLOCK_ABI_MIN - 1),
            ..able()
        };
        let only = "Landlock: only version 2";
        assert_eq!(refused(&old), ["", "", "", only, only]);
        let none = Report {
            landlock: Err("absent".to_owned()),
            mounts: Err("absent".to_owned()),
            ..able()
        };
        let absent = "Landlock: absent";
        assert_eq!(refused(&none), ["", "", "", absent, absent]);
        let open = Report {
            seccomp: Err("absent".to_owned()),
            ..able()
        };
        let filter = "filter of system calls: absent";
        assert_eq!(refused(&open), ["", "", filter, filter, filter]);
    }

    #[test]
    fn protected_names_in_a_workspace_need_mounts() {
        let folder = tempfile::tempdir().unwrap();
        let policy = SandboxPolicy::WorkspaceWrite(WorkspaceWrite {
            exclude_tmpdir_env_var: true,
            exclude_slash_tmp: true,
            ..WorkspaceWrite::default()
        });
        let without = Report {
            mounts: Err("not allowed".to_owned()),
            ..able()
        };
        let checked = |report: &Report| check(report, &policy, folder.path());
        let why = "the sandbox workspace-write cannot be enforced: mounts: not allowed";
        // A name that is missing must not be created, which takes a mount as well.
        for _ in ["missing", "there"] {
            assert_eq!(checked(&able()), Ok(()));
            assert_eq!(checked(&without), Err(why.to_owned()));
            std::fs::create_dir_all(folder.path().join(".git")).unwrap();
        }
        // Nothing can be confined that may write everywhere.
        assert!(check(&able(), &policy, Path::new("/")).is_err());
    }

    #[test]
    fn every_policy_has_its_sandbox() {
        let cwd = Path::new("/");
        let of = |policy: &SandboxPolicy| sandbox(policy, cwd, &[]);
        assert_eq!(
            of(&SandboxPolicy::DangerFullAccess),
            Sandbox::DangerFullAccess
        );
        for network in [false, true] {
            assert_eq!(
                of(&SandboxPolicy::ReadOnly {
                    network_access: network
                }),
                Sandbox::ReadOnly { network }
            );
        }
        for (network_access, network) in [
            (NetworkAccess::Restricted, false),
            (NetworkAccess::Enabled, true),
        ] {
            assert_eq!(
                of(&SandboxPolicy::ExternalSandbox { network_access }),
                Sandbox::ExternalSandbox { network }
            );
        }
    }

    #[test]
    fn a_workspace_is_its_directory_and_the_roots_that_exist() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().join("cwd");
        let other = folder.path().join("other");
        for path in [&cwd, &cwd.join("below"), &other] {
            std::fs::create_dir(path).unwrap();
        }
        let policy = SandboxPolicy::WorkspaceWrite(WorkspaceWrite {
            writable_roots: vec![
                "below".into(),
                other.to_str().unwrap().into(),
                folder.path().join("gone").to_str().unwrap().into(),
            ],
            network_access: true,
            exclude_tmpdir_env_var: true,
            exclude_slash_tmp: false,
        });
        assert_eq!(
            sandbox(&policy, &cwd, &[other.clone(), cwd.clone()]),
            Sandbox::WorkspaceWrite {
                roots: vec![cwd.clone(), cwd.join("below"), other],
                network: true,
                exclude_tmpdir: true,
                exclude_slash_tmp: false,
            }
        );
    }
}
