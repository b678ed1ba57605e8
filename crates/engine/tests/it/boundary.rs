//! The channel between a lane and an engine, whatever engine it is.

use std::sync::Arc;

use serde_json::json;
use tokio::time::timeout;
use turnlane_engine::{
    ApprovalRequest, ApprovalSubject, BeforeTool, BoxFuture, CancelReason, Capabilities, Decided,
    Engine, Event, Fenced, Hooked, Hooks, LaneEnd, NoHooks, OutcomeStatus, QUEUE_MAX, Reconciled,
    Said, Sink, Steering, ToolCall, TurnControl, TurnOutcome, TurnRequest, UsageKind, channel, run,
};
use turnlane_protocol::approval::Decision;
use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::turn_error::ErrorKind;
use turnlane_testkit::wait::{DEADLINE, within};

use crate::support::request;

/// Does what a test says, once.
struct Once<F>(F);

impl<F> Engine for Once<F>
where
    F: Fn(Sink, TurnControl) -> BoxFuture<'static, TurnOutcome> + Send + Sync,
{
    fn name(&self) -> &'static str {
        "once"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            approvals: false,
            steer: false,
            deltas: false,
            resume: false,
            fork: false,
            compact: true,
            revert: true,
            foreign: false,
            usage: UsageKind::None,
        }
    }

    fn run_turn(
        &self,
        _: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        (self.0)(events, control)
    }
}

fn pair() -> (Sink, TurnControl, LaneEnd) {
    channel(Arc::new(NoHooks))
}

fn question() -> ApprovalRequest {
    ApprovalRequest {
        item_id: "i".into(),
        subject: ApprovalSubject::FileChange {
            changes: Vec::new(),
            grant_root: None,
            escalated: false,
        },
        reason: None,
        available_decisions: None,
    }
}

fn tool_call() -> ToolCall {
    ToolCall {
        call_id: "c".to_owned(),
        item_id: "i".into(),
        tool: "t".to_owned(),
        arguments: json!({}),
    }
}

#[tokio::test]
async fn a_panic_of_an_engine_is_its_outcome() {
    let (sink, control, mut lane) = pair();
    let engine = Arc::new(Once(|_, _| -> BoxFuture<'static, TurnOutcome> {
        Box::pin(async { panic!("in the middle") })
    }));
    tokio::spawn(run(engine, request("x"), sink, control))
        .await
        .unwrap();
    let Some(Said::Ended(outcome)) = lane.said.recv().await else {
        panic!("no end")
    };
    assert_eq!(outcome.status, OutcomeStatus::Failed);
    assert_eq!(outcome.error.unwrap().kind, Some(ErrorKind::Unknown));
    assert!(lane.said.recv().await.is_none());
}

