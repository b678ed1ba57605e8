//! The agent's question, and who answers it.
//!
//! The invariant here: whoever answers is named. A person has some seconds; silence is an acceptance
//! only because it was announced as one, for a command of the demo's own in the demo's own folder.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;
use turnlane::{Decision, OpenApproval};

use super::view::View;
use crate::shown::Ink;

/// How long a person has.
const THINKING: Duration = Duration::from_secs(6);

const NO: Decision = Decision::Decline { reason: None };

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consent {
    /// A person at the terminal.
    Person,
    /// The demo, because it was told to or because nobody is there.
    Demo(Why),
}

/// Why the demo answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Told,
    NoTerminal,
}

impl Consent {
    /// Who is there to answer.
    pub(super) fn find(why: Option<Why>) -> Self {
        let is_there = io::stdin().is_terminal() && io::stdout().is_terminal();
        match why {
            Some(why) => Self::Demo(why),
            None if is_there => Self::Person,
            None => Self::Demo(Why::NoTerminal),
        }
    }

    /// Shows the question and gets an answer.
    pub(super) async fn ask(self, view: &View, asked: &OpenApproval) -> anyhow::Result<Decision> {
        let reason = asked.reason.as_ref().map(|why| format!(" ({why})"));
        let reason = reason.unwrap_or_default();
        view.line(
            2,
            Ink::Yellow,
            &format!("the agent asks for your approval{reason}"),
        )?;
        let answered = match self {
            Self::Demo(_) => None,
            Self::Person => answer(view).await?,
        };
        let by = match (self, &answered) {
            (Self::Demo(Why::Told), _) => {
                "the demo plays the person who accepts, as you told it to"
            }
            (Self::Demo(Why::NoTerminal), _) => {
                "the demo plays the person who accepts, because standard input is no terminal"
            }
            (Self::Person, Some(_)) => "you answered",
            (Self::Person, None) => "no answer came, so the demo plays the person who accepts",
        };
        let decision = answered.unwrap_or(Decision::Accept);
        let word = match decision {
            Decision::Accept => "accepted",
            _ => "declined",
        };
        view.line(2, Ink::Yellow, &format!("{word}: {by}"))?;
        Ok(decision)
    }
}

/// What a person types within the time; none: nothing that is a yes or a no.
async fn answer(view: &View) -> anyhow::Result<Option<Decision>> {
    let seconds = THINKING.as_secs();
    let question = format!(
        "y or n, then Enter; after {seconds} s the demo plays the person who accepts (the product never \
         does)"
    );
    view.line(2, Ink::Bold, &question)?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let typed = async {
        // A terminal that is closed or cannot be read says nothing.
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(answer) = read(&line) {
                return Some(answer);
            }
        }
        std::future::pending().await
    };
    Ok(timeout(THINKING, typed).await.ok().flatten())
}

fn read(line: &str) -> Option<Decision> {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(Decision::Accept),
        "n" | "no" => Some(NO),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_yes_is_a_yes_and_only_a_no_is_a_no() {
        for (line, expected) in [
            ("y", Some(Decision::Accept)),
            (" YES ", Some(Decision::Accept)),
            ("n", Some(NO)),
            ("No", Some(NO)),
            ("", None),
            ("yep", None),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }
}
