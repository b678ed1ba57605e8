//! What this machine offers to contain commands, found by trying; `sandbox` tells how it confines them.
//!
//! The invariant here: what agents need to run unattended, and is absent, is broken; why something
//! better is absent is told as the process service found it.

use serde_json::{Map, Value, json};
use turnlane_process::{ContainmentKind, MountsBy, Options, ProcessService, Report};

use super::sandbox::Confines;
use super::{Finding, Mark, Part, sandbox};

pub(super) async fn look(confines: Confines) -> Vec<Part> {
    let service = match ProcessService::start(Options::default()) {
        Ok(service) => service,
        Err(error) => {
            let error = anyhow::Error::new(error);
            let found = Finding::new(Mark::Fix, "processes", format!("{error:#}"));
            return vec![Part {
                title: "Containment: what an end of a command reaches",
                findings: vec![found],
                facts: Map::new(),
            }];
        }
    };
    let report = service.report().clone();
    service.stop().await;
    vec![contains(&report), sandbox::look(&report, confines)]
}

fn contains(report: &Report) -> Part {
    let mark = match report.containment {
        ContainmentKind::Group => Mark::Fix,
        ContainmentKind::Cgroup | ContainmentKind::Reaper => Mark::Yes,
    };
    let best = Finding::new(
        mark,
        report.containment.name(),
        containment(report.containment),
    );
    let mut findings = vec![match mark {
        Mark::Fix => best.next("agents that run unattended need one of those below"),
        Mark::Yes | Mark::Fine => best,
    }];
    for (kind, why) in &report.containment_absent {
        findings.push(Finding::new(Mark::Fine, kind.name(), why));
    }
    findings.extend(default_limits(report));
    findings.push(if report.cgroup_controllers.is_empty() {
        let text = "no controllers: memory_max and pids_max are refused";
        Finding::new(Mark::Fine, "limits", text)
    } else {
        Finding::new(Mark::Yes, "limits", report.cgroup_controllers.join(", "))
    });
    Part {
        title: "Containment: what an end of a command reaches",
        findings,
        facts: facts(report),
    }
}

/// Limits of a sandboxed command that names none itself.
fn default_limits(report: &Report) -> impl Iterator<Item = Finding> + use<> {
    let limits = &report.default_limits;
    let found = [
        ("pids", limits.pids_max.clone()),
        ("memory", limits.memory_max.clone()),
    ];
    found.into_iter().filter_map(|(name, limit)| {
        let limit = limit?;
        Some(match limit.by {
            Ok(by) => Finding::new(
                Mark::Yes,
                name,
                format!("at most {} by {}", limit.max, by.name()),
            ),
            Err(why) => Finding::new(Mark::Fine, name, format!("no limit by default: {why}")),
        })
    })
}

fn containment(kind: ContainmentKind) -> &'static str {
    match kind {
        ContainmentKind::Cgroup => "every descendant, whatever it does",
        ContainmentKind::Reaper => "every descendant that did not change its user",
        ContainmentKind::Group => "the process group only: a descendant that calls setsid survives",
    }
}

fn facts(report: &Report) -> Map<String, Value> {
    let absent: Map<_, _> = report
        .containment_absent
        .iter()
        .map(|(kind, why)| (kind.name().to_owned(), json!(why)))
        .collect();
    let mounts = report.mounts.as_ref().map(|by| match by {
        MountsBy::Root => "root",
        MountsBy::UserNamespace => "userNamespace",
    });
    let facts = json!({
        "containment": report.containment.name(),
        "containmentAbsent": absent,
        "cgroupControllers": report.cgroup_controllers,
        "landlockAbi": report.landlock.as_ref().ok(),
        "landlockAbsent": report.landlock.as_ref().err(),
        "seccomp": report.seccomp.is_ok(),
        "seccompAbsent": report.seccomp.as_ref().err(),
        "mounts": mounts.as_ref().ok(),
        "mountsAbsent": mounts.err(),
    });
    facts.as_object().cloned().unwrap_or_default()
}
