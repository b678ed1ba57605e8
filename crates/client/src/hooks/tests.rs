//! The rules of hooks: order, what may change, failures, and how changes compose.

mod algebra;
mod failures;
mod rules;
#[cfg(feature = "spawn")]
mod script;
#[cfg(feature = "spawn")]
mod shell;
mod wire;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use super::*;

const SESSION: [HookPhase; 2] = [HookPhase::PreSessionStart, HookPhase::PostSessionStart];
const TURN: [HookPhase; 4] = [
    HookPhase::PreRun,
    HookPhase::PreTurn,
    HookPhase::PostTurn,
    HookPhase::PostRun,
];

/// Every phase that this client asks about.
fn all() -> Matcher {
    Matcher::phases(SESSION.into_iter().chain(TURN))
}

fn at(phase: HookPhase) -> Matcher {
    Matcher::phases([phase])
}

/// What hooks wrote down: who, when, what they saw.
type Log = Arc<Mutex<Vec<(String, HookContext)>>>;

type Script = dyn Fn(&HookContext) -> Result<HookAction, HookIssue> + Send + Sync;

/// Writes down and says what it was told to say.
struct Scripted {
    name: String,
    log: Log,
    says: Box<Script>,
    on_failure: OnFailure,
}

impl Hook for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn call<'a>(
        &'a self,
        context: &'a HookContext,
    ) -> BoxFuture<'a, Result<HookAction, HookIssue>> {
        let mut log = self.log.lock().unwrap();
        log.push((self.name.clone(), context.clone()));
        drop(log);
        Box::pin(std::future::ready((self.says)(context)))
    }

    fn on_failure(&self) -> OnFailure {
        self.on_failure
    }
}

fn scripted(
    log: &Log,
    name: &str,
    says: impl Fn(&HookContext) -> Result<HookAction, HookIssue> + Send + Sync + 'static,
) -> Scripted {
    Scripted {
        name: name.to_owned(),
        log: Arc::clone(log),
        says: Box::new(says),
        on_failure: OnFailure::Block,
    }
}

fn watching(log: &Log, name: &str) -> Scripted {
    scripted(log, name, |_| Ok(HookAction::Noop))
}

fn seen(log: &Log) -> Vec<String> {
    let log = log.lock().unwrap();
    let seen = log.iter();
    seen.map(|(name, context)| format!("{name}@{}", context.phase))
        .collect()
}

fn runner(set: &HookSet) -> HookRunner {
    HookRunner::new(set, &HookSet::new(), &HookSet::new())
}

fn subject(prompt: &str) -> Subject {
    Subject {
        thread: Some(ThreadId::from("t")),
        cwd: Some(PathBuf::from("/")),
        model: Some("mini".to_owned()),
        input: prompt.into(),
        ..Subject::default()
    }
}

fn block(message: &str) -> HookAction {
    HookAction::Block {
        message: message.to_owned(),
    }
}

fn messages(runner: &HookRunner) -> Vec<String> {
    let report = runner.report();
    report.issues.into_iter().map(|one| one.message).collect()
}
