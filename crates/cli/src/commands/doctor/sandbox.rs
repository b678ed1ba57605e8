//! The protections that confine commands on this machine, as a table in plain words.
//!
//! Owns the list of protections, one row each, made from the report of the process service alone. The
//! invariant here: a protection that sandboxed turns need and that is absent is broken, with the
//! reason that the process service found; one that only improves on others is merely absent. To show a
//! new field of the report, add a row to [`protections`].

use serde_json::{Map, Value, json};
use turnlane_process::{LANDLOCK_ABI_SCOPES, MountsBy, Report};

use super::{Finding, Mark, Part};

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
            name: "mounts",
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
pub(super) fn look(report: &Report) -> Part {
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
        findings: rows.iter().map(finding).collect(),
        facts: Map::from_iter([("sandbox".to_owned(), json!(facts))]),
    }
}

fn finding(row: &Protection) -> Finding {
    match (&row.state, row.absence) {
        (Ok(by), _) => Finding::new(Mark::Yes, row.name, format!("{} ({by})", row.effect)),
        (Err(why), Absence::Refuses) => Finding::new(Mark::Broken, row.name, why)
            .next("turns in a sandbox that needs it are refused"),
        (Err(why), Absence::Told) => Finding::new(Mark::No, row.name, why),
    }
}
