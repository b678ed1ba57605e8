//! Asks the hooks of one thread start or one turn, phase by phase.
//!
//! The invariant here: hooks are asked one after another in their order, each sees what those before
//! it changed, and after the first no nobody else is asked. Once a `Pre` phase ran, its `Post` phase
//! runs too, whatever happens between.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tracing::Instrument as _;

use super::call::ask;
use super::wire::Said;
use super::{
    Entry, HookAction, HookContext, HookIssue, HookOutcome, HookPatch, HookPhase, HookReport,
    HookRun, HookSet, IssueClass, MainStatus, OnFailure, patch,
};
use crate::error::Block;
use crate::ids::{ThreadId, TurnId};
use crate::input::{Attachment, Input};

/// What a hook may change before a thread or a turn, and what it sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    pub(crate) thread: Option<ThreadId>,
    pub(crate) turn: Option<TurnId>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) model: Option<String>,
    pub(crate) input: Input,
    /// What hooks add to the input.
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) metadata: Map<String, Value>,
}

/// The hooks of one thread start or one turn, in their order: client, thread, turn.
#[derive(Debug)]
pub(crate) struct HookRunner {
    entries: Vec<Arc<Entry>>,
    correlation_id: String,
    report: HookReport,
}

impl HookRunner {
    pub(crate) fn new(client: &HookSet, thread: &HookSet, turn: &HookSet) -> Self {
        let mut entries: Vec<Arc<Entry>> = Vec::new();
        for entry in [client, thread, turn]
            .into_iter()
            .flat_map(|set| &set.entries)
        {
            let name = entry.name();
            if entries.iter().all(|kept| kept.name() != name) {
                entries.push(Arc::clone(entry));
            }
        }
        Self {
            entries,
            correlation_id: uuid::Uuid::now_v7().to_string(),
            report: HookReport::default(),
        }
    }

    /// `PreSessionStart`: may change the model and the metadata. When one blocks, `PostSessionStart`
    /// has run already.
    pub(crate) async fn before_thread(&mut self, subject: &mut Subject) -> Result<(), Block> {
        let asked = self.before(HookPhase::PreSessionStart, subject).await;
        if asked.is_err() {
            self.after_thread(subject, MainStatus::Error).await;
        }
        asked
    }

    /// `PostSessionStart`.
    pub(crate) async fn after_thread(&mut self, subject: &Subject, main: MainStatus) {
        self.after(HookPhase::PostSessionStart, subject, main).await;
    }

    /// `PreRun` and `PreTurn`: may change input, model and metadata. When one blocks, the `Post`
    /// phases of those that ran have run already.
    pub(crate) async fn before_turn(&mut self, subject: &mut Subject) -> Result<(), Block> {
        if let Err(block) = self.before(HookPhase::PreRun, subject).await {
            self.after(HookPhase::PostRun, subject, MainStatus::Error)
                .await;
            return Err(block);
        }
        let asked = self.before(HookPhase::PreTurn, subject).await;
        if asked.is_err() {
            self.after_turn(subject, MainStatus::Error).await;
        }
        asked
    }

    /// `PostTurn` and `PostRun`.
    pub(crate) async fn after_turn(&mut self, subject: &Subject, main: MainStatus) {
        self.after(HookPhase::PostTurn, subject, main).await;
        self.after(HookPhase::PostRun, subject, main).await;
    }

    /// What they did so far.
    pub(crate) fn report(&self) -> HookReport {
        self.report.clone()
    }

