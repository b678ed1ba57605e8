//! What holds a lane: failed heads, limits, pauses, times, hooks; and what lets it go.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use turnlane_engine::scripted::Scripted;
use turnlane_engine::{
    BoxFuture, Capabilities, Engine, Sink, TurnControl, TurnOutcome, TurnRequest,
};
use turnlane_protocol::ids::{QueuedTurnId, ThreadId};
use turnlane_runtime::{AddTurn, BeforeTurn, BeforeTurnVerdict, Options, StartAnswer};
use turnlane_store::queue::{OnCannotStart, OnError, OnLimit, QueuePage, Row, RowState};
use turnlane_store::turn::TurnStatus;
use turnlane_testkit::wait::{DEADLINE, eventually};

use crate::support::{Home, World, params, scripted};

/// Fails by a limit the first time it is tried, and by the model when asked for it.
const SCRIPT: &str = "version: 1
turns:
  - match: limit
    times: 1
    steps:
      - error: {info: rateLimitExceeded, message: slow down, retry_after_ms: 60000}
  - match: effect
    times: 1
    steps:
      - exec: {cmd: touch x, output: \"\", exit: 0}
      - error: {info: rateLimitExceeded, message: slow down, retry_after_ms: 60000}
  - match: key
    times: 1
    steps:
      - error: {info: unauthorized, message: no key}
  - match: broken
    times: 1
    steps:
      - error: {info: badRequest, message: no such thing}
fallback: {say: \"You said: {input}\"}
";

/// The queue once its head is shown as failed.
async fn held(world: &World, thread: ThreadId) -> QueuePage {
    eventually("the head to be shown as failed", DEADLINE, async || {
        let page = world.queue(thread).await;
        let head = page.rows.first();
        head.is_some_and(|row| row.state == RowState::Blocked)
    })
    .await
    .unwrap();
    world.queue(thread).await
}

fn wire(row: &Row) -> QueuedTurnId {
    QueuedTurnId::from_uuid(row.id.as_uuid())
}

#[tokio::test]
async fn a_limit_before_any_effect_puts_the_row_back_and_it_runs_once_when_it_is_over() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    let row = world.add(thread, "limit").await;
    let after = world.add(thread, "after").await;
    ear.hears("queue 2 waiting", 1).await;

    let turns = world.turns(thread).await;
    assert_eq!(turns.len(), 1);
    assert_eq!(
        (turns[0].status, turns[0].muted),
        (TurnStatus::Failed, true)
    );
    let page = world.queue(thread).await;
    assert_eq!(page.rows[0].id, row.id, "it is the head again");
    assert_eq!(page.rows[0].put_backs, 1);
    assert_ne!(page.rows[0].turn, row.turn, "under a new turn id");
    assert_eq!(page.rows[0].last_turn, Some(row.turn));
    let waiting = page.lane.waiting.unwrap();
    assert_eq!(waiting.kind, "rate_limited");
    assert_eq!(Some(page.rows[0].not_before_ms), waiting.until_ms);

    home.clock.jump(70_000);
    let turns = world.ended(thread, 3).await;
    let rows: Vec<_> = turns.iter().map(|turn| turn.row).collect();
    assert_eq!(rows, [Some(row.id), Some(row.id), Some(after.id)]);
    assert_eq!(turns[1].status, TurnStatus::Completed);
    assert_eq!(world.queue(thread).await.lane.waiting, None);
}

#[tokio::test]
async fn a_limit_after_an_effect_ends_the_row_and_the_rest_waits_until_resumed() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    world.add(thread, "effect").await;
    world.add(thread, "after").await;
    ear.hears("queue 1 waiting", 1).await;
    let turns = world.turns(thread).await;
    assert_eq!(
        (turns[0].status, turns[0].muted),
        (TurnStatus::Failed, false)
    );
    world.handle.resume(thread).await.unwrap();
    let turns = world.ended(thread, 2).await;
    assert_eq!(turns[1].status, TurnStatus::Completed);
}

#[tokio::test]
async fn a_missing_key_waits_without_a_time_until_somebody_starts_the_row() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    world.add(thread, "key").await;
    ear.hears("queue 1 waiting", 1).await;
    let waiting = world.queue(thread).await.lane.waiting.unwrap();
    assert_eq!((waiting.kind.as_str(), waiting.until_ms), ("auth", None));
    let started = world.handle.start_row(thread, None).await.unwrap();
    assert!(matches!(started, StartAnswer::Begun(_)));
    let turns = world.ended(thread, 2).await;
    assert_eq!(turns[1].status, TurnStatus::Completed);
    assert_eq!(world.queue(thread).await.lane.waiting, None);
}

