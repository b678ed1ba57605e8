//! Kills our servers and Codex's by `SIGKILL` under load, and writes the table of what was found.
//!
//! `TURNLANE_CRASH_ROUNDS` kills of ours (1,000 if it is not set), half of them of `turnlane app-server`
//! and half of `turnlane serve`, and 60 of Codex where `TURNLANE_TEST_CODEX` names it; choices follow
//! from `TURNLANE_CRASH_SEED` (1). Ends with an error if anything of ours was lost, doubled or stuck.
//!
//! Needs `turnlane` beside it (built with `cargo build --release -p turnlane-cli`). Named sections
//! (`codex`, `app-server`, `serve`) run alone.

use std::cell::RefCell;

use turnlane_bench_crash::{Contender, Kind, Options, Report, run, table};
use turnlane_benchkit::{Whose, println};

/// Codex needs seconds for a round.
const CODEX_KILLS: usize = 60;

fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok();
    given
        .and_then(|given| given.parse().ok())
        .unwrap_or(default)
}

fn main() -> anyhow::Result<()> {
    let reports: RefCell<Vec<Report>> = RefCell::default();
    let sections = ["codex", "app-server", "serve"];
    turnlane_benchkit::main(&sections, async |name| {
        let kind = match name {
            "codex" => Kind::Codex,
            "app-server" => Kind::Stdio,
            _ => Kind::Serve,
        };
        let whose = match kind {
            Kind::Codex => Whose::Codex,
            Kind::Stdio | Kind::Serve => Whose::Ours,
        };
        let Some(program) = whose.program()? else {
            println("not measured: TURNLANE_TEST_CODEX does not name it");
            return Ok(());
        };
        let ours = usize::try_from(number("TURNLANE_CRASH_ROUNDS", 1_000))? / 2;
        let report = run(Options {
            contender: Contender { kind, program },
            kills: if kind == Kind::Codex {
                CODEX_KILLS
            } else {
                ours
            },
            seed: number("TURNLANE_CRASH_SEED", 1),
            sabotage: None,
        });
        let report = report.await?;
        println(&report.to_string());
        reports.borrow_mut().push(report);
        Ok(())
    })?;
    let reports = reports.into_inner();
    for line in table(&reports) {
        println(&line);
    }
    let ours = reports.iter().filter(|report| report.kind != Kind::Codex);
    let faulty: Vec<String> = ours
        .filter(|report| !report.faults.is_empty())
        .map(Report::to_string)
        .collect();
    anyhow::ensure!(faulty.is_empty(), "{}", faulty.join("\n"));
    Ok(())
}
