//! Processor time, memory, wall time and requests in flight of 100, 1,000 and 10,000 items, 64 at once.

use std::time::Duration;

use turnlane_benchkit::{float, goal, println};

use crate::model::{Seen, WorkerModel};
use crate::run::{RUN, Taken, home, lines, ours, spec, succeeded, write_names};
use crate::{codex, scaled};

/// The time that the slow model takes for an answer.
const SLOW: Duration = Duration::from_millis(500);

/// The items that run at once.
const AT_ONCE: usize = 64;

/// Runs of 100 items: one run computes for so few ticks of the clock that it says little.
const ROUNDS: usize = 5;

/// One line of the table.
struct Line {
    rows: usize,
    taken: Taken,
    seen: Seen,
}

impl Line {
    fn cpu_ms_per_item(&self) -> f64 {
        self.taken.cpu_seconds * 1e3 / float(self.rows)
    }
}

pub(crate) async fn run() -> anyhow::Result<()> {
    println(
        "| items | model | who | CPU ms per item | peak RSS MB | processes | wall s | requests per item | requests in flight, peak | exit code |",
    );
    println("| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let (few, some, many) = (scaled(100, 20), scaled(1_000, 40), scaled(10_000, 80));
    let fast = WorkerModel::start(Duration::ZERO).await?;
    let slow = WorkerModel::start(SLOW).await?;

    let mut few_rounds = Vec::new();
    for _ in 0..scaled(ROUNDS, 1) {
        few_rounds.push(ours_line(&fast, few).await?);
    }
    for line in &few_rounds {
        shown("at once", "ours", line);
    }
    let codex_few = codex_line(&fast, few, "at once").await?;
    let few_slow = ours_line(&slow, few).await?;
    shown("500 ms", "ours", &few_slow);
    let codex_slow = codex_line(&slow, few, "500 ms").await?;
    let ours_some = ours_line(&fast, some).await?;
    shown("at once", "ours", &ours_some);
    let codex_some = codex_line(&fast, some, "at once").await?;
    let ours_many = ours_line(&fast, many).await?;
    shown("at once", "ours", &ours_many);

    let lines = Lines {
        few: few_rounds,
        few_slow,
        some: ours_some,
        many: ours_many,
        codex_few,
        codex_slow,
        codex_some,
    };
    lines.show_goals();
    Ok(())
}

/// The lines of a run.
struct Lines {
    few: Vec<Line>,
    few_slow: Line,
    some: Line,
    many: Line,
    codex_few: Option<Line>,
    codex_slow: Option<Line>,
    codex_some: Option<Line>,
}

impl Lines {
    fn show_goals(&self) {
        let (few_slow, ours_some, ours_many) = (&self.few_slow, &self.some, &self.many);
        let (few, some, many) = (few_slow.rows, ours_some.rows, ours_many.rows);
        let mean = |figure: &dyn Fn(&Line) -> f64| {
            self.few.iter().map(figure).sum::<f64>() / float(self.few.len())
        };
        let peak = |figure: &dyn Fn(&Line) -> f64| self.few.iter().map(figure).fold(0.0, f64::max);
        let few_cpu = mean(&Line::cpu_ms_per_item);
        let few_peak = peak(&|line| line.taken.peak_mb);
        let seconds = |line: &Line| line.taken.wall.as_secs_f64();
        let of = |line: &Option<Line>, figure: &dyn Fn(&Line) -> f64| {
            line.as_ref().map_or(f64::NAN, figure)
        };
        goal::head();
        goal::at_most(&format!("CPU ms per item, {few} items"), few_cpu, 5.0);
        goal::at_most(
            &format!("CPU ms per item, {some} items"),
            ours_some.cpu_ms_per_item(),
            5.0,
        );
        goal::at_most(
            &format!("CPU per item, {some} items ÷ {few} items"),
            ours_some.cpu_ms_per_item() / few_cpu,
            1.2,
        );
        goal::at_least(
            &format!("CPU per item, Codex ÷ ours, {few} items"),
            of(&self.codex_few, &Line::cpu_ms_per_item) / few_cpu,
            20.0,
        );
        goal::at_least(
            &format!("CPU per item, Codex ÷ ours, {some} items"),
            of(&self.codex_some, &Line::cpu_ms_per_item) / ours_some.cpu_ms_per_item(),
            20.0,
        );
        goal::at_most(&format!("peak RSS MB, {few} items"), few_peak, 60.0);
        goal::at_most(
            &format!("peak RSS MB, {some} items"),
            ours_some.taken.peak_mb,
            60.0,
        );
        goal::at_most(
            &format!("growth of the peak RSS, MB, {few} to {many} items"),
            ours_many.taken.peak_mb - few_peak,
            5.0,
        );
        goal::at_most(&format!("wall s, {few} items"), peak(&seconds), 2.0);
        goal::at_most(
            &format!("wall s, {few} items, 500 ms"),
            seconds(few_slow),
            2.5,
        );
        let in_flight = |line: &Line| float(line.seen.in_flight_peak);
        goal::at_least("requests in flight, 500 ms", in_flight(few_slow), 60.0);
        let requests = float(few_slow.seen.requests) / float(few);
        goal::at_most("requests per item", requests, 1.0);
        println("");
        println(&format!(
            "Codex ÷ ours, {few} items, 500 ms: wall {}, peak RSS {}, requests in flight {} of {AT_ONCE}.",
            goal::shown(of(&self.codex_slow, &seconds) / seconds(few_slow)),
            goal::shown(of(&self.codex_slow, &|line| line.taken.peak_mb) / few_slow.taken.peak_mb),
            goal::shown(of(&self.codex_slow, &in_flight)),
        ));
    }
}

async fn ours_line(model: &WorkerModel, rows: usize) -> anyhow::Result<Line> {
    let home = home(model)?;
    write_names(&home.workspace().join("in.csv"), rows)?;
    model.forget();
    let taken = succeeded(spec(&ours()?, &home, &RUN)).await?;
    let written = lines(&home.workspace().join("out.csv"))?;
    anyhow::ensure!(written == rows + 1, "{written} lines for {rows} rows");
    let seen = model.seen();
    Ok(Line { rows, taken, seen })
}

/// Codex's line, which is shown too; none when Codex is not there.
async fn codex_line(
    model: &WorkerModel,
    rows: usize,
    shown_model: &str,
) -> anyhow::Result<Option<Line>> {
    model.forget();
    let Some(taken) = codex::run(model, rows, AT_ONCE).await? else {
        return Ok(None);
    };
    let seen = model.seen();
    let line = Line { rows, taken, seen };
    shown(shown_model, "Codex 0.166, app-server", &line);
    Ok(Some(line))
}

fn shown(model: &str, who: &str, line: &Line) {
    let Line { rows, taken, seen } = line;
    let code = taken.code.map_or("–".to_owned(), |code| code.to_string());
    println(&format!(
        "| {rows} | {model} | {who} | {:.2} | {:.1} | {} | {:.2} | {:.2} | {} | {code} |",
        line.cpu_ms_per_item(),
        taken.peak_mb,
        taken.processes,
        taken.wall.as_secs_f64(),
        float(seen.requests) / float(*rows),
        seen.in_flight_peak,
    ));
}
