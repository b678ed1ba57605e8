//! The protections that confine commands on this machine, as a table in plain words.
//!
//! Owns the list of protections, one row each, made from the report of the process service alone. The
//! invariant here: a protection that sandboxed turns need and that is absent has to be fixed, with the
//! reason that the process service found, unless the configured mode has no sandbox. To show a new
//! field of the report, add a row to [`protections`].

use std::path::Path;

use serde_json::{Map, Value, json};
use turnlane_process::{LANDLOCK_ABI_SCOPES, MountsBy, Report};

use super::{Finding, Mark, Part};

/// The protection that a plain container does not have.
const MOUNTS: &str = "mounts";

/// Whether the configured mode confines commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confines {
    Yes,
    /// Yes, and `process.sandbox` says that a container does what mounts would do.
    ByContainer,
    No,
}

/// The consequence of an absent protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absence {
    /// Turns whose sandbox needs it are refused.
    Refuses,
    /// Commands run without it, and people are told.
    Told,
}

/// One row of the table.
#[derive(Debug)]
struct Protection {
    name: &'static str,
    /// The effect on a confined command.
    effect: &'static str,
    /// How it is provided, or why it is absent.
    state: Result<String, String>,
    absence: Absence,
}

/// Every protection that the report tells about.
fn protections(report: &Report) -> Vec<Protection> {
    let mounts = report.mounts.as_ref().map(|by| match by {
        MountsBy::Root => "as root".to_owned(),
        MountsBy::UserNamespace => "by user namespaces".to_owned(),
    });
    vec![
        Protection {
            name: "landlock",
            effect: "writes only where the sandbox allows it, no disks and no terminals of others",
            state: (report.landlock.clone()).map(|version| format!("version {version}")),
            absence: Absence::Refuses,
        },
        Protection {
            name: "seccomp",
            effect: "no network unless allowed, no other processes, keys, shared memory or set-id bits",
            state: (report.seccomp.clone()).map(|()| "filters work".to_owned()),
            absence: Absence::Refuses,
        },
        Protection {
            name: MOUNTS,
            effect: "the home is invisible, .git stays read-only inside writable directories",
            state: mounts.map_err(Clone::clone),
            absence: Absence::Refuses,
        },
        Protection {
            name: "scopes",
            effect: "no signals and no abstract sockets to the outside",
            state: scopes(report),
            absence: Absence::Told,
        },
    ]
}

fn scopes(report: &Report) -> Result<String, String> {
    match &report.landlock {
        Ok(abi) if *abi >= LANDLOCK_ABI_SCOPES => Ok(format!("Landlock version {abi}")),
        Ok(abi) => Err(format!(
            "commands can signal other processes of this user: Landlock version {abi} cannot \
             prevent it, version {LANDLOCK_ABI_SCOPES} can (Linux 6.12)"
        )),
        Err(why) => Err(why.clone()),
    }
}

/// The table for people, and the same for programs under `sandbox`.
pub(super) fn look(report: &Report, confines: Confines) -> Part {
    let rows = protections(report);
    let facts = rows.iter().map(|row| {
        json!({
            "name": row.name,
            "effect": row.effect,
            "enforced": row.state.is_ok(),
            "by": row.state.as_ref().ok(),
            "absent": row.state.as_ref().err(),
        })
    });
    let facts: Vec<Value> = facts.collect();
    Part {
        title: "Sandbox: enforced completely or refused",
        findings: rows.iter().map(|row| finding(row, confines)).collect(),
        facts: Map::from_iter([("sandbox".to_owned(), json!(facts))]),
    }
}

fn finding(row: &Protection, confines: Confines) -> Finding {
    match (&row.state, row.absence, confines) {
        (Ok(by), ..) => Finding::new(Mark::Yes, row.name, format!("{} ({by})", row.effect)),
        (Err(why), Absence::Refuses, Confines::ByContainer) if row.name == MOUNTS => {
            let why = format!(
                "{why}; process.sandbox is container: commands run without mounts and can write \
                 .git, .codex, .agents and .turnlane in a workspace"
            );
            Finding::new(Mark::Fine, row.name, why)
        }
        (Err(why), Absence::Refuses, Confines::Yes | Confines::ByContainer) => {
            let why = format!("{why}; turns in a sandbox that needs it are refused");
            Finding::new(Mark::Fix, row.name, why).next(advice(row.name, &restrictions()))
        }
        (Err(why), Absence::Refuses, Confines::No) => {
            let why = format!("{why}; the configured mode has no sandbox");
            Finding::new(Mark::Fine, row.name, why)
        }
        (Err(why), Absence::Told, _) => Finding::new(Mark::Fine, row.name, why),
    }
}

