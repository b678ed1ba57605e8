//! The scripted engine asks hooks where every engine does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use turnlane_engine::{
    AfterTool, BeforeEnd, BeforeTool, BoxFuture, EngineError, Gate, Hooked, Hooks, Limited,
    OutcomeStatus, ToolCall, ToolResult,
};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

use crate::support::{Lane, Seen, request, steps};

/// Says one thing at each point.
struct Says {
    before: BeforeTool,
    after: AfterTool,
}

impl Hooks for Says {
    fn before_tool<'a>(&'a self, _: &'a ToolCall) -> BoxFuture<'a, Hooked<BeforeTool>> {
        let answer = self.before.clone();
        let context = vec!["by the way".to_owned()];
        Box::pin(async { Hooked { answer, context } })
    }

    fn after_tool<'a>(
        &'a self,
        _: &'a ToolCall,
        _: &'a ToolResult,
    ) -> BoxFuture<'a, Hooked<AfterTool>> {
        let answer = self.after.clone();
        let context = Vec::new();
        Box::pin(async { Hooked { answer, context } })
    }
}

async fn with(before: BeforeTool, after: AfterTool) -> Seen {
    let engine = steps("      - exec: {cmd: make}\n      - say: on");
    let hooks = Arc::new(Says { before, after });
    let seen = Lane::with_hooks(engine, request("x"), hooks).finish().await;
    seen.assert_whole();
    assert!(seen.lines.iter().any(|line| line.contains("by the way")));
    seen
}

fn has(seen: &Seen, text: &str) -> bool {
    seen.lines.iter().any(|line| line.contains(text))
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_rewrite_ask_block_or_stop_a_call() {
    let seen = with(BeforeTool::Rewrite(json!({"cmd": "true"})), AfterTool::Keep).await;
    assert!(has(&seen, "\"command\":\"true\"") && has(&seen, "commit"));

    let seen = with(BeforeTool::Ask, AfterTool::Keep).await;
    assert!(has(&seen, "approve {turn}-1") && has(&seen, "commit"));

    let seen = with(BeforeTool::Block("not today".to_owned()), AfterTool::Keep).await;
    assert!(has(&seen, "\"status\":\"declined\"") && has(&seen, "\"output\":\"not today\""));
    assert!(!has(&seen, "commit"));
    assert_eq!(seen.outcome().status, OutcomeStatus::Completed);

    let seen = with(BeforeTool::Stop("enough".to_owned()), AfterTool::Keep).await;
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
    assert_eq!(seen.outcome().error.as_ref().unwrap().message, "enough");
    assert!(!has(&seen, "commit") && !has(&seen, "started"));
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_replace_a_result_or_stop_after_it() {
    let seen = with(BeforeTool::Continue, AfterTool::Replace("fine".to_owned())).await;
    assert!(has(&seen, "\"output\":\"fine\""));
    let seen = with(BeforeTool::Continue, AfterTool::Stop("enough".to_owned())).await;
    assert!(has(&seen, "\"status\":\"completed\""));
    assert_eq!(seen.outcome().status, OutcomeStatus::Interrupted);
}

/// Sends the turn on once.
#[derive(Default)]
struct GoesOn(AtomicBool);

impl Hooks for GoesOn {
    fn before_end<'a>(&'a self, last_message: Option<&'a str>) -> BoxFuture<'a, Hooked<BeforeEnd>> {
        let answer = if self.0.swap(true, Ordering::SeqCst) {
            BeforeEnd::End
        } else {
            BeforeEnd::GoOn(format!("why {}?", last_message.unwrap_or_default()))
        };
        let context = Vec::new();
        Box::pin(async { Hooked { answer, context } })
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_may_send_the_turn_on() {
    let hooks = Arc::new(GoesOn::default());
    let lane = Lane::with_hooks(steps("      - say: bye"), request("x"), hooks);
    let seen = lane.finish().await;
    seen.assert_whole();
    assert!(has(&seen, "\"type\":\"hookPrompt\""));
    assert_eq!(
        seen.outcome().last_agent_message.as_deref(),
        Some("You said: why bye?")
    );
}

/// Holds the provider after its first complaint, and then gives it up.
#[derive(Default)]
struct Held(AtomicBool);

impl Hooks for Held {
    fn gate<'a>(&'a self, provider: &'a str) -> BoxFuture<'a, Gate> {
        let is_held = self.0.load(Ordering::SeqCst);
        let text = format!("{provider} is closed");
        Box::pin(async move {
            if is_held {
                let error = EngineError::new(text, CodexErrorInfo::Other, ErrorKind::Budget);
                Gate::Stop(Box::new(error))
            } else {
                Gate::Go
            }
        })
    }

    fn limited<'a>(&'a self, _: &'a str, delay: Duration) -> BoxFuture<'a, Limited> {
        assert_eq!(delay, Duration::from_mins(1));
        self.0.store(true, Ordering::SeqCst);
        Box::pin(async { Limited::Hold })
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_provider_is_waited_for_at_its_gate() {
    let before = Instant::now();
    let engine = steps(
        "      - error: {info: serverOverloaded, retry_after_ms: 60000, will_retry: true}\n      - say: no",
    );
    let hooks = Arc::new(Held::default());
    let seen = Lane::with_hooks(engine, request("x"), hooks).finish().await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    let error = seen.outcome().error.as_ref().unwrap();
    assert_eq!(
        (&*error.message, error.kind.as_ref()),
        ("nobody is closed", Some(&ErrorKind::Budget))
    );
}
