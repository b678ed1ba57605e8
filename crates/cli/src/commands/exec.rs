//! `turnlane exec`: one turn without a person, in the place of `codex exec`.
//!
//! It is a client of the protocol like any other: of the daemon of this home if one answers, else of
//! a server inside this process. The invariant here: what is refused is refused before anything is
//! made or said on standard output, and the exit code follows from the typed end of the turn alone: 0
//! completed, 1 everything else, 2 wrong usage.
//!
//! In the order of a run: `setup` checks, `prompt` reads, `connect` finds the server, `lookup` the
//! thread, `settings` says what it is run with, `drive` follows the turn, `run` decides what is said
//! of it, `output` says it.

mod calls;
mod connect;
mod drive;
mod human;
mod items;
mod last_message;
mod local;
mod lookup;
mod output;
mod prompt;
mod refusal;
mod run;
mod settings;
mod setup;
pub(super) mod signals;
mod start;
mod stdout;
mod stream;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use turnlane::Filter;
use turnlane_protocol::output_schema::check_answer;

use self::drive::{DaemonWatch, Drive, Driven, Parts, Stop};
use self::human::{Human, Look};
use self::last_message::LastMessage;
use self::output::{Output, Voice};
use self::prompt::{Source, Stdin};
use self::refusal::Refused;
use self::run::End;
use self::setup::Setup;
use self::signals::{Caught, Signals};
use self::start::{Begun, Started};
use self::stdout::Stdout;
pub(super) use self::stream::Audience;
use crate::args::{ColorArg, Exec, ExecOptions, Manner, Wish};
use crate::linked::Linked;
use crate::session::INTERRUPTED;
use crate::session::refused::plain;
use crate::shown::{Colour, note, out};

/// How long the last line may take when somebody wants us to end.
const LAST_LINE_MAX: Duration = Duration::from_secs(1);

/// Runs the command; everything people have to know is said.
pub(crate) fn run(args: Exec, before: &[String]) -> ExitCode {
    run_wish(args.wish(), before, Audience::Script)
}

