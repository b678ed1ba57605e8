//! From the call to the exit of `true`, in one program without a wire.

use std::path::Path;

use turnlane_process::{
    ContainmentKind, Delivery, Io, Options, ProcessService, Sandbox, Spec, TerminalSize, Until,
};

use crate::sample::{Sample, head, row, shown};
use crate::{bare, now, runtime};

const ROUNDS: usize = 5;
const SPAWNS: usize = 400;

pub(crate) fn run() -> anyhow::Result<()> {
    let root = tempfile::tempdir()?;
    let plans = plans(root.path())?;
    runtime()?.block_on(async {
        let kinds = [
            ContainmentKind::Cgroup,
            ContainmentKind::Reaper,
            ContainmentKind::Group,
        ];
        let mut limit = Sample::default();
        let mut rows = Vec::new();
        for kind in kinds {
            let options = Options {
                containment: Some(kind),
                ..Options::default()
            };
            if let Ok(service) = ProcessService::start(options) {
                rows.extend(plans.iter().map(|(name, spec)| {
                    (
                        kind,
                        *name,
                        spec.clone(),
                        service.clone(),
                        Sample::default(),
                    )
                }));
            }
        }
        for _ in 0..ROUNDS {
            for _ in 0..SPAWNS {
                limit.time(bare::spawn_and_wait(&["/bin/true"])?);
            }
            for (kind, _, spec, service, sample) in &mut rows {
                for _ in 0..SPAWNS {
                    let mut spec = spec.clone();
                    if *kind == ContainmentKind::Group {
                        spec.containment = turnlane_process::Containment::Group;
                    }
                    let begun = now();
                    let process = service.spawn(spec).await?;
                    process.wait(Until::Exited, None).await;
                    sample.time(begun.elapsed());
                }
            }
        }
        head(&[
            "library: spawn → wait of `true`",
            "p50 ms",
            "p99 ms",
            "p50 ÷ limit",
            "p99 ÷ limit",
        ]);
        line("`posix_spawn` + wait", &limit, &limit);
        for (kind, name, _, _, sample) in &rows {
            line(&format!("`{}`, {name}", kind.name()), sample, &limit);
        }
        anyhow::Ok(())
    })
}

fn line(name: &str, sample: &Sample, limit: &Sample) {
    row(&[
        name.to_owned(),
        shown(sample.percentile(50)),
        shown(sample.percentile(99)),
        shown(sample.percentile(50) / limit.percentile(50)),
        shown(sample.percentile(99) / limit.percentile(99)),
    ]);
}

/// What is started, by name.
fn plans(root: &Path) -> anyhow::Result<[(&'static str, Spec); 5]> {
    std::fs::create_dir(root.join(".git"))?;
    let workspace = Sandbox::WorkspaceWrite {
        roots: vec![root.to_owned()],
        network: false,
        exclude_tmpdir: true,
        exclude_slash_tmp: true,
    };
    let pipe = Spec::new(["/bin/true"], "/");
    let terminal = Spec {
        io: Io::Pty(TerminalSize::default()),
        ..pipe.clone()
    };
    let null = Spec {
        delivery: Delivery::Discard,
        ..pipe.clone()
    };
    let confined = |sandbox| Spec {
        sandbox,
        ..pipe.clone()
    };
    let read_only = Sandbox::ReadOnly { network: false };
    Ok([
        ("no pipes", null),
        ("pipes", pipe.clone()),
        ("terminal", terminal),
        ("pipes, read-only: Landlock + seccomp", confined(read_only)),
        ("pipes, workspace: with mounts", confined(workspace)),
    ])
}
