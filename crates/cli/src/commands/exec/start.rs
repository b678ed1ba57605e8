//! From a wish to a turn that is accepted: the thread is made, found or copied, and told.
//!
//! The invariant here: the thread is told as soon as it is sure, once; what the server refuses before
//! that refuses the run. A thread that another process is busy with is told too: its turn waits in
//! place, behind what is queued.

use std::path::PathBuf;

use serde_json::Value;
use turnlane_protocol::input::UserInput;
use turnlane_protocol::method::{
    StartAnswer, ThreadReadAnswer, ThreadReadParams, ThreadResumeAnswer, TurnStartAnswer,
    TurnStartParams, thread_fork, thread_read, thread_resume, thread_start, turn_start,
};
use turnlane_protocol::policy::SandboxPolicy;
use turnlane_protocol::thread::Thread;

use super::calls::Calls;
use super::drive::{Following, Primary};
use super::human::Header;
use super::lookup::{self, Among, Where};
use super::output::Output;
use super::refusal::Refused;
use super::run::Run;
use super::settings::absolute;
use super::setup::Setup;
use crate::args::{Wanted, Which, Wish};
use crate::linked::Linked;

/// What a start came to.
pub(super) enum Started {
    /// A copy was made and nothing said.
    Nothing,
    Turn(Box<Begun>),
}

/// A turn that is accepted or waits.
pub(super) struct Begun {
    pub(super) calls: Calls,
    pub(super) run: Run,
    pub(super) primary: Primary,
}

/// The thread of a run.
struct Opened {
    thread: String,
    header: Header,
    following: Following,
}

/// Makes or opens the thread, tells it, and starts the turn.
pub(super) async fn start(
    linked: &Linked,
    wish: &Wish,
    setup: &Setup,
    prompt: Option<&str>,
    output: &mut Output,
) -> Result<Started, Refused> {
    let starting = Starting {
        calls: Calls(linked.client.clone()),
        wish,
        setup,
    };
    starting.start(prompt, output).await
}

struct Starting<'a> {
    calls: Calls,
    wish: &'a Wish,
    setup: &'a Setup,
}

impl Starting<'_> {
    async fn start(self, prompt: Option<&str>, output: &mut Output) -> Result<Started, Refused> {
        let opened = self.open().await?;
        let mut run = Run::new(&opened.thread, PathBuf::from(&opened.header.workdir));
        let Some(prompt) = prompt else {
            output.say([run.thread_started()]);
            return Ok(Started::Nothing);
        };
        let (input, missing) = self.input(prompt);
        let params = self.turn(&opened.thread, input)?;
        let mut say = |run: &mut Run| tell(run, &opened, &missing, prompt, output);
        // Whoever does not want to wait is told nothing of a thread that is busy.
        let waits = !self.wish.options.no_wait;
        if waits {
            say(&mut run);
        }
        let primary = self.accepted(&opened, params).await?;
        if !waits {
            say(&mut run);
        }
        run.accepted(&primary.turn);
        let calls = self.calls;
        Ok(Started::Turn(Box::new(Begun {
            calls,
            run,
            primary,
        })))
    }

    async fn open(&self) -> Result<Opened, Refused> {
        let Self { calls, wish, setup } = self;
        let said = &setup.said;
        match &wish.what {
            Wanted::New { .. } => {
                let params = said.start(&wish.options)?;
                let answer = calls.call(thread_start::METHOD, &params).await?;
                Ok(opened(&answer))
            }
            Wanted::Resume { which, .. } => {
                let thread = self.find(which).await?;
                self.resume(&thread).await
            }
            Wanted::Fork { thread, .. } => {
                let thread = self.find(&Which::Named(thread.clone())).await?;
                let params = said.fork(&wish.options, &thread)?;
                let answer = calls.call(thread_fork::METHOD, &params).await?;
                Ok(opened(&answer))
            }
        }
    }

    async fn find(&self, which: &Which) -> Result<String, Refused> {
        let among = Among {
            cwd: &self.setup.said.cwd,
            where_: if self.wish.options.all {
                Where::Everywhere
            } else {
                Where::Here
            },
            provider: &self.setup.provider,
        };
        lookup::find(&self.calls, which, among).await
    }

    async fn resume(&self, thread: &str) -> Result<Opened, Refused> {
        let params = self.setup.said.resume(thread);
        let answer = self
            .calls
            .ask::<ThreadResumeAnswer>(thread_resume::METHOD, &params);
        let failed = match answer.await {
            Ok(answer) => return Ok(opened(&answer.start)),
            Err(failed) => failed,
        };
        if !failed.is("ownedElsewhere") || self.wish.options.no_wait {
            return Err(failed.refused(thread_resume::METHOD));
        }
        // Another process has its lane; it can be read, and turns can be added to it.
        let params = ThreadReadParams {
            thread_id: thread.to_owned(),
            ..ThreadReadParams::default()
        };
        let read: ThreadReadAnswer = self.calls.call(thread_read::METHOD, &params).await?;
        Ok(Opened {
            header: header_of(&read.thread),
            thread: thread.to_owned(),
            following: Following::NotYet,
        })
    }

    fn turn(&self, thread: &str, input: Vec<UserInput>) -> Result<TurnStartParams, Refused> {
        let said = &self.setup.said;
        let options = &self.wish.options;
        Ok(match self.wish.what {
            Wanted::Resume { .. } => said.further_turn(options, thread, input)?,
            Wanted::New { .. } | Wanted::Fork { .. } => said.turn(options, thread, input),
        })
    }

    async fn accepted(&self, opened: &Opened, params: TurnStartParams) -> Result<Primary, Refused> {
        let answer = self
            .calls
            .ask::<TurnStartAnswer>(turn_start::METHOD, &params);
        let answer = answer.await.map_err(|failed| {
            if failed.is("busy") {
                let thread = &opened.thread;
                let text = format!("thread {thread} already has an active writer (code -32600)");
                return Refused::new(text);
            }
            failed.refused(turn_start::METHOD)
        })?;
        let row = answer.queued_turn.as_ref().map(|row| row.id.to_string());
        Ok(Primary {
            thread: opened.thread.clone(),
            turn: answer.turn.id.to_string(),
            following: match row {
                // A turn that began here is told here.
                None => Following::Yes,
                Some(_) => opened.following,
            },
            row,
        })
    }

    /// The input, and a complaint for each picture that is not there.
    fn input(&self, prompt: &str) -> (Vec<UserInput>, Vec<String>) {
        let mut input = Vec::new();
        let mut missing = Vec::new();
        for image in &self.wish.images {
            match std::fs::metadata(image) {
                Ok(_) => input.push(UserInput::LocalImage {
                    path: absolute(&current_dir(), image),
                    detail: None,
                }),
                Err(error) => missing.push(format!("image {}: {error}", image.display())),
            }
        }
        // First, because the beginning of the first text stands for the thread in lists.
        input.push(UserInput::text(prompt));
        // The model is told too, or it would answer as if no picture had been meant.
        let told = |complaint: &String| {
            UserInput::text(format!(
                "A picture of this message could not be read: {complaint}"
            ))
        };
        input.extend(missing.iter().map(told).collect::<Vec<_>>());
        (input, missing)
    }
}