#[tokio::test]
async fn a_row_that_does_not_want_to_wait_fails_and_the_next_one_runs() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let mut add = AddTurn::new(params("limit"));
    add.policies.on_limit = OnLimit::Fail;
    world.add_with(thread, add).await;
    world.add(thread, "after").await;
    let turns = world.ended(thread, 2).await;
    let statuses: Vec<_> = turns.iter().map(|turn| turn.status).collect();
    assert_eq!(statuses, [TurnStatus::Failed, TurnStatus::Completed]);
}

#[tokio::test]
async fn a_failed_head_holds_the_lane_until_it_is_retried_or_deleted() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let mut add = AddTurn::new(params("broken"));
    add.policies.on_error = OnError::Block;
    let row = world.add_with(thread, add).await;
    let after = world.add(thread, "after").await;
    let page = held(&world, thread).await;
    let failure = page.rows[0].failure.as_ref().unwrap();
    assert!(failure.as_str().contains("no such thing"));
    assert_eq!(page.rows[1].id, after.id, "nothing behind it starts");

    world.handle.retry(thread, Some(wire(&row))).await.unwrap();
    let turns = world.ended(thread, 3).await;
    let rows: Vec<_> = turns.iter().map(|turn| turn.row).collect();
    assert_eq!(rows, [Some(row.id), Some(row.id), Some(after.id)]);
}

#[tokio::test]
async fn a_payload_that_cannot_be_read_is_shown_failed_and_never_deleted() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    world.handle.pause(thread, None, None).await.unwrap();
    let row = world.add(thread, "fine").await;
    let update = turnlane_store::queue::Update {
        thread: thread.as_uuid().into(),
        row: row.id,
        params: turnlane_store::Json::new("{\"input\": 5}").into(),
        at_ms: 1,
    };
    world.handle.store().update_row(update).await.unwrap();
    world.handle.resume(thread).await.unwrap();
    let page = held(&world, thread).await;
    let failure = page.rows[0].failure.as_ref().unwrap();
    assert!(
        failure
            .as_str()
            .contains("queued turn payload could not be read: "),
        "{}",
        failure.as_str()
    );
    world
        .handle
        .update(thread, wire(&row), &params("fine again"))
        .await
        .unwrap();
    world.handle.retry(thread, None).await.unwrap();
    let turns = world.ended(thread, 1).await;
    assert_eq!(turns[0].row, Some(row.id));
}

#[tokio::test]
async fn a_row_with_a_time_holds_the_lane_until_the_wall_clock_shows_it() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    let mut add = AddTurn::new(params("later"));
    add.not_before_ms = Some(crate::support::NOW_MS + 3_600_000);
    let later = world.add_with(thread, add).await;
    let after = world.add(thread, "after").await;
    ear.hears("queue 2", 1).await;
    assert!(world.turns(thread).await.is_empty(), "strict order");
    home.clock.jump(-86_400_000);
    home.clock.jump(86_400_000 + 3_600_000);
    let turns = world.ended(thread, 2).await;
    let rows: Vec<_> = turns.iter().map(|turn| turn.row).collect();
    assert_eq!(rows, [Some(later.id), Some(after.id)]);
}

/// Blocks the rows it is told to, and counts how often it was asked.
#[derive(Default)]
struct Doorkeeper {
    asked: AtomicUsize,
}

impl BeforeTurn for Doorkeeper {
    fn before_turn(&self, _: ThreadId, row: &Row) -> BoxFuture<'static, BeforeTurnVerdict> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let blocked = row.params.as_str().contains("forbidden");
        Box::pin(async move {
            if blocked {
                let why = "blocked by hook 'door' at UserPromptSubmit: no";
                BeforeTurnVerdict::Block(why.to_owned())
            } else {
                BeforeTurnVerdict::Go
            }
        })
    }
}

