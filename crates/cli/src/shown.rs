//! How the commands for people look: text or JSON, colours, tables, times.
//!
//! The invariant here: standard output holds results alone, and the same ones whether a person or a
//! pipe reads it; only colours and the cutting of long lines depend on a terminal. What a model or a
//! command wrote cannot steer a terminal: all text leaves through `out`, which makes it visible.
//!
//! What is shown is each command's business.

pub(crate) mod ids;
pub(crate) mod item;
pub(crate) mod out;
pub(crate) mod queue;
pub(crate) mod state;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod time;
mod visible;

use std::io::{self, IsTerminal as _};

use serde::Serialize;
use turnlane_runtime::{Clock as _, SystemClock};

pub(crate) use out::{Colour, note};

use crate::args::{Answer, ColorArg};

/// Text for people, or JSON for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    People,
    Json,
}

/// Colours and weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Magenta,
    Cyan,
}

impl Ink {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Magenta => "35",
            Self::Cyan => "36",
        }
    }
}

/// Standard output, and what is known about who reads it.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) form: Form,
    colour: Colour,
    /// The terminal's width; none where nothing is cut.
    width: Option<usize>,
    /// When the command began.
    pub(crate) now_ms: i64,
}

impl Screen {
    pub(crate) fn new(answer: Answer) -> Self {
        let form = if answer.json {
            Form::Json
        } else {
            Form::People
        };
        let terminal = io::stdout().is_terminal();
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let colour = match (form, answer.colours.color) {
            (Form::Json, _) | (_, ColorArg::Never) => Colour::Off,
            (Form::People, ColorArg::Always) => Colour::On,
            (Form::People, ColorArg::Auto) => automatic(terminal, variable),
        };
        Self {
            form,
            colour,
            width: terminal.then(terminal_width).flatten(),
            now_ms: SystemClock.now_ms(),
        }
    }

    /// A screen of no terminal at the beginning of time.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self {
            form: Form::People,
            colour: Colour::Off,
            width: None,
            now_ms: 0,
        }
    }

    /// The text in this colour, where there are colours.
    pub(crate) fn paint(&self, ink: Ink, text: &str) -> String {
        match (self.colour, ink) {
            (Colour::Off, _) | (_, Ink::Plain) => text.to_owned(),
            (Colour::On, ink) => format!("\x1b[{}m{text}\x1b[0m", ink.code()),
        }
    }

    /// How long a line may be; none where nothing is cut.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Writes text to standard output, at once.
    pub(crate) fn print(&self, text: &str) -> anyhow::Result<()> {
        out::print(text, self.colour)
    }

    /// Writes one line of JSON to standard output.
    #[expect(
        clippy::unused_self,
        reason = "a caller without a screen has not decided between text and JSON"
    )]
    pub(crate) fn json(&self, value: &impl Serialize) -> anyhow::Result<()> {
        out::print_json(value)
    }

    /// Writes text that was painted here to standard error, with its colours.
    pub(crate) fn note_painted(&self, text: &str) {
        out::tell(&format!("{text}\n"), self.colour);
    }

    /// What to do next, for people: on standard error.
    pub(crate) fn hint(&self, text: &str) {
        if self.form == Form::People {
            note(text);
        }
    }

    /// When something was, for people.
    pub(crate) fn ago(&self, at_ms: i64) -> String {
        time::ago(self.now_ms, at_ms)
    }

    /// When something will be, for people.
    pub(crate) fn until(&self, at_ms: i64) -> String {
        time::until(self.now_ms, at_ms)
    }
}

/// Whether there are colours where nobody said: as the variables that many programs know have it.
fn automatic(terminal: bool, variable: impl Fn(&str) -> Option<String>) -> Colour {
    let is = |name: &str, value: &str| variable(name).is_some_and(|set| set == value);
    if variable("NO_COLOR").is_some() {
        return Colour::Off;
    }
    if variable("CLICOLOR_FORCE").is_some() && !is("CLICOLOR_FORCE", "0") {
        return Colour::On;
    }
    if terminal && !is("CLICOLOR", "0") && !is("TERM", "dumb") {
        Colour::On
    } else {
        Colour::Off
    }
}

/// Whether a command failed only because nobody reads its output any more.
pub(crate) fn is_unread(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    // Narrower ones would leave nothing to read.
    (size.ws_col >= 20).then(|| size.ws_col.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_a_variable_says_otherwise() {
        for (terminal, set, expected) in [
            (true, &[][..], Colour::On),
            (false, &[], Colour::Off),
            (true, &[("NO_COLOR", "1")], Colour::Off),
            (true, &[("CLICOLOR", "0")], Colour::Off),
            (true, &[("CLICOLOR", "1")], Colour::On),
            (false, &[("CLICOLOR", "1")], Colour::Off),
            (true, &[("TERM", "dumb")], Colour::Off),
            (false, &[("CLICOLOR_FORCE", "1")], Colour::On),
            (false, &[("CLICOLOR_FORCE", "0")], Colour::Off),
            (
                true,
                &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")],
                Colour::Off,
            ),
        ] {
            let variable = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(
                automatic(terminal, variable),
                expected,
                "{terminal} {set:?}"
            );
        }
    }
}