/// As `run`, for what was asked for in other words; an error is wrong usage.
pub(super) fn run_wish(
    wish: Result<Wish, clap::Error>,
    before: &[String],
    audience: Audience,
) -> ExitCode {
    let wish = match wish {
        Ok(wish) => wish,
        Err(usage) => {
            out::usage(&usage);
            return ExitCode::from(2);
        }
    };
    match runtime().map(|runtime| {
        let finished = runtime.block_on(whole(&wish, before, audience));
        // A blocked read of standard input must not hold up the exit.
        runtime.shutdown_background();
        finished
    }) {
        Ok(Ok(Finished { code, caught })) => {
            if let Some(caught) = caught {
                caught.raise();
            }
            match (audience, caught) {
                // As of every command that a person leaves; scripts know 1 from `codex exec`.
                (Audience::Person, Some(Caught::Interrupt)) => ExitCode::from(INTERRUPTED),
                _ => code,
            }
        }
        Ok(Err(refused)) => {
            note(&match audience {
                Audience::Script => refused.to_string(),
                Audience::Person => for_person(&refused.to_string()),
            });
            ExitCode::FAILURE
        }
        Err(error) => {
            note(&format!("Error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// One thread: a run waits most of the time, and starting more costs more than they would save.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

/// How the process ends.
struct Finished {
    code: ExitCode,
    /// The signal that it ends by.
    caught: Option<Caught>,
}

impl Finished {
    fn by(caught: Caught) -> Self {
        Self {
            code: ExitCode::FAILURE,
            caught: Some(caught),
        }
    }
}

/// A refusal without the words that only scripts need.
fn for_person(refused: &str) -> String {
    match refused.strip_prefix("Error: ") {
        Some(text) => format!("error: {}", plain(text)),
        None => refused.to_owned(),
    }
}

async fn whole(wish: &Wish, before: &[String], audience: Audience) -> Result<Finished, Refused> {
    let options = &wish.options;
    for name in options.idle.given() {
        note(&format!("note: {name} has no effect"));
    }
    let mut setup = Setup::new(wish, before)?;
    for text in &setup.files.current()?.without_effect {
        note(&format!("warning: {text}"));
    }
    let stdin = if io::stdin().is_terminal() {
        Stdin::Terminal
    } else {
        Stdin::Other
    };
    let source = Source::of(&wish.what, stdin)?;
    let prompt = source.read(tokio::io::stdin(), note).await?;
    let mut signals = Signals::catch()?;
    let file = options.output_last_message.clone().map(LastMessage::new);
    if let Some(complaint) = file.as_ref().and_then(LastMessage::complaint) {
        note(&complaint);
    }
    let linked = tokio::select! {
        linked = connect::link(&mut setup, options) => linked?,
        caught = signals.next() => return Ok(Finished::by(caught)),
    };
    let asked = Asked {
        wish,
        setup: &setup,
        prompt: prompt.as_deref(),
        file: file.as_ref(),
        runner: if linked.is_daemon() {
            TurnRunner::Daemon
        } else {
            TurnRunner::ThisProcess
        },
        audience,
    };
    let finished = asked.run(&linked, signals).await;
    linked.end().await;
    finished
}

/// A run that was not refused so far.
struct Asked<'a> {
    wish: &'a Wish,
    setup: &'a Setup,
    prompt: Option<&'a str>,
    file: Option<&'a LastMessage>,
    runner: TurnRunner,
    audience: Audience,
}

/// Which process runs the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnRunner {
    Daemon,
    ThisProcess,
}

impl Asked<'_> {
    async fn run(&self, linked: &Linked, mut signals: Signals) -> Result<Finished, Refused> {
        let stdout = Stdout::start().context("cannot write to standard output")?;
        let mut output = Output::new(voice(&self.wish.options), stdout, self.audience);
        // First, so that nothing that is told is missed.
        let events = linked.client.events(Filter::default());
        let starting = start::start(linked, self.wish, self.setup, self.prompt, &mut output);
        let begun = tokio::select! {
            begun = starting => begun?,
            caught = signals.next() => return Ok(Finished::by(caught)),
        };
        let Begun {
            calls,
            run,
            primary,
        } = match begun {
            Started::Turn(begun) => *begun,
            Started::Nothing => {
                output.finish(None).await;
                return Ok(Finished {
                    code: ExitCode::SUCCESS,
                    caught: None,
                });
            }
        };
        let daemon = linked
            .is_daemon()
            .then(|| DaemonWatch::new(self.setup.home.clone(), &linked.client, self.audience));
        let parts = Parts {
            calls,
            events,
            run,
            output,
            daemon,
        };
        let mut drive = Drive::new(parts, primary);
        let driven = drive.follow(&mut signals).await;
        Ok(self.end(drive, driven, signals).await)
    }

    /// What follows the last line: the answer, the file, the exit code.
    async fn end(&self, drive: Drive, driven: Driven, mut signals: Signals) -> Finished {
        let Drive {
            run, mut output, ..
        } = drive;
        output.end_line();
        if let (Some(human), Some(usage)) = (output.human(), run.usage()) {
            human.tell(&human.footer(usage));
        }
        if let (Some(human), End::Failed) = (output.human(), driven.end)
            && let Some(hint) = run.last_error().and_then(|error| self.key_hint(error))
        {
            human.tell(&hint);
        }
        let message = run.last_message();
        let mut delivered = Delivered::Whole;
        if driven.end == End::Completed {
            let look = look(io::stdout().is_terminal());
            if let Some(message) = message {
                output.answer(message, look);
            }
            let heard = match output.human() {
                Some(_) => run.last_warning(),
                // There it is an event on standard output.
                None => None,
            };
            delivered = self.check_form(heard, message);
            match self.file.map(|file| file.write(message)) {
                None | Some(Ok(None)) => {}
                Some(Ok(Some(warning))) => note(&warning),
                Some(Err(failure)) => {
                    note(&failure);
                    delivered = Delivered::InPart;
                }
            }
        }
        let fault = output.fault();
        let mut caught = match driven.stop {
            Some(Stop::Signal(caught)) => Some(caught),
            Some(Stop::StdoutClosed) => {
                if fault.get().is_none() {
                    note("stdout closed by reader; turn interrupted");
                }
                None
            }
            None => None,
        };
        let limit = driven.stop.map(|_| LAST_LINE_MAX);
        tokio::select! {
            () = output.finish(limit) => {}
            late = signals.next() => caught = Some(late),
        }
        if let Some(error) = fault.get() {
            note(&format!("Error: cannot write to standard output: {error}"));
        }
        let completed = driven.end == End::Completed && driven.stop != Some(Stop::StdoutClosed);
        let is_strict = self.wish.manner == Manner::Strict;
        let missed = fault.get().is_some() || is_strict && delivered == Delivered::InPart;
        let code = if completed && !missed {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
        Finished { code, caught }
    }

    /// Where a key that the engine missed has to be set: in the environment of who runs the turn.
    fn key_hint(&self, error: &str) -> Option<String> {
        let rest = error.strip_prefix("Missing environment variable: `")?;
        let (variable, _) = rest.split_once('`')?;
        let keys = self.setup.home.join(crate::assembly::KEYS);
        let keys = keys.display();
        Some(match self.runner {
            TurnRunner::Daemon => format!(
                "The daemon does not have {variable} in its environment; the environment of this shell does not count. Write {variable}=KEY into \
                 {keys}, or stop the daemon with `turnlane serve stop` and start it where {variable} is \
                 set.\n"
            ),
            TurnRunner::ThisProcess => {
                format!("Set {variable} in this shell, or write {variable}=KEY into {keys}.\n")
            }
        })
    }

    /// An answer that has not the form that was asked for is still one, and is warned of once.
    fn check_form(&self, heard: Option<&str>, message: Option<&str>) -> Delivered {
        let Some(schema) = &self.setup.said.schema else {
            return Delivered::Whole;
        };
        let Err(why) = check_answer(schema, message.unwrap_or_default()) else {
            return Delivered::Whole;
        };
        let why = why.clone();
        // An engine that checks the answer too has said the same on this stream.
        if !heard.is_some_and(|told| told.ends_with(&why)) {
            note(&format!(
                "warning: the final message does not fit the output schema: {why}"
            ));
        }
        Delivered::InPart
    }
}

/// Whether the caller got what the options ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivered {
    Whole,
    InPart,
}

fn look(terminal: bool) -> Look {
    if terminal {
        Look::Terminal
    } else {
        Look::Elsewhere
    }
}

fn voice(options: &ExecOptions) -> Voice {
    if options.json {
        return Voice::Lines;
    }
    let look = look(io::stderr().is_terminal());
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let colour = match options.color.unwrap_or_default() {
        ColorArg::Always => Colour::On,
        ColorArg::Auto if look == Look::Terminal && !plain => Colour::On,
        ColorArg::Auto | ColorArg::Never => Colour::Off,
    };
    Voice::People(Human {
        colour,
        look,
        engine: "agent".to_owned(),
    })
}
