//! A run that is killed after 40 of 100 results, and the same command again.

use std::time::Duration;

use turnlane_benchkit::{float, goal, println};
use turnlane_testkit::TestProcess;
use turnlane_testkit::wait::DEADLINE;

use crate::model::WorkerModel;
use crate::run::{RUN, home, lines, ours, spec, succeeded, write_names};

const ITEMS: usize = 100;
/// The requests that the model answers before the kill.
const ANSWERED: usize = 40;
/// The items that run at once: fewer than are left, so that most of them have not begun.
const AT_ONCE: usize = 16;

pub(crate) async fn run() -> anyhow::Result<()> {
    let model = WorkerModel::start(Duration::ZERO).await?;
    model.answer_only(ANSWERED);
    let home = home(&model)?;
    write_names(&home.workspace().join("in.csv"), ITEMS)?;
    let at_once = AT_ONCE.to_string();
    let mut arguments = RUN;
    arguments[RUN.len() - 1] = &at_once;
    let mut process = TestProcess::start(spec(&ours()?, &home, &arguments))?;
    // A place is free again after its report is on disk, so then all answered ones are.
    let asked = model.asked_by(ANSWERED + AT_ONCE);
    let asked = turnlane_testkit::wait::within("the requests before the kill", DEADLINE, asked);
    let at_kill = asked.await??.requests;
    process.kill9().await?;
    model.answer_only(usize::MAX);
    let again = succeeded(spec(&ours()?, &home, &arguments)).await?;
    let results = lines(&home.workspace().join("out.csv"))? - 1;
    let (asked, repeated) = model.items_and_repeats();
    println(&format!(
        "Killed with {ANSWERED} of {ITEMS} items answered and {} in flight; the same command then took {:.2} s.",
        at_kill - ANSWERED,
        again.wall.as_secs_f64(),
    ));
    goal::head();
    goal::at_least(
        "results of the same command after the kill",
        float(results),
        100.0,
    );
    goal::at_least("items that the model was asked for", float(asked), 100.0);
    let in_flight = float(at_kill - ANSWERED);
    goal::at_most("rows asked again", float(repeated), in_flight);
    Ok(())
}
