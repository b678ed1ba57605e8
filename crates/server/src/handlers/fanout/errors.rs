//! From what the runtime refuses about jobs to what a caller is told.

use turnlane_protocol::error::MissingThread;
use turnlane_protocol::error::{ErrorObject, InputProblem};
use turnlane_protocol::ids::ThreadId;
use turnlane_runtime::fanout::jobs::JobError;
use turnlane_runtime::fanout::jobs::spec::state_word;

use crate::errors::{self, About};

/// The refusal of a call about jobs.
pub(crate) fn of(method: &str, error: &JobError) -> ErrorObject {
    match error {
        JobError::JobNotFound(id) => ErrorObject::job_not_found(id),
        JobError::ItemNotFound(id) => ErrorObject::job_item_not_found(id),
        JobError::BadTemplate(why) => ErrorObject::bad_template(why),
        JobError::BadSchema(why) => ErrorObject::bad_schema(why),
        JobError::BadInput(problems) => {
            let problems: Vec<_> = problems.iter().map(shown).collect();
            ErrorObject::bad_input(&problems)
        }
        JobError::BadLimit(why) => ErrorObject::bad_limit(why),
        JobError::NoPrice(model) => ErrorObject::no_price(model),
        JobError::ChannelUnsupported { engine, channel } => {
            ErrorObject::channel_unsupported(engine, channel)
        }
        JobError::OutputExists(path) => ErrorObject::output_exists(path),
        JobError::OutputIsInput(path) => ErrorObject::output_is_input(path),
        JobError::WrongState(state) => {
            let verb = method.rsplit('/').next().unwrap_or(method);
            ErrorObject::wrong_job_state(verb, state_word(*state))
        }
        JobError::OffsetMismatch { next } => {
            ErrorObject::offset_mismatch(u64::try_from(*next).unwrap_or(0))
        }
        JobError::Output { .. } => errors::invalid(error.to_string()),
        JobError::Runtime(error) => errors::of(error, &about()),
        JobError::Store(error) => errors::of_store(error, &about()),
        other => ErrorObject::internal(format!("{method} failed: {other}")),
    }
}

fn shown(problem: &turnlane_runtime::fanout::jobs::InputProblem) -> InputProblem {
    InputProblem {
        line: problem.line,
        message: problem.message.clone(),
    }
}

/// Errors of the store about jobs name no thread.
fn about() -> About {
    About {
        method: "fanout",
        thread: ThreadId::new(0),
        missing: MissingThread::NotFound,
    }
}
