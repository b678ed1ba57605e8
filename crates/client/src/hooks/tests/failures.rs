//! Hooks that fail, take too long, panic, or say no too late.

use super::*;

fn failing(log: &Log, on_failure: OnFailure) -> Scripted {
    let says = |context: &HookContext| {
        Err(HookIssue {
            hook: "somebody else".to_owned(),
            phase: HookPhase::PostRun,
            class: IssueClass::Execution,
            message: format!("broken at {}", context.phase),
        })
    };
    Scripted {
        on_failure,
        ..scripted(log, "h", says)
    }
}

#[tokio::test]
async fn a_failure_is_an_issue_and_follows_its_policy() {
    let log = Log::default();
    let set = HookSet::new().on(at(HookPhase::PreTurn), failing(&log, OnFailure::Block));
    let mut strict = runner(&set);
    let blocked = strict.before_turn(&mut subject("x")).await.unwrap_err();
    assert_eq!(
        blocked.to_string(),
        "blocked by hook 'h' at PreTurn: hook failed (execution): broken at PreTurn"
    );
    // Whose issue it is and when is not the hook's to say.
    let issue = strict.report().issues.remove(0);
    assert_eq!(
        (issue.hook.as_str(), issue.phase),
        ("h", HookPhase::PreTurn)
    );

    let set = HookSet::new().on(all(), failing(&log, OnFailure::Allow));
    let mut lenient = runner(&set);
    let mut asked = subject("x");
    lenient.before_turn(&mut asked).await.unwrap();
    lenient.after_turn(&asked, MainStatus::Ok).await;
    let phases: Vec<_> = lenient
        .report()
        .issues
        .iter()
        .map(|one| one.phase)
        .collect();
    assert_eq!(phases, TURN);
    let runs = lenient.report().runs;
    assert!(runs.iter().all(|run| run.outcome == HookOutcome::Failed));
}

#[tokio::test]
async fn nothing_after_the_fact_changes_a_result() {
    let log = Log::default();
    let set = HookSet::new()
        .on(
            at(HookPhase::PostTurn),
            scripted(&log, "late", |_| Ok(block("too late"))),
        )
        .on(at(HookPhase::PostTurn), failing(&log, OnFailure::Block))
        .on(at(HookPhase::PostTurn), watching(&log, "w"));
    let mut runner = runner(&set);
    runner.after_turn(&subject("x"), MainStatus::Ok).await;
    assert_eq!(seen(&log), ["late@PostTurn", "h@PostTurn", "w@PostTurn"]);
    assert_eq!(
        messages(&runner),
        ["block is not allowed in PostTurn", "broken at PostTurn"]
    );
}

struct Hangs;

impl Hook for Hangs {
    fn name(&self) -> &'static str {
        "hangs"
    }

    fn call<'a>(&'a self, _: &'a HookContext) -> BoxFuture<'a, Result<HookAction, HookIssue>> {
        Box::pin(std::future::pending())
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(4)
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_takes_too_long_has_failed() {
    let set = HookSet::new().on(at(HookPhase::PreRun), Hangs);
    let mut runner = runner(&set);
    let blocked = runner.before_turn(&mut subject("x")).await.unwrap_err();
    assert_eq!(
        blocked.message,
        "hook failed (timeout): hook timed out after 4s"
    );
    assert_eq!(runner.report().issues[0].class, IssueClass::Timeout);
    let took = runner.report().runs[0].duration;
    assert_eq!(took.as_secs(), 4);
}

#[tokio::test]
async fn a_panic_is_an_internal_issue() {
    let says = |_: &HookContext| -> Result<HookAction, HookIssue> { panic!("oh") };
    let set = HookSet::new().on(at(HookPhase::PreRun), ("panics", says));
    let mut runner = runner(&set);
    let blocked = runner.before_turn(&mut subject("x")).await.unwrap_err();
    assert_eq!(blocked.message, "hook failed (internal): hook panicked");
    assert_eq!(runner.report().issues[0].class, IssueClass::Internal);
}
