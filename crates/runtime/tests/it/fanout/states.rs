//! Start, pause, resume and cancel in every state of a job.

use std::time::Duration;

use turnlane_runtime::fanout::input::InputSpec;
use turnlane_runtime::fanout::jobs::{Job, JobError, JobSpec, Owner, PauseJob};
use turnlane_store::fanout::JobState;
use turnlane_testkit::wait::{DEADLINE, eventually};

use super::support::{Floor, reporting};
use crate::support::{Home, settings};

/// Items of `Wait` never end by themselves, items of `Bad` fail, all others report.
const TURNS: &str = "  - {match: 'Wait ', steps: [{say: first}, {await: {gate: never}}]}
  - {match: 'Bad ', steps: [{error: {kind: bad_request}}]}";

const ROWS: i64 = 3;

const STATES: [JobState; 9] = [
    JobState::Importing,
    JobState::Ready,
    JobState::Running,
    JobState::Paused,
    JobState::Cancelling,
    JobState::Succeeded,
    JobState::FinishedWithFailures,
    JobState::Cancelled,
    JobState::Failed,
];

#[derive(Clone, Copy, Debug)]
enum Act {
    Start,
    Pause,
    PauseNow,
    Resume,
    Cancel,
}

const ACTS: [Act; 5] = [
    Act::Start,
    Act::Pause,
    Act::PauseNow,
    Act::Resume,
    Act::Cancel,
];

impl Act {
    async fn carry_out(self, floor: &Floor, job: &str) -> Result<Job, JobError> {
        let grace = Some(Duration::ZERO);
        match self {
            Self::Start => floor.jobs.start(job).await,
            Self::Pause => floor.jobs.pause(job, PauseJob::Drain).await,
            Self::PauseNow => floor.jobs.pause(job, PauseJob::Now { grace }).await,
            Self::Resume => floor.jobs.resume(job, Owner::Detached).await,
            Self::Cancel => floor.jobs.cancel(job).await,
        }
    }

    /// The state behind the act; none where it is refused.
    fn leads_to(self, from: JobState) -> Option<JobState> {
        use JobState::{Cancelled, Cancelling, Importing, Paused, Ready, Running};
        match (self, from) {
            (Self::Start | Self::Resume, Ready | Running) | (Self::Resume, Paused) => Some(Running),
            (Self::Pause | Self::PauseNow, Running | Paused) => Some(Paused),
            // Nothing of such a job runs.
            (Self::Cancel, Importing | Ready | Cancelled) => Some(Cancelled),
            (Self::Cancel, Running | Paused | Cancelling) => Some(Cancelling),
            _ => None,
        }
    }
}

/// A job in this state; its first item runs where an item of such a job may.
async fn job_in(home: &Home, floor: &Floor, state: JobState) -> String {
    let word = match state {
        JobState::Succeeded => "Report",
        JobState::FinishedWithFailures => "Bad",
        _ => "Wait",
    };
    let instruction = format!("{word} {{n}} now");
    let change = |spec: &mut JobSpec| {
        spec.instruction.clone_from(&instruction);
        spec.limits.concurrency = 1;
        // A job that is being cancelled stays so.
        spec.limits.grace_ms = 600_000;
    };
    match state {
        JobState::Importing | JobState::Failed => {
            let spec = JobSpec::new(&instruction, "scripted", settings());
            let job = floor.jobs.create(spec).await.unwrap().row.made.id;
            if state == JobState::Failed {
                let missing = home.database().with_file_name("missing.csv");
                let spec = InputSpec::default();
                floor
                    .jobs
                    .import_path(&job, &missing, spec)
                    .await
                    .unwrap_err();
            }
            return job;
        }
        JobState::Ready => return floor.job(ROWS, change).await,
        JobState::Cancelled => {
            let job = floor.job(ROWS, change).await;
            floor.jobs.cancel(&job).await.unwrap();
            return job;
        }
        _ => {}
    }
    let job = floor.run(ROWS, change).await;
    if state.is_terminal() {
        // Items of other jobs run for ever.
        let ended = async || floor.jobs.read(&job).await.unwrap().row.state == state;
        eventually("the end of the job", DEADLINE, ended)
            .await
            .unwrap();
        return job;
    }
    let runs = async || floor.jobs.read(&job).await.unwrap().row.counts.running == 1;
    eventually("an item to run", DEADLINE, runs).await.unwrap();
    match state {
        JobState::Paused => drop(floor.jobs.pause(&job, PauseJob::Drain).await.unwrap()),
        JobState::Cancelling => drop(floor.jobs.cancel(&job).await.unwrap()),
        _ => {}
    }
    job
}

#[tokio::test]
async fn every_act_changes_a_job_once_or_is_refused_with_its_state() {
    let home = Home::new();
    let floor = Floor::start(&home, &reporting(TURNS)).await;
    for from in STATES {
        for act in ACTS {
            let job = job_in(&home, &floor, from).await;
            let state = floor.jobs.read(&job).await.unwrap().row.state;
            assert_eq!(state, from, "before {act:?}");
            // The second one changes nothing.
            for nth in [1, 2] {
                let context = format!("{act:?} number {nth} in {from:?}");
                let answer = act.carry_out(&floor, &job).await;
                match (act.leads_to(from), answer) {
                    (Some(to), Ok(job)) => assert_eq!(job.row.state, to, "{context}"),
                    (None, Err(JobError::WrongState(state))) => {
                        assert_eq!(state, from, "{context}");
                    }
                    (_, answer) => panic!("{context}: {answer:?}"),
                }
            }
            let to = act.leads_to(from).unwrap_or(from);
            let context = format!("the counts after {act:?} in {from:?}");
            // An item may begin or end between two reads.
            let agree = async || floor.counts_agree(&job).await;
            eventually(&context, DEADLINE, agree).await.unwrap();
            let state = floor.jobs.read(&job).await.unwrap().row.state;
            assert_eq!(state, to, "{context}");
        }
    }
    floor.stop().await;
}
