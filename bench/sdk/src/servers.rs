//! What the SDK makes of a program: connecting to it, a thousand calls at once, its sudden end.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::future::join_all;
use serde_json::json;
use turnlane::{CallOptions, Client, Endpoint, Env, SpawnSpec, Supervision};
use turnlane_benchkit::{Figures, Whose, both, table};
use turnlane_testkit::TempHome;
use turnlane_testkit::mock_model::MockModel;

/// How often each is started.
const ROUNDS: usize = 20;
/// How many calls at once.
const CALLS: usize = 1_000;

/// A server program in a home of its own.
struct Program {
    program: std::ffi::OsString,
    home: TempHome,
}

impl Program {
    async fn client(&self) -> anyhow::Result<Client> {
        let variables = self.home.env().into_iter();
        let endpoint = Endpoint::Spawn(SpawnSpec {
            program: self.program.clone(),
            args: vec!["app-server".into()],
            cwd: Some(self.home.workspace()),
            env: Env::Only(
                variables
                    .map(|(name, value)| (name.into(), value.into()))
                    .collect(),
            ),
            supervision: Supervision::Never,
        });
        Ok(Client::connect(endpoint).await?)
    }
}

/// From nothing to an initialised client, and from the end of input to the exit.
pub(crate) async fn connect() -> anyhow::Result<()> {
    let mock = MockModel::start().await?;
    let programs = programs(&mock)?;
    let mut connected = [Figures::default(), Figures::default()];
    let mut ended = connected.clone();
    for round in 0..=ROUNDS {
        for (at, program) in &programs {
            let began = turnlane_benchkit::now();
            let client = program.client().await?;
            let took = began.elapsed();
            let began = turnlane_benchkit::now();
            client.shutdown(Duration::from_secs(10)).await?;
            // The first round finds a new home.
            if round > 0 {
                connected[*at].add_time(took);
                ended[*at].add_time(began.elapsed());
            }
        }
    }
    table::head();
    table::row(
        "start and initialize, used home, p50 ms",
        both(&connected, 50),
    );
    table::row("shutdown to exit, p50 ms", both(&ended, 50));
    Ok(())
}

/// A thousand calls at once over standard input and output: every one must be answered.
pub(crate) async fn burst() -> anyhow::Result<()> {
    let mock = MockModel::start().await?;
    let mut took = [Figures::default(), Figures::default()];
    for (at, program) in programs(&mock)? {
        let client = program.client().await?;
        let began = turnlane_benchkit::now();
        let calls = (0..CALLS)
            .map(|_| client.call_raw("thread/loaded/list", json!({}), CallOptions::default()));
        let refused = join_all(calls)
            .await
            .into_iter()
            .filter(Result::is_err)
            .count();
        took[at].add_time(began.elapsed());
        if refused > 0 {
            bail!("{refused} of {CALLS} calls were not answered");
        }
        client.shutdown(Duration::from_secs(10)).await?;
    }
    table::head();
    table::row("1,000 calls at once, all answered, ms", both(&took, 50));
    Ok(())
}

/// Those that are there, with their column.
fn programs(mock: &MockModel) -> anyhow::Result<Vec<(usize, Program)>> {
    let mut programs = Vec::new();
    for (at, whose) in Whose::BOTH.into_iter().enumerate() {
        if let Some(program) = whose.program()? {
            let home = TempHome::new().context("a home")?;
            home.use_model(&mock.base_url())?;
            programs.push((at, Program { program, home }));
        }
    }
    Ok(programs)
}