#[tokio::test]
async fn an_engine_that_is_dropped_closes_the_channel_without_an_end() {
    let (sink, control, mut lane) = pair();
    let engine = Arc::new(Once(
        |_, control: TurnControl| -> BoxFuture<'static, TurnOutcome> {
            Box::pin(async move {
                control.cancel.cancelled().await;
                std::future::pending().await
            })
        },
    ));
    let task = tokio::spawn(run(engine, request("x"), sink, control));
    lane.cancel.cancel(CancelReason::Interrupt);
    tokio::task::yield_now().await;
    task.abort();
    let said = within("the close", DEADLINE, lane.said.recv())
        .await
        .unwrap();
    assert!(said.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_makes_the_engine_wait() {
    let (sink, _control, mut lane) = pair();
    for _ in 0..QUEUE_MAX {
        sink.emit(Event::Warning(String::new())).await.unwrap();
    }
    let one_more = sink.emit(Event::Warning("last".to_owned()));
    assert!(timeout(DEADLINE, one_more).await.is_err());
    lane.said.recv().await.unwrap();
    sink.emit(Event::Warning(String::new())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_call_ends_when_the_lane_goes_away() {
    let (sink, control, mut lane) = pair();
    let asking = tokio::spawn(async move {
        let state = serde_json::value::to_raw_value("s").unwrap();
        let results = tokio::join!(
            sink.commit(),
            sink.accepted(),
            sink.handing_over(None),
            sink.save_state(state),
        );
        assert_eq!(
            results,
            (Err(Fenced), Err(Fenced), Err(Fenced), Err(Fenced))
        );
        assert_eq!(sink.emit(Event::Warning(String::new())).await, Err(Fenced));
        assert_eq!(sink.record(Vec::new()).await, Err(Fenced));
        control
    });
    // The questions are heard, kept, and dropped with the lane.
    let mut heard = Vec::new();
    for _ in 0..4 {
        heard.push(lane.said.recv().await.unwrap());
    }
    assert!(!asking.is_finished());
    drop((heard, lane));
    let mut control = within("the answers", DEADLINE, asking)
        .await
        .unwrap()
        .unwrap();

    assert_eq!(control.approve(question()).await.decision, Decision::Cancel);
    assert_eq!(control.close_steer().await, Steering::Closed);
    let answer = control.call_tool(tool_call()).await;
    assert!(!answer.success && answer.end_turn);
    assert_eq!(
        control.cancel.cancelled().await.reason,
        CancelReason::LaneGone
    );
    assert_eq!(control.cancel.get().unwrap().reason, CancelReason::LaneGone);
    assert_eq!(control.steer.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_gets_no_consent() {
    let (_sink, control, mut lane) = pair();
    let asking = tokio::spawn(async move { control.approve(question()).await });
    let Some(Said::Approve { reply, .. }) = lane.said.recv().await else {
        panic!("no question")
    };
    lane.cancel.cancel(CancelReason::Interrupt);
    // Both are there before the engine looks; the interrupt counts.
    reply.send(Decided::new(Decision::Accept)).unwrap();
    assert_eq!(asking.await.unwrap().decision, Decision::Cancel);
}

#[tokio::test]
async fn what_an_engine_says_keeps_its_order() {
    let (sink, control, mut lane) = pair();
    let asking = tokio::spawn(async move {
        sink.emit(Event::Warning("1".to_owned())).await.unwrap();
        sink.record(Vec::new()).await.unwrap();
        sink.commit().await.unwrap();
        assert_eq!(control.close_steer().await, Steering::More);
    });
    assert!(matches!(
        lane.said.recv().await,
        Some(Said::Event(Event::Warning(_)))
    ));
    assert!(matches!(lane.said.recv().await, Some(Said::Record(_))));
    let Some(Said::Commit(reply)) = lane.said.recv().await else {
        panic!("no commit")
    };
    reply.send(Ok(())).unwrap();
    let Some(Said::CloseSteer(reply)) = lane.said.recv().await else {
        panic!("no question")
    };
    reply.send(Steering::More).unwrap();
    asking.await.unwrap();
}

/// Never answers.
struct Silent;

impl Hooks for Silent {
    fn before_tool<'a>(&'a self, _: &'a ToolCall) -> BoxFuture<'a, Hooked<BeforeTool>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_hook_does_not_hold_a_cancelled_turn() {
    let (_sink, control, lane) = channel(Arc::new(Silent));
    let asking = tokio::spawn(async move { control.ask.before_tool(&tool_call()).await });
    tokio::task::yield_now().await;
    assert!(!asking.is_finished());
    lane.cancel.cancel(CancelReason::Shutdown);
    let hooked = within("the hook", DEADLINE, asking).await.unwrap().unwrap();
    assert_eq!(hooked.answer, BeforeTool::Stop("interrupted".to_owned()));
}

#[tokio::test]
async fn an_engine_that_says_nothing_else_has_sensible_answers() {
    let engine: Arc<dyn Engine> = Arc::new(Once(|_, _| -> BoxFuture<'static, TurnOutcome> {
        Box::pin(async { TurnOutcome::completed() })
    }));
    let thread = ThreadId::at(1, [1; 10]);
    assert_eq!(engine.reconcile(request("x")).await, Reconciled::Unknown);
    assert!(engine.check(&request("x").settings).await.ok);
    assert!(engine.background(thread).await.is_empty());
    assert_eq!(engine.end_background(thread, None).await, 0);
    engine.close(thread).await;
}
