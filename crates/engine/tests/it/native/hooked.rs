//! What hooks and people say to calls, compactions and ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use turnlane_engine::{
    AfterTool, BeforeCompact, BeforeEnd, BeforeTool, BoxFuture, CompactTrigger, Decided, Hooked,
    Hooks, OutcomeStatus, Said, ToolCall, ToolResult, TurnKind,
};
use turnlane_protocol::approval::Decision;
use turnlane_testkit::mock_model::{Item, Reply};

use super::support::{Bench, tool};

/// Hooks that say one thing at one point.
#[derive(Default)]
struct Says {
    before: Option<BeforeTool>,
    after: Option<AfterTool>,
    compact: Option<BeforeCompact>,
    go_on: AtomicUsize,
    ends: AtomicUsize,
}

fn with<'a, T: Send + 'a>(answer: T, context: &str) -> BoxFuture<'a, Hooked<T>> {
    let context = vec![context.to_owned()];
    Box::pin(async { Hooked { answer, context } })
}

impl Hooks for Says {
    fn before_tool<'a>(&'a self, _: &'a ToolCall) -> BoxFuture<'a, Hooked<BeforeTool>> {
        let answer = self.before.clone().unwrap_or(BeforeTool::Continue);
        with(answer, "before the tool")
    }

    fn after_tool<'a>(
        &'a self,
        _: &'a ToolCall,
        _: &'a ToolResult,
    ) -> BoxFuture<'a, Hooked<AfterTool>> {
        with(
            self.after.clone().unwrap_or(AfterTool::Keep),
            "after the tool",
        )
    }

    fn before_compact(&self, _: CompactTrigger) -> BoxFuture<'_, Hooked<BeforeCompact>> {
        with(self.compact.clone().unwrap_or(BeforeCompact::Go), "compact")
    }

    fn before_end<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, Hooked<BeforeEnd>> {
        self.ends.fetch_add(1, Ordering::Relaxed);
        let more = |left: usize| left.checked_sub(1);
        let left = self
            .go_on
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        let answer = match left {
            Ok(_) => BeforeEnd::GoOn("check again".to_owned()),
            Err(_) => BeforeEnd::End,
        };
        Box::pin(async {
            Hooked {
                answer,
                context: Vec::new(),
            }
        })
    }
}

async fn bench() -> Bench {
    let bench = Bench::new().await;
    let cmd = json!({"cmd": "touch ran; echo output"});
    let call = Item::function_call("exec_command", cmd).call_id("c");
    bench.mock.push(Reply::of([call]));
    bench.mock.push(Reply::text("done"));
    bench
}

fn ran(bench: &Bench) -> bool {
    bench.cwd.path().join("ran").exists()
}

fn output(bench: &Bench) -> String {
    bench.mock.requests()[1].tool_output("c").unwrap()
}

#[tokio::test]
async fn a_blocked_call_is_declined_and_the_model_gets_the_hooks_words() {
    let bench = bench().await;
    let hooks = Says {
        before: Some(BeforeTool::Block("not in this project".to_owned())),
        ..Says::default()
    };
    let lane = bench.hooked(bench.request(1, "go", vec![]), Arc::new(hooks));
    let seen = lane.finish().await;
    seen.assert_completed();
    assert_eq!(seen.items("commandExecution")[0]["status"], "declined");
    assert_eq!(output(&bench), "not in this project");
    assert!(!ran(&bench));
    let notes: Vec<_> = bench.mock.requests()[1].input()[3..]
        .iter()
        .map(|item| item["content"][0]["text"].clone())
        .collect();
    assert_eq!(notes, ["before the tool", "after the tool"]);
}

#[tokio::test]
async fn a_rewritten_call_runs_and_is_shown_as_it_was_rewritten() {
    let bench = bench().await;
    let hooks = Says {
        before: Some(BeforeTool::Rewrite(json!({"cmd": "echo other"}))),
        ..Says::default()
    };
    let lane = bench.hooked(bench.request(1, "go", vec![]), Arc::new(hooks));
    let seen = lane.finish().await;
    seen.assert_completed();
    let command = seen.items("commandExecution")[0]["command"].to_string();
    assert!(command.contains("echo other"), "{command}");
    assert!(output(&bench).contains("other\n"));
    assert!(!ran(&bench));
}

#[tokio::test]
async fn a_hook_may_have_somebody_asked_who_declines_with_a_reason() {
    let bench = bench().await;
    let hooks = Says {
        before: Some(BeforeTool::Ask),
        ..Says::default()
    };
    let mut lane = bench.hooked(bench.request(1, "go", vec![]), Arc::new(hooks));
    lane.decide = Box::new(|_| Decided {
        reason: Some("nobody answered within 60 s".to_owned()),
        ..Decided::new(Decision::Decline)
    });
    let seen = lane.finish().await;
    seen.assert_completed();
    assert_eq!(seen.count("approve"), 1);
    assert_eq!(output(&bench), "nobody answered within 60 s");
    assert!(!ran(&bench));
}