/// Something that keeps a process from making user namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restriction {
    Container,
    /// `kernel.apparmor_restrict_unprivileged_userns` is on, as on Ubuntu.
    AppArmor,
    /// `kernel.unprivileged_userns_clone` is off, as on hardened Debian kernels.
    CloneOff,
    /// `user.max_user_namespaces` is 0.
    NoneAllowed,
}

/// The restrictions of this machine.
fn restrictions() -> Vec<Restriction> {
    let is = |path: &str, value: &str| {
        let read = std::fs::read_to_string(path);
        read.is_ok_and(|text| text.trim() == value)
    };
    let marks = ["/.dockerenv", "/run/.containerenv"];
    let found = [
        (
            Restriction::AppArmor,
            is(
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                "1",
            ),
        ),
        (
            Restriction::CloneOff,
            is("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ),
        (
            Restriction::NoneAllowed,
            is("/proc/sys/user/max_user_namespaces", "0"),
        ),
        (
            Restriction::Container,
            marks.iter().any(|mark| Path::new(mark).exists()),
        ),
    ];
    let found = found.into_iter().filter(|(_, is_there)| *is_there);
    found.map(|(restriction, _)| restriction).collect()
}

/// What to do about an absent protection, in the order of least effort.
fn advice(name: &str, restrictions: &[Restriction]) -> String {
    if name != MOUNTS {
        return "use a kernel with Landlock and seccomp (Linux 5.13 or newer, both enabled); or, where \
                a container is the sandbox, run turns with `-s danger-full-access`"
            .to_owned();
    }
    let container = "where a container is the sandbox, add `sandbox = \"container\"` to the table \
                     [process] of config.toml (docs/security.md says what that gives up)";
    let allow = "allow user namespaces: start the container with `--security-opt \
                 seccomp=unconfined --security-opt apparmor=unconfined`, or with `--cap-add SYS_ADMIN`";
    let step = |restriction: &Restriction| match restriction {
        Restriction::Container => allow,
        Restriction::AppArmor => {
            "run: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
        }
        Restriction::CloneOff => "run: sudo sysctl -w kernel.unprivileged_userns_clone=1",
        Restriction::NoneAllowed => "run: sudo sysctl -w user.max_user_namespaces=15000",
    };
    let mut steps: Vec<_> = restrictions.iter().map(step).collect();
    if steps.is_empty() {
        // Nothing that is known forbids it; most often a container does, without a mark.
        steps.push(allow);
    }
    steps.push(container);
    steps.join("; or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent(confines: Confines) -> Finding {
        let row = Protection {
            name: "mounts",
            effect: "effect",
            state: Err("no such namespace".to_owned()),
            absence: Absence::Refuses,
        };
        finding(&row, confines)
    }

    #[test]
    fn an_absent_protection_says_what_to_do_unless_no_sandbox_is_configured() {
        let found = absent(Confines::Yes);
        assert_eq!(found.mark, Mark::Fix);
        let next = found.next.unwrap();
        assert!(next.contains("sandbox = \"container\""), "{next}");
        assert_eq!(absent(Confines::No).mark, Mark::Fine);
        let found = absent(Confines::ByContainer);
        assert_eq!((found.mark, found.next), (Mark::Fine, None));
        let next = advice("landlock", &[]);
        assert!(next.contains("danger-full-access"), "{next}");
    }

    #[test]
    fn the_advice_names_the_setting_that_forbids_user_namespaces() {
        let next = advice("mounts", &[Restriction::AppArmor]);
        assert!(
            next.starts_with(
                "run: sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0; or"
            ),
            "{next}"
        );
        assert!(!next.contains("--security-opt"), "{next}");
        let next = advice("mounts", &[Restriction::Container]);
        assert!(next.contains("--security-opt seccomp=unconfined"), "{next}");
    }
}
