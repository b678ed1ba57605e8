//! `turnlane doctor`: what this machine offers, found by trying.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;
use turnlane_process::{ContainmentKind, MountsBy, Options, ProcessService, Report};

use crate::args::Doctor;
use crate::runtime;

/// Prints the report; fails when something that is needed to run agents unattended is missing.
pub(crate) fn run(options: &Doctor) -> anyhow::Result<ExitCode> {
    let report = runtime::block_on(async {
        let service = ProcessService::start(Options::default())
            .context("the process service cannot start")?;
        let report = service.report().clone();
        service.stop().await;
        anyhow::Ok(report)
    })??;
    let text = if options.json {
        format!("{:#}\n", as_json(&report))
    } else {
        as_text(&report)
    };
    io::stdout()
        .write_all(text.as_bytes())
        .context("cannot write to standard output")?;
    Ok(if is_complete(&report) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn is_complete(report: &Report) -> bool {
    report.containment != ContainmentKind::Group
        && report.landlock.is_ok()
        && report.seccomp.is_ok()
        && report.mounts.is_ok()
}

fn as_text(report: &Report) -> String {
    let mut lines = vec![
        "Containment: what an end of a command reaches".to_owned(),
        line(
            &Ok(containment(report.containment).to_owned()),
            report.containment.name(),
        ),
    ];
    for (kind, why) in &report.containment_absent {
        lines.push(line(&Err(why.clone()), kind.name()));
    }
    let controllers = if report.cgroup_controllers.is_empty() {
        Err("no controllers: memory_max and pids_max are refused".to_owned())
    } else {
        Ok(report.cgroup_controllers.join(", "))
    };
    lines.push(line(&controllers, "limits"));
    lines.push(String::new());
    lines.push("Sandbox: enforced completely or refused".to_owned());
    let landlock = report.landlock.clone();
    lines.push(line(
        &landlock.map(|abi| format!("version {abi}: files")),
        "landlock",
    ));
    lines.push(line(
        &report
            .seccomp
            .clone()
            .map(|()| "network and escapes".to_owned()),
        "seccomp",
    ));
    let mounts = report.mounts.clone().map(|by| match by {
        MountsBy::Root => "as root: read-only paths such as .git inside writable ones".to_owned(),
        MountsBy::UserNamespace => {
            "by user namespaces: read-only paths such as .git inside writable ones".to_owned()
        }
    });
    lines.push(line(&mounts, "mounts"));
    lines.push(String::new());
    lines.join("\n")
}

fn containment(kind: ContainmentKind) -> &'static str {
    match kind {
        ContainmentKind::Cgroup => "every descendant, whatever it does",
        ContainmentKind::Reaper => "every descendant that did not change its user",
        ContainmentKind::Group => "the process group only: a descendant that calls setsid survives",
    }
}

/// `  yes  name       text`, or `  no` with the reason.
fn line(found: &Result<String, String>, name: &str) -> String {
    let (mark, text) = match found {
        Ok(text) => ("yes", text),
        Err(why) => ("no", why),
    };
    format!("  {mark:<4} {name:<9} {text}")
}

fn as_json(report: &Report) -> serde_json::Value {
    let absent: serde_json::Map<_, _> = report
        .containment_absent
        .iter()
        .map(|(kind, why)| (kind.name().to_owned(), json!(why)))
        .collect();
    let mounts = report.mounts.as_ref().map(|by| match by {
        MountsBy::Root => "root",
        MountsBy::UserNamespace => "userNamespace",
    });
    json!({
        "complete": is_complete(report),
        "containment": report.containment.name(),
        "containmentAbsent": absent,
        "cgroupControllers": report.cgroup_controllers,
        "landlockAbi": report.landlock.as_ref().ok(),
        "landlockAbsent": report.landlock.as_ref().err(),
        "seccomp": report.seccomp.is_ok(),
        "seccompAbsent": report.seccomp.as_ref().err(),
        "mounts": mounts.as_ref().ok(),
        "mountsAbsent": mounts.err(),
    })
}
