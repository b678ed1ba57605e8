//! `turnlane fanout`: jobs that run one template over many rows.
//!
//! The invariant here: commands that only look start nothing, whatever they find in the store. A
//! command that runs a job runs it on the daemon where one answers, else in this process.
//!
//! Running a job is in `run`, following it in `follow`, lists and details in `looking`.

mod changes;
mod dry_run;
mod export;
mod follow;
mod input;
mod looking;
mod progress;
mod refusal;
mod run;

use std::process::ExitCode;

use crate::args::{FanoutArgs, FanoutCommand, HereArgs};
use crate::session::{Needs, OwnServer, with, with_runner};

pub(crate) fn run(args: FanoutArgs, before: &[String]) -> anyhow::Result<ExitCode> {
    let FanoutArgs { reach, command } = args;
    let own = |here: &HereArgs, config: &[String]| OwnServer {
        script: here.script.clone(),
        overrides: [before, config].concat(),
    };
    match command {
        FanoutCommand::Run(args) if args.dry_run => dry_run::run(&args),
        FanoutCommand::Run(args) => {
            let own = own(&args.here, &args.config);
            with_runner(&reach, own, async |session| run::run(session, &args).await)
        }
        FanoutCommand::Resume(args) => {
            let own = own(&args.here, &[]);
            with_runner(&reach, own, async |session| {
                changes::resume(session, &args).await
            })
        }
        FanoutCommand::Retry(args) => {
            let own = own(&args.here, &[]);
            with_runner(&reach, own, async |session| {
                changes::retry(session, &args).await
            })
        }
        looks => with(&reach, Needs::Store, async |session| match looks {
            FanoutCommand::List(args) => looking::list(session, &args).await,
            FanoutCommand::Show(args) => looking::show(session, &args).await,
            FanoutCommand::Watch(args) => looking::watch(session, &args).await,
            FanoutCommand::Items(args) => looking::items(session, &args).await,
            FanoutCommand::Logs(args) => looking::logs(session, &args).await,
            FanoutCommand::Cost(args) => looking::cost(session, &args).await,
            FanoutCommand::Pause(args) => changes::pause(session, &args).await,
            FanoutCommand::Cancel(args) => changes::cancel(session, &args).await,
            FanoutCommand::Export(args) => export::run(session, &args).await,
            FanoutCommand::Rm(args) => changes::remove(session, &args).await,
            FanoutCommand::Run(_) | FanoutCommand::Resume(_) | FanoutCommand::Retry(_) => {
                Ok(ExitCode::SUCCESS)
            }
        }),
    }
}
