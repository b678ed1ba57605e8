//! What a run uses: processor time and memory, as the system counted them when it ended.
//!
//! The runs are started by the process service, which hands on what the system says of a process and
//! all of its own that it waited for.

use std::collections::BTreeMap;
use std::ffi::OsString;

use anyhow::{Context as _, ensure};
use turnlane_benchkit::{Figures, Whose, both, table};
use turnlane_process::{
    EnvPolicy, EnvSpec, ExitStatus, Inherit, Options, ProcessService, Spec, Until,
};

use crate::program::{Contender, model};

/// How often each is measured.
const ROUNDS: usize = 30;

pub(crate) async fn run() -> anyhow::Result<()> {
    let mock = model().await?;
    let service = ProcessService::start(Options::default())?;
    let mut cpu = [Figures::default(), Figures::default()];
    let mut memory = cpu.clone();
    let mut contenders = Vec::new();
    for (at, whose) in Whose::BOTH.into_iter().enumerate() {
        contenders.extend(Contender::new(whose, &mock)?.map(|contender| (at, contender)));
    }
    for round in 0..=ROUNDS {
        for (at, contender) in &contenders {
            let used = measured(&service, contender).await?.rusage;
            // The first round finds a new home.
            if round > 0 {
                cpu[*at].add_time(used.user + used.system);
                #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
                memory[*at].add(used.max_resident_bytes as f64 / 1e6);
            }
        }
        mock.take_requests();
    }
    table::head();
    table::row("CPU per run, p50 ms", both(&cpu, 50));
    table::row("peak RSS, p50 MB", both(&memory, 50));
    service.stop().await;
    Ok(())
}

/// One run, as the system counted it.
async fn measured(service: &ProcessService, contender: &Contender) -> anyhow::Result<ExitStatus> {
    let mut argv = vec![contender.program.clone()];
    argv.extend(Contender::args(&[]));
    let mut spec = Spec::new(argv, contender.home.workspace());
    spec.env = EnvSpec {
        policy: EnvPolicy {
            inherit: Inherit::None,
            ..EnvPolicy::default()
        },
        vars: variables(contender),
    };
    let process = service.spawn(spec).await?;
    let mut output = process.output()?;
    while output.next().await.is_some() {}
    let status = process.wait(Until::Exited, None).await;
    let status = status.context("no status")?;
    ensure!(
        status.code == 0,
        "{}: {status:?}",
        contender.program.display()
    );
    Ok(status)
}

fn variables(contender: &Contender) -> BTreeMap<OsString, OsString> {
    let variables = contender.home.env().into_iter();
    variables
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}