    /// The hooks that this phase selects.
    fn selected(
        &self,
        phase: HookPhase,
        subject: &Subject,
        main: Option<MainStatus>,
    ) -> Vec<Arc<Entry>> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        let context = self.context(phase, subject, main);
        let entries = self.entries.iter();
        let selected = entries.filter(|entry| entry.matcher.selects(&context));
        selected.map(Arc::clone).collect()
    }

    fn context(
        &self,
        phase: HookPhase,
        subject: &Subject,
        main: Option<MainStatus>,
    ) -> HookContext {
        HookContext {
            phase,
            thread_id: subject.thread.clone(),
            turn_id: subject.turn.clone(),
            cwd: subject.cwd.clone(),
            model: subject.model.clone(),
            prompt: patch::words(subject.input.items()),
            main_status: main,
            correlation_id: self.correlation_id.clone(),
            at: crate::clock::now(),
            metadata: subject.metadata.clone(),
            tool_name: None,
            tool_input: None,
        }
    }

    async fn before(&mut self, phase: HookPhase, subject: &mut Subject) -> Result<(), Block> {
        let mut decided = None;
        for entry in self.selected(phase, subject, None) {
            if decided.is_some() {
                self.ran(&entry, phase, HookOutcome::Skipped, Duration::ZERO);
                continue;
            }
            decided = self.ask_before(&entry, phase, subject).await.err();
        }
        decided.map_or(Ok(()), Err)
    }

    async fn ask_before(
        &mut self,
        entry: &Arc<Entry>,
        phase: HookPhase,
        subject: &mut Subject,
    ) -> Result<(), Block> {
        let context = self.context(phase, subject, None);
        let (said, took) = self.ask(entry, context).await;
        let said = said.and_then(|action| not_emptied(entry, phase, action));
        match said {
            Ok(HookAction::Noop) => {
                self.ran(entry, phase, HookOutcome::Noop, took);
                Ok(())
            }
            Ok(HookAction::Mutate(wanted)) => {
                self.ran(entry, phase, HookOutcome::Mutated, took);
                let permitted = self.permitted(entry, phase, wanted, subject);
                patch::apply(permitted, subject);
                Ok(())
            }
            Ok(HookAction::Block { message }) => {
                self.ran(entry, phase, HookOutcome::Blocked, took);
                Err(blocked(entry, phase, message))
            }
            Err(issue) => {
                self.ran(entry, phase, HookOutcome::Failed, took);
                let reason = format!("hook failed ({}): {}", issue.class.as_str(), issue.message);
                self.report.issues.push(issue);
                match entry.on_failure() {
                    OnFailure::Allow => Ok(()),
                    OnFailure::Block => Err(blocked(entry, phase, reason)),
                }
            }
        }
    }

    async fn after(&mut self, phase: HookPhase, subject: &Subject, main: MainStatus) {
        for entry in self.selected(phase, subject, Some(main)) {
            let context = self.context(phase, subject, Some(main));
            let (said, took) = self.ask(&entry, context).await;
            match said {
                Ok(HookAction::Noop) => self.ran(&entry, phase, HookOutcome::Noop, took),
                Ok(HookAction::Mutate(wanted)) => {
                    self.ran(&entry, phase, HookOutcome::Mutated, took);
                    self.permitted(&entry, phase, wanted, subject);
                }
                Ok(HookAction::Block { .. }) => {
                    self.ran(&entry, phase, HookOutcome::Blocked, took);
                    self.invalid(&entry, phase, format!("block is not allowed in {phase}"));
                }
                Err(issue) => {
                    self.ran(&entry, phase, HookOutcome::Failed, took);
                    self.report.issues.push(issue);
                }
            }
        }
    }

    /// Asks one; what is wrong beside its action is kept as issues.
    async fn ask(
        &mut self,
        entry: &Arc<Entry>,
        context: HookContext,
    ) -> (Result<HookAction, HookIssue>, Duration) {
        let phase = context.phase;
        let span = tracing::debug_span!(
            "hook",
            event = phase.as_str(),
            handler = entry.name(),
            outcome = tracing::field::Empty
        );
        let (said, took) = ask(entry, context).instrument(span.clone()).await;
        span.record("outcome", outcome(&said).as_str());
        let action = said.map(|said| {
            for message in said.wrong {
                self.invalid(entry, phase, message);
            }
            said.action
        });
        (action, took)
    }

    /// What of a patch counts; the rest becomes issues.
    fn permitted(
        &mut self,
        entry: &Entry,
        phase: HookPhase,
        wanted: HookPatch,
        subject: &Subject,
    ) -> HookPatch {
        let (permitted, wrong) = patch::permitted(wanted, phase, subject.cwd.as_deref());
        for message in wrong {
            self.invalid(entry, phase, message);
        }
        permitted
    }

    fn invalid(&mut self, entry: &Entry, phase: HookPhase, message: String) {
        self.report.issues.push(HookIssue {
            hook: entry.name().to_owned(),
            phase,
            class: IssueClass::Validation,
            message,
        });
    }

    fn ran(&mut self, entry: &Entry, phase: HookPhase, outcome: HookOutcome, took: Duration) {
        self.report.runs.push(HookRun {
            hook: entry.name().to_owned(),
            phase,
            outcome,
            duration: took,
        });
    }
}

/// What came of asking.
fn outcome(said: &Result<Said, HookIssue>) -> HookOutcome {
    match said {
        Ok(Said {
            action: HookAction::Noop,
            ..
        }) => HookOutcome::Noop,
        Ok(Said {
            action: HookAction::Mutate(_),
            ..
        }) => HookOutcome::Mutated,
        Ok(Said {
            action: HookAction::Block { .. },
            ..
        }) => HookOutcome::Blocked,
        Err(_) => HookOutcome::Failed,
    }
}

/// A prompt that is rewritten to nothing is a failure: a turn without words is none.
fn not_emptied(
    entry: &Entry,
    phase: HookPhase,
    action: HookAction,
) -> Result<HookAction, HookIssue> {
    match &action {
        HookAction::Mutate(HookPatch {
            prompt: Some(prompt),
            ..
        }) if prompt.trim().is_empty() => Err(HookIssue {
            hook: entry.name().to_owned(),
            phase,
            class: IssueClass::Validation,
            message: "the prompt is empty after a rewrite".to_owned(),
        }),
        _ => Ok(action),
    }
}

fn blocked(entry: &Entry, phase: HookPhase, message: String) -> Block {
    let message = if message.trim().is_empty() {
        "blocked by hook (no message)".to_owned()
    } else {
        message
    };
    Block {
        hook: entry.name().to_owned(),
        phase: phase.as_str().to_owned(),
        message,
    }
}
