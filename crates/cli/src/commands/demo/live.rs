//! The demo's thread as it lives: events become lines, and what the story waits for.
//!
//! The invariant here: what is shown was told by the worker, in the order it was told. A command that
//! does not succeed ends the demo, and so does an agent that speaks while its command runs. Nothing is
//! waited for without a limit.

use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::timeout;
use turnlane::{
    ApprovalChange, ApprovalChanges, Client, DeltaKind, Event, EventBody, EventStream, Filter,
    Item, ItemBody, OpenApproval, QueuedTurnId, ThreadId, TurnStatus, TurnView,
};
use turnlane_protocol::item::{CommandExecution, ItemStatus};

use super::check::Row;
use super::story::Confined;
use super::view::View;
use crate::shown::Ink;

/// How long nothing may happen.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What the long check writes before its pid.
const PID_WORDS: &str = "check runs as pid ";

/// What the story has to know.
#[derive(Debug)]
pub(super) enum Happened {
    /// The agent asks.
    Asked(Box<OpenApproval>),
    /// The long check runs, as this process.
    Checking { pid: i32 },
    /// A turn of this row has ended.
    Ended {
        row: Option<String>,
        status: TurnStatus,
    },
}

/// Follows a thread.
pub(super) struct Live<'a> {
    view: &'a View,
    rows: &'a [Row],
    events: EventStream,
    asked: ApprovalChanges,
    confined: Confined,
    /// How many turns wait, as told last.
    depth: u64,
    /// What the command that runs has written so far.
    written: String,
    /// Whether the command that runs was shown.
    is_command_shown: bool,
    /// Whether a command runs.
    is_running: bool,
}

impl<'a> Live<'a> {
    /// From now on nothing is missed.
    pub(super) fn new(
        view: &'a View,
        rows: &'a [Row],
        client: &Client,
        thread: &ThreadId,
        confined: Confined,
    ) -> Self {
        Self {
            view,
            rows,
            events: client.events(Filter::all().thread(thread.clone())),
            asked: client.approvals().changes(),
            confined,
            depth: 0,
            written: String::new(),
            is_command_shown: false,
            is_running: false,
        }
    }

    /// Shows what happens until the story has to know.
    pub(super) async fn next(&mut self) -> anyhow::Result<Happened> {
        loop {
            let next = async {
                tokio::select! {
                    // What was told before a question is shown before it.
                    biased;
                    event = self.events.next() => Ok(event),
                    change = self.asked.next() => Err(change),
                }
            };
            let next = timeout(SILENCE_MAX, next).await;
            let happened = match next.context("nothing was heard from the worker for 30 s")? {
                Ok(Some(event)) => self.take(event)?,
                Err(Some(ApprovalChange::Requested(approval))) => {
                    self.show_command(approval.command.as_deref().unwrap_or_default())?;
                    Some(Happened::Asked(approval))
                }
                Err(Some(_)) => None,
                Ok(None) | Err(None) => bail!("the connection to the worker was lost"),
            };
            if let Some(happened) = happened {
                return Ok(happened);
            }
        }
    }

    fn take(&mut self, event: Event) -> anyhow::Result<Option<Happened>> {
        match event.body {
            EventBody::Queue(notice) => {
                self.depth = notice["depth"].as_u64().unwrap_or(self.depth);
            }
            EventBody::TurnStarted(turn) => self.started(&turn)?,
            EventBody::ItemStarted(item) => self.begun(&item)?,
            EventBody::ItemCompleted(item) => self.ended(&item)?,
            EventBody::Delta(delta) if delta.kind == DeltaKind::CommandOutput => {
                self.written.push_str(&delta.text);
                let pid = pid_in(&self.written);
                return Ok(pid.map(|pid| Happened::Checking { pid }));
            }
            EventBody::TurnCompleted(turn) => {
                let row = turn.queued_turn.map(|row| row.as_str().to_owned());
                if let Some(error) = &turn.error {
                    self.view.line(2, Ink::Red, &error.message)?;
                }
                return Ok(Some(Happened::Ended {
                    row,
                    status: turn.status,
                }));
            }
            EventBody::TooSlow => bail!("the demo read too slowly"),
            _ => {}
        }
        Ok(None)
    }

