//! `update_plan`: the model's own list of steps, told to whoever watches.
//!
//! The invariant here: a plan is told as a whole and changes nothing else. It has no item, so nobody
//! can be asked about it.
//!
//! Whether the steps are followed is the model's business.

use serde::Deserialize;
use turnlane_protocol::notification::{PlanStep, PlanStepStatus};

use super::{Called, Output, Permission, Stop, ToolTurn};
use crate::event::Event;

/// What the model is told about a plan that was taken.
const UPDATED: &str = "Plan updated";
/// What the model is told when a hook wants somebody to be asked.
const NOBODY_ASKED: &str = "refused: nobody can be asked about a plan";

#[derive(Deserialize)]
struct Arguments {
    explanation: Option<String>,
    plan: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    step: String,
    status: Status,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    // The spelling of the wire, which models see in other places.
    #[serde(alias = "inProgress")]
    InProgress,
    Completed,
}

/// Tells the plan of a call.
pub(crate) async fn update_plan(turn: &ToolTurn, called: &Called) -> Result<Output, Stop> {
    let clean = |text: &str| turn.redactor.text(text).into_owned();
    match &called.permission {
        Permission::Usual => {}
        Permission::Asked => return Ok(Output::failure(NOBODY_ASKED)),
        Permission::Blocked(text) => return Ok(Output::failure(clean(text))),
    }
    let arguments = match Arguments::deserialize(&called.arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let text = format!("failed to parse function arguments: {error}");
            return Ok(Output::failure(clean(&text)));
        }
    };
    let steps = arguments.plan.iter().map(|step| PlanStep {
        step: clean(&step.step),
        status: match step.status {
            Status::Pending => PlanStepStatus::Pending,
            Status::InProgress => PlanStepStatus::InProgress,
            Status::Completed => PlanStepStatus::Completed,
        },
    });
    let event = Event::Plan {
        explanation: arguments.explanation.as_deref().map(clean),
        plan: steps.collect(),
    };
    turn.sink.emit(event).await?;
    Ok(Output::success(UPDATED))
}
