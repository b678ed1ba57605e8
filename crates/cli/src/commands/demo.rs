//! `turnlane demo`: the main job in a few seconds, on a machine with nothing installed.
//!
//! The invariant here: whatever happens (an error, a signal, a reader that has gone), the worker is
//! ended with everything it started, and then the folder is removed. Success means that everything
//! that was claimed was found to be so.
//!
//! What happens is told in `story`; what is right is decided in `check`. The demo of fan-out is in
//! `fanout`.

mod check;
mod consent;
mod fanout;
mod folder;
mod live;
mod story;
mod view;
mod worker;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use turnlane_process::{Options, ProcessService};

use super::exec::signals::{Caught, Signals};
use crate::args::{Answer, Demo, DemoSubject};
use crate::logging::{self, Weight};
use crate::runtime;
use crate::shown::text::counted;
use crate::shown::{self, Ink, Screen};
use check::Tally;
use consent::{Consent, Why};
use folder::Folder;
use story::{Confined, Story};
use view::View;

/// The exit code after Ctrl-C, as shells show it.
const INTERRUPTED: u8 = 130;

/// The exit code of wrong usage.
const WRONG_USAGE: u8 = 2;

const HEAD: &str = "\
A queue of turns that survives kill -9. No model, no key, no network: a script plays the agent, and
everything else is real.
";

/// Each of them works as it stands here; the second to fourth also while no daemon runs.
const NEXT: &str = "
  turnlane serve                           the daemon of ~/.turnlane: runs queues, day and night
  turnlane queue add --new 'tidy up here'  a turn for it, on disk at once
  turnlane thread list                     what there is, and how it went
  turnlane run 'explain this repository'   one turn, here and now
  turnlane doctor                          what this machine can contain and confine
  codex --remote unix://$HOME/.turnlane/run/app-server.sock
                                           the Codex terminal UI as a client of the daemon

Turns need a model: export OPENAI_API_KEY, or give `run` and `serve` one of your own with
`-c model_provider=ollama -c model=NAME`. In a checkout of the source,
`cargo install --path crates/cli` puts turnlane on your path.
";

/// Whether the folder stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keep {
    Yes,
    No,
}

/// How fast things are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// With pauses for people.
    Readable,
    Fast,
}

/// How it ended, unless it failed.
enum Ended {
    Told,
    Caught(Caught),
}

/// Runs the demo; fails when something that it claims is not so.
pub(crate) fn run(options: &Demo) -> anyhow::Result<ExitCode> {
    if options.subject == DemoSubject::Fanout
        && let Some(flag) = [("--yes", options.yes), ("--no-sandbox", options.no_sandbox)]
            .into_iter()
            .find_map(|(flag, is_set)| is_set.then_some(flag))
    {
        let text =
            format!("error: {flag} is of the demo of a queue: nothing asks or runs commands here");
        logging::announce(Weight::Error, &text)?;
        return Ok(ExitCode::from(WRONG_USAGE));
    }
    let ended = runtime::block_on(whole(options))?;
    match ended {
        Ok(Ended::Told) => Ok(ExitCode::SUCCESS),
        Ok(Ended::Caught(caught)) => {
            caught.raise();
            Ok(ExitCode::from(INTERRUPTED))
        }
        // Whoever reads a part, such as `head`, has what it wanted.
        Err(error) if shown::is_unread(&error) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error),
    }
}

async fn whole(options: &Demo) -> anyhow::Result<Ended> {
    // First: from here on a signal ends us in order.
    let mut signals = Signals::catch()?;
    let pace = if options.fast || !io::stdout().is_terminal() {
        Pace::Fast
    } else {
        Pace::Readable
    };
    let keep = if options.keep { Keep::Yes } else { Keep::No };
    let screen = Screen::new(Answer {
        json: false,
        colours: options.colours,
    });
    let view = View::new(screen, pace);
    let folder = match options.subject {
        DemoSubject::Queue => Folder::make(keep, pace)?,
        DemoSubject::Fanout => Folder::empty(keep)?,
    };
    let service =
        ProcessService::start(Options::default()).context("the process service cannot start")?;
    let ended = tokio::select! {
        told = told(options, pace, &view, &folder, &service) => told.map(|()| Ended::Told),
        caught = signals.next() => Ok(Ended::Caught(caught)),
    };
    // The story is gone, and its worker is being killed; this waits for it.
    service.stop().await;
    let path = folder.path().to_owned();
    folder.end()?;
    match &ended {
        Ok(Ended::Caught(_)) => shown::note("stopped: nothing of the demo runs any more"),
        Ok(Ended::Told) | Err(_) => {}
    }
    if keep == Keep::Yes {
        shown::note(&format!(
            "kept: {0}\n  TURNLANE_HOME={0}/home turnlane {1}",
            path.display(),
            match options.subject {
                DemoSubject::Queue => "thread list",
                DemoSubject::Fanout => "fanout list",
            }
        ));
    }
    ended
}

async fn told(
    options: &Demo,
    pace: Pace,
    view: &View,
    folder: &Folder,
    service: &ProcessService,
) -> anyhow::Result<()> {
    if options.subject == DemoSubject::Fanout {
        return Box::pin(fanout::tell(view, folder, service, pace)).await;
    }
    view.plain(HEAD)?;
    let story = Story {
        view,
        folder,
        service,
        consent: Consent::find(options.yes.then_some(Why::Told)),
        wanted: if options.no_sandbox {
            Confined::No
        } else {
            Confined::Yes
        },
    };
    let tally = Box::pin(story.tell()).await?;
    view.chapter("Checked: history and queue, read back")
        .await?;
    view.plain(&summary(&tally))?;
    if !tally.wrong.is_empty() {
        bail!(
            "the demo did not find what it claims: {}\n  \
             this is a defect; please report it with the output above",
            tally.wrong.join("; ")
        );
    }
    view.plain(&format!(
        "\n{}{NEXT}",
        view.paint(Ink::Bold, "What to type next")
    ))
}

fn summary(tally: &Tally) -> String {
    let Tally {
        accepted,
        attempts,
        completed,
        interrupted,
        lost,
        doubled,
        processes,
        wrong: _,
    } = tally;
    let accepted = counted(*accepted, "turn");
    let attempts = counted(*attempts, "attempt");
    format!(
        "  accepted   {accepted}\n  \
         run        {attempts}: {completed} completed, {interrupted} interrupted by the kill\n  \
         lost       {lost}\n  \
         doubled    {doubled}\n  \
         left over  {processes} processes\n"
    )
}