#[tokio::test]
async fn a_hook_between_claim_and_accept_lets_a_row_run_or_holds_the_lane_with_it() {
    let home = Home::new();
    let door = Arc::new(Doorkeeper::default());
    let options = Options {
        before_turn: Some(Arc::clone(&door) as _),
        ..Options::default()
    };
    let world = home.start_with(SCRIPT, options).await;
    let thread = world.thread().await;
    world.add(thread, "allowed").await;
    world.ended(thread, 1).await;
    let row = world.add(thread, "forbidden").await;
    let page = held(&world, thread).await;
    let failure = page.rows[0].failure.as_ref().unwrap();
    let text = "queued turn could not start: blocked by hook 'door' at UserPromptSubmit: no";
    assert!(failure.as_str().contains(text), "{}", failure.as_str());
    assert_eq!(world.turns(thread).await.len(), 1, "it left no turn");
    assert_eq!(door.asked.load(Ordering::SeqCst), 2);
    assert!(world.handle.delete(thread, wire(&row)).await.unwrap());

    let mut add = AddTurn::new(params("forbidden but let on"));
    add.policies.on_cannot_start = OnCannotStart::Continue;
    world.add_with(thread, add).await;
    world.add(thread, "after").await;
    let turns = world.ended(thread, 3).await;
    let statuses: Vec<_> = turns.iter().map(|turn| turn.status).collect();
    let expected = [
        TurnStatus::Completed,
        TurnStatus::Failed,
        TurnStatus::Completed,
    ];
    assert_eq!(statuses, expected);
}

#[tokio::test]
async fn a_lane_whose_engine_is_missing_waits_and_leaves_no_turn() {
    let home = Home::new();
    let world = home.start(SCRIPT).await;
    let mut create = turnlane_runtime::CreateThread::new("codex", crate::support::settings());
    create.max_depth = 10;
    let thread = world.handle.create_thread(create).await.unwrap();
    let thread = ThreadId::from_uuid(thread.id.as_uuid());
    world.add(thread, "hello").await;
    eventually("the lane to wait", DEADLINE, async || {
        world.queue(thread).await.lane.waiting.is_some()
    })
    .await
    .unwrap();
    let page = world.queue(thread).await;
    assert_eq!(page.lane.waiting.unwrap().kind, "engine_unavailable");
    assert_eq!(page.rows.len(), 1);
    assert!(world.turns(thread).await.is_empty());
}

/// Plays a script and has a login in a file.
struct LoggedIn {
    script: Scripted,
    login: std::path::PathBuf,
}

impl Engine for LoggedIn {
    fn name(&self) -> &str {
        self.script.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.script.capabilities()
    }

    fn run_turn(
        &self,
        request: TurnRequest,
        events: Sink,
        control: TurnControl,
    ) -> BoxFuture<'static, TurnOutcome> {
        self.script.run_turn(request, events, control)
    }

    fn login_file(&self) -> Option<std::path::PathBuf> {
        Some(self.login.clone())
    }
}

fn logged_in(home: &Home, login: &std::path::Path) -> Arc<LoggedIn> {
    Arc::new(LoggedIn {
        script: scripted(SCRIPT, &home.clock),
        login: login.to_owned(),
    })
}

#[tokio::test]
async fn a_refused_login_is_waited_out_until_its_file_changes() {
    let home = Home::new();
    let login = home.database().with_file_name("auth.json");
    let engine = logged_in(&home, &login);
    let world = home.start_engine(engine, Options::default()).await;
    let thread = world.thread().await;
    let (_, ear) = world.listen(thread).await;
    world.add(thread, "key").await;
    ear.hears("queue 1 waiting", 1).await;
    let waiting = world.queue(thread).await.lane.waiting.unwrap();
    assert_eq!((waiting.kind.as_str(), waiting.until_ms), ("auth", None));

    std::fs::write(&login, "a new login").unwrap();
    let turns = world.ended(thread, 2).await;
    assert_eq!(turns[1].status, TurnStatus::Completed);
    assert_eq!(world.queue(thread).await.lane.waiting, None);
}

#[tokio::test]
async fn a_changed_login_ends_the_wait_of_a_lane_that_is_not_loaded() {
    let home = Home::new();
    let login = home.database().with_file_name("auth.json");
    std::fs::write(&login, "refused").unwrap();
    let options = Options {
        unload_after: std::time::Duration::ZERO,
        ..Options::default()
    };
    let world = home.start_engine(logged_in(&home, &login), options).await;
    let thread = world.thread().await;
    world.add(thread, "key").await;
    eventually(
        "the lane to wait and to be unloaded",
        DEADLINE,
        async || {
            let waits = world.queue(thread).await.lane.waiting.is_some();
            waits && world.handle.loaded() == 0
        },
    )
    .await
    .unwrap();

    std::fs::write(&login, "accepted again").unwrap();
    let turns = world.ended(thread, 2).await;
    assert_eq!(turns[1].status, TurnStatus::Completed);
}