    fn started(&self, turn: &TurnView) -> anyhow::Result<()> {
        let is_its = |row: &Row| {
            Some(row.id.as_str()) == turn.queued_turn.as_ref().map(QueuedTurnId::as_str)
        };
        let number = self.rows.iter().position(is_its);
        let number = number.context("a turn runs that nobody queued")?;
        let again = match turn.attempt {
            Some(attempt) if attempt > 1 => format!(" (attempt {attempt})"),
            Some(_) | None => String::new(),
        };
        let waiting = match self.depth {
            0 => "none waits".to_owned(),
            1 => "1 waits".to_owned(),
            more => format!("{more} wait"),
        };
        let prompt = &self.rows[number].prompt;
        let title = format!(
            "turn {} of {}{again}: {prompt}",
            number + 1,
            self.rows.len()
        );
        self.view
            .line(0, Ink::Cyan, &format!("{title:<50}{waiting}"))
    }

    fn begun(&mut self, item: &Item) -> anyhow::Result<()> {
        if let ItemBody::CommandExecution(command) = &item.body {
            self.written.clear();
            self.is_command_shown = false;
            self.is_running = true;
            self.show_command(&command.command)?;
        }
        Ok(())
    }

    fn show_command(&mut self, command: &str) -> anyhow::Result<()> {
        if self.is_command_shown {
            return Ok(());
        }
        self.is_command_shown = true;
        let text = match self.confined {
            Confined::Yes => format!("$ {:<46}sandboxed", typed(command)),
            Confined::No => format!("$ {}", typed(command)),
        };
        self.view.line(1, Ink::Magenta, &text)
    }

    fn ended(&mut self, item: &Item) -> anyhow::Result<()> {
        match &item.body {
            ItemBody::AgentMessage(_) if self.is_running => {
                bail!("the agent went on before its command had ended")
            }
            ItemBody::AgentMessage(message) => {
                self.view
                    .line(1, Ink::Plain, &format!("agent: {}", message.text))
            }
            ItemBody::CommandExecution(command) => {
                self.is_running = false;
                self.command_ended(command)
            }
            _ => Ok(()),
        }
    }

    fn command_ended(&mut self, command: &CommandExecution) -> anyhow::Result<()> {
        let output = command.aggregated_output.as_deref().unwrap_or_default();
        for line in output.lines() {
            self.view.line(2, Ink::Dim, line)?;
        }
        if command.status == ItemStatus::Declined {
            return self.view.line(2, Ink::Yellow, "declined: not run");
        }
        match failure(command.exit_code) {
            Some(how) => bail!("the command `{}` {how}", typed(&command.command)),
            None => Ok(()),
        }
    }
}

/// What is wrong with a command's end. An agent of a script says what it says: whether its commands
/// worked is seen here alone.
fn failure(exit_code: Option<i32>) -> Option<String> {
    match exit_code {
        Some(0) => None,
        Some(code) => Some(format!("ended with exit code {code}")),
        None => Some("did not end by itself".to_owned()),
    }
}

/// The command as it stands in the script, without the shell that runs it.
fn typed(command: &str) -> &str {
    let inner = command
        .split_once(" -c ")
        .map_or(command, |(_, inner)| inner);
    inner.trim_matches(['\'', '"'])
}

/// The number after the words, once its line has ended.
fn pid_in(written: &str) -> Option<i32> {
    let (_, rest) = written.split_once(PID_WORDS)?;
    rest.split_once('\n')?.0.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_without_its_shell() {
        assert_eq!(typed("/bin/sh -c 'sh check.sh'"), "sh check.sh");
        assert_eq!(typed("rm -r build"), "rm -r build");
    }

    #[test]
    fn only_a_command_that_succeeded_is_right() {
        assert_eq!(failure(Some(0)), None);
        assert_eq!(failure(Some(2)).unwrap(), "ended with exit code 2");
        assert_eq!(failure(None).unwrap(), "did not end by itself");
    }

    #[test]
    fn a_pid_is_read_when_its_line_has_ended() {
        assert_eq!(pid_in("check runs as pid 12"), None);
        assert_eq!(pid_in("check runs as pid 123\n"), Some(123));
        assert_eq!(pid_in("nothing\n"), None);
    }
}