#[tokio::test]
async fn a_call_that_somebody_is_asked_about_holds_no_place() {
    let bench = Bench::with(&json!({}), &json!({"max_parallel_tools": 1})).await;
    let call = |id: &str| Item::function_call("slow", "{}").call_id(id);
    bench.mock.push(Reply::of([call("c0"), call("c1")]));
    bench.mock.push(Reply::text("done"));
    let mut request = bench.request(1, "go", vec![]);
    request.runtime_tools = vec![tool("slow")];
    let hooks = Says {
        before: Some(BeforeTool::Ask),
        ..Says::default()
    };
    let mut lane = bench.hooked(request, Arc::new(hooks));
    let mut asked = Vec::new();
    while asked.len() < 2 {
        match lane.hear().await.unwrap() {
            Said::Approve { reply, .. } => asked.push(reply),
            said => lane.reply(said),
        }
    }
    for reply in asked {
        reply.send(Decided::new(Decision::Accept)).unwrap();
    }
    lane.finish().await.assert_completed();
}

#[tokio::test]
async fn a_hook_stops_the_turn_before_or_after_a_call() {
    for (before, after, runs) in [
        (Some(BeforeTool::Stop("enough".to_owned())), None, false),
        (None, Some(AfterTool::Stop("enough".to_owned())), true),
    ] {
        let bench = bench().await;
        let hooks = Says {
            before,
            after,
            ..Says::default()
        };
        let lane = bench.hooked(bench.request(1, "go", vec![]), Arc::new(hooks));
        let seen = lane.finish().await;
        let outcome = seen.assert_whole().outcome();
        assert_eq!(outcome.status, OutcomeStatus::Interrupted);
        assert_eq!(outcome.error.as_ref().unwrap().message, "enough");
        assert_eq!(ran(&bench), runs);
        let answered = seen
            .entries
            .iter()
            .any(|entry| entry.kind.as_str() == "toolOutput");
        assert!(answered, "{:#?}", seen.lines);
    }
}

#[tokio::test]
async fn a_hook_replaces_what_the_model_is_told() {
    let bench = bench().await;
    let hooks = Says {
        after: Some(AfterTool::Replace("something else".to_owned())),
        ..Says::default()
    };
    let lane = bench.hooked(bench.request(1, "go", vec![]), Arc::new(hooks));
    lane.finish().await.assert_completed();
    assert_eq!(output(&bench), "something else");
    assert!(ran(&bench));
}

#[tokio::test]
async fn a_hook_sends_a_turn_back_to_work() {
    let bench = Bench::new().await;
    bench.mock.push(Reply::text("done"));
    bench.mock.push(Reply::text("really done"));
    let hooks = Arc::new(Says {
        go_on: AtomicUsize::new(1),
        ..Says::default()
    });
    let request = bench.request(1, "go", vec![]);
    let seen = bench
        .hooked(request, Arc::<Says>::clone(&hooks))
        .finish()
        .await;
    seen.assert_completed();
    assert_eq!(hooks.ends.load(Ordering::Relaxed), 2);
    let item = &seen.items("hookPrompt")[0];
    assert_eq!(item["fragments"][0]["text"], "check again");
    assert_eq!(bench.mock.requests()[1].last_user_text(), "check again");
}

#[tokio::test]
async fn hooks_are_not_asked_about_an_end_that_a_tool_wanted() {
    let bench = Bench::new().await;
    bench.mock.push(Reply::function_call("slow", "{}"));
    let hooks = Arc::new(Says {
        go_on: AtomicUsize::new(1),
        ..Says::default()
    });
    let mut request = bench.request(1, "go", vec![]);
    request.runtime_tools = vec![tool("slow")];
    let mut lane = bench.hooked(request, Arc::<Says>::clone(&hooks));
    lane.answer = Box::new(|_| turnlane_engine::ToolAnswer {
        text: "bye".to_owned(),
        success: true,
        end_turn: true,
    });
    lane.finish().await.assert_completed();
    assert_eq!(hooks.ends.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_hook_keeps_the_history_as_it_is() {
    let bench = Bench::new().await;
    bench.mock.push(Reply::text("hello"));
    let first = bench.turn("hi").await;
    for (answer, status) in [
        (BeforeCompact::Skip, OutcomeStatus::Completed),
        (
            BeforeCompact::Stop("no".to_owned()),
            OutcomeStatus::Interrupted,
        ),
    ] {
        let hooks = Says {
            compact: Some(answer),
            ..Says::default()
        };
        let mut request = bench.request(2, "", first.entries.clone());
        request.kind = TurnKind::Compact;
        request.item_id = None;
        let seen = bench.hooked(request, Arc::new(hooks)).finish().await;
        assert_eq!(seen.outcome().status, status);
        assert!(seen.completed.is_empty());
    }
    assert_eq!(bench.mock.requests().len(), 1);
}
