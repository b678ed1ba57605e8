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
mod kept;
mod looking;
mod progress;
mod refusal;
mod run;

use std::process::ExitCode;

use crate::args::{FanoutArgs, FanoutCommand, HereArgs, Reach, StoredJobCommand};
use crate::session::{Needs, OwnServer, Session, names_a_server, with, with_runner};
use crate::shown::note;

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
            run_here(&reach, own, async |session| run::run(session, &args).await)
        }
        FanoutCommand::Resume(args) => {
            let own = own(&args.here, &[]);
            run_here(&reach, own, async |session| {
                changes::resume(session, &args).await
            })
        }
        FanoutCommand::Retry(args) => {
            let own = own(&args.here, &[]);
            run_here(&reach, own, async |session| {
                changes::retry(session, &args).await
            })
        }
        FanoutCommand::Stored(command) => with(&reach, Needs::Store, async |session| {
            stored(session, &command).await
        }),
    }
}

/// Runs a command that may run a job in this process. Settings of that process do not reach another
/// server, so they are refused where one is named; beside a daemon they are named.
fn run_here<F>(reach: &Reach, own: OwnServer, command: F) -> anyhow::Result<ExitCode>
where
    F: AsyncFnOnce(&Session) -> anyhow::Result<ExitCode>,
{
    let flag = match &own {
        own if !own.is_needed() => None,
        own if own.script.is_some() => Some("--script"),
        _ => Some("-c"),
    };
    if let Some(flag) = flag
        && names_a_server(reach)
    {
        return refusal::usage(&format!(
            "{flag} has no effect on the server that is named\n  \
             leave --server and TURNLANE_SERVER out to run the job in this process"
        ));
    }
    with_runner(reach, own, async |session| {
        if let Some(flag) = flag
            && session.is_beside_daemon()
        {
            note(&format!(
                "{flag} does not reach the daemon: the job runs in this process, and pauses when it ends"
            ));
        }
        command(session).await
    })
}

/// Runs a command that needs the store and starts nothing here.
async fn stored(session: &Session, command: &StoredJobCommand) -> anyhow::Result<ExitCode> {
    match command {
        StoredJobCommand::List(args) => looking::list(session, args).await,
        StoredJobCommand::Show(args) => looking::show(session, args).await,
        StoredJobCommand::Watch(args) => looking::watch(session, args).await,
        StoredJobCommand::Items(args) => looking::items(session, args).await,
        StoredJobCommand::Logs(args) => looking::logs(session, args).await,
        StoredJobCommand::Cost(args) => looking::cost(session, args).await,
        StoredJobCommand::Pause(args) => changes::pause(session, args).await,
        StoredJobCommand::Cancel(args) => changes::cancel(session, args).await,
        StoredJobCommand::Export(args) => export::run(session, args).await,
        StoredJobCommand::Rm(args) => changes::remove(session, args).await,
    }
}