/// Where relative paths of the command line begin, whatever `-C` says.
fn current_dir() -> PathBuf {
    std::env::current_dir().unwrap_or_default()
}

/// Says which thread it is, and what is amiss before its turn.
fn tell(run: &mut Run, opened: &Opened, missing: &[String], prompt: &str, output: &mut Output) {
    output.set_engine(&opened.header.engine);
    if let Some(human) = output.human() {
        let header = human.header(&opened.header, prompt);
        human.tell(&format!("{}\n", header.trim_end()));
    }
    output.say([run.thread_started()]);
    for complaint in missing {
        let told = run.warning(complaint);
        output.say([told]);
    }
}

fn opened(answer: &StartAnswer) -> Opened {
    let header = Header {
        workdir: answer.cwd.clone(),
        model: answer.model.clone(),
        provider: answer.model_provider.clone(),
        approval: word(&answer.approval_policy),
        sandbox: sandbox_word(&answer.sandbox).to_owned(),
        effort: answer.reasoning_effort.clone(),
        ..header_of(&answer.thread)
    };
    Opened {
        thread: answer.thread.id.to_string(),
        header,
        following: Following::Yes,
    }
}

/// What a thread alone tells.
fn header_of(thread: &Thread) -> Header {
    Header {
        workdir: thread.cwd.clone(),
        model: thread.model.clone().unwrap_or_default(),
        provider: thread.model_provider.clone(),
        engine: thread.engine.clone().unwrap_or_else(|| "agent".to_owned()),
        approval: "unknown".to_owned(),
        sandbox: "unknown".to_owned(),
        effort: thread.reasoning_effort.clone(),
        summaries: None,
        thread: thread.id.to_string(),
    }
}

fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(Value::Object(members)) => members.keys().next().cloned().unwrap_or_default(),
        Ok(_) | Err(_) => String::new(),
    }
}

const fn sandbox_word(policy: &SandboxPolicy) -> &'static str {
    match policy {
        SandboxPolicy::DangerFullAccess => "danger-full-access",
        SandboxPolicy::ReadOnly { .. } => "read-only",
        SandboxPolicy::WorkspaceWrite(_) => "workspace-write",
        SandboxPolicy::ExternalSandbox { .. } => "external",
    }
}
