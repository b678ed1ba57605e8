//! `thread/queue/add`: from params of either dialect to a row.
//!
//! The invariant here: what is wrong is told in the order of the documentation, the thread before the
//! content; a row that could never be run is refused now, not when its turn comes; and what a repeated
//! key is compared with is what was sent, not what we made of it.

use std::sync::Arc;

use turnlane_protocol::error::{ErrorObject, QUEUED_TURN_BYTES_MAX, QueueDialect};
use turnlane_protocol::ids::{QueuedTurnId, ThreadId};
use turnlane_protocol::input::{self, InvalidInput};
use turnlane_protocol::method::thread_queue::ADD;
use turnlane_protocol::method::{
    OnCannotStart, OnCrash, OnError, OnLimit, OnStop, QueueRetry, QueueSource, QueuedTurnState,
    ThreadQueueAddAnswer, ThreadQueueAddParams, TurnStartParams,
};
use turnlane_protocol::queue::QueuedTurnStatus;
use turnlane_runtime::AddTurn;
use turnlane_runtime::store::queue::{self as store, Appended, Policies, Repeated, RowState};
use turnlane_runtime::store::turn::TurnStatus;

use super::super::turn_start::check_settings;
use super::attachments;
use crate::connection::Connection;
use crate::rights;
use crate::view;

/// How far ahead a row may be due.
const NOT_BEFORE_MAX_MS: i64 = 366 * 24 * 60 * 60 * 1_000;
/// How late it may be: what a client means by "now" is past when it arrives.
const NOT_BEFORE_LATE_MS: i64 = 60 * 1_000;
/// How often a turn may be tried.
const ATTEMPTS_MAX: u32 = 10;
/// How long a pause between two tries may be.
const RETRY_PAUSE_MAX_MS: u64 = 24 * 60 * 60 * 1_000;

/// What is to be added, and whose words its caller uses.
pub(super) struct Wanted {
    pub(super) thread: String,
    pub(super) dialect: QueueDialect,
    params: TurnStartParams,
    key: Option<String>,
    rest: ThreadQueueAddParams,
}

impl Wanted {
    /// Reads the params of either dialect.
    pub(super) fn read(mut params: ThreadQueueAddParams) -> Result<Self, ErrorObject> {
        let own = params.turn_start_params.take();
        let (dialect, turn) = match (own, params.input.take()) {
            (Some(_), Some(_)) => return Err(ErrorObject::both_queue_forms()),
            (None, None) => return Err(ErrorObject::invalid_request("missing field `input`")),
            (Some(turn), None) => (QueueDialect::Turns, *turn),
            (None, Some(input)) => {
                let turn = TurnStartParams {
                    thread_id: params.thread_id.clone(),
                    input,
                    ..TurnStartParams::default()
                };
                (QueueDialect::Submissions, turn)
            }
        };
        let mut turn = turn;
        let client_id = turn.client_user_message_id.take();
        turn.client_user_message_id = client_id.or(params.client_user_message_id.take());
        let key = params.idempotency_key.take();
        let key = key
            .or_else(|| turn.idempotency_key.clone())
            .or_else(|| turn.client_user_message_id.clone());
        Ok(Self {
            thread: std::mem::take(&mut params.thread_id),
            dialect,
            params: turn,
            // An empty text tells nothing apart.
            key: key.filter(|key| !key.is_empty()),
            rest: params,
        })
    }

    /// Whether the turn is meant for this thread; then both have the same spelling.
    pub(super) fn meant_for(&mut self, thread: ThreadId) -> Result<(), ErrorObject> {
        if self.params.thread_id.parse() != Ok(thread) {
            return Err(ErrorObject::other_thread());
        }
        self.params.thread_id = thread.to_string();
        Ok(())
    }

    /// Whether it could be run, as far as one can know without opening files.
    pub(super) fn check(&mut self, cx: &Connection) -> Result<(), ErrorObject> {
        check_content(cx, &mut self.params)?;
        let now_ms = cx.shared().options.clock.now_ms();
        let due = now_ms - NOT_BEFORE_LATE_MS..=now_ms + NOT_BEFORE_MAX_MS;
        if self.rest.not_before_ms.is_some_and(|at| !due.contains(&at)) {
            return Err(ErrorObject::out_of_range("notBeforeMs"));
        }
        check_retry(self.rest.retry.unwrap_or_default())
    }

    /// Refuses a row that would run without a sandbox if it ran now, where its caller may not.
    pub(super) async fn check_rights(
        &self,
        cx: &Connection,
        thread: ThreadId,
    ) -> Result<(), ErrorObject> {
        rights::check_turn(cx, ADD, thread, &self.params).await
    }

    /// Whether files have to be copied.
    pub(super) fn names_files(&self) -> bool {
        attachments::names_files(&self.params.input)
    }

    /// The row to be added, with its files copied.
    pub(super) async fn into_row(
        self,
        cx: &Arc<Connection>,
        thread: ThreadId,
    ) -> Result<AddTurn, ErrorObject> {
        let policies = self.policies(cx.shared().options.defaults.queue_policies());
        let Self {
            params, key, rest, ..
        } = self;
        let mut add = AddTurn {
            key,
            not_before_ms: rest.not_before_ms,
            source: match rest.source.unwrap_or_default() {
                QueueSource::Queue => "queue".to_owned(),
                QueueSource::Shim => "shim".to_owned(),
            },
            policies,
            ..AddTurn::new(params)
        };
        if attachments::names_files(&add.params.input) {
            let now_ms = cx.shared().options.clock.now_ms();
            let row = QueuedTurnId::new(u64::try_from(now_ms).unwrap_or(0));
            let input = add.params.input.clone();
            let kept = attachments::keep(cx, thread, row, input).await?;
            add.id = Some(row);
            add.sent = Some(Box::new(add.params.clone()));
            add.params.input = kept;
        }
        Ok(add)
    }

    /// What the caller said, over what is usual here.
    fn policies(&self, usual: Policies) -> Policies {
        let rest = &self.rest;
        let retry = rest.retry.unwrap_or_default();
        let pause =
            |ms: Option<u64>, usual| ms.map_or(usual, |ms| i64::try_from(ms).unwrap_or(i64::MAX));
        Policies {
            on_error: rest.on_error.map_or(usual.on_error, |word| match word {
                OnError::Continue => store::OnError::Continue,
                OnError::Block => store::OnError::Block,
            }),
            on_crash: rest.on_crash.map_or(usual.on_crash, |word| match word {
                OnCrash::Block => store::OnCrash::Block,
                OnCrash::Continue => store::OnCrash::Continue,
                OnCrash::Retry => store::OnCrash::Retry,
            }),
            on_stop: rest.on_stop.map_or(usual.on_stop, |word| match word {
                OnStop::Continue => store::OnStop::Continue,
                OnStop::Block => store::OnStop::Block,
                OnStop::Retry => store::OnStop::Retry,
            }),
            on_cannot_start: rest.on_cannot_start.map_or(
                usual.on_cannot_start,
                |word| match word {
                    OnCannotStart::Block => store::OnCannotStart::Block,
                    OnCannotStart::Continue => store::OnCannotStart::Continue,
                },
            ),
            on_limit: rest.on_limit.map_or(usual.on_limit, |word| match word {
                OnLimit::Wait => store::OnLimit::Wait,
                OnLimit::Fail => store::OnLimit::Fail,
            }),
            retry: store::Retry {
                max_attempts: retry.max_attempts.unwrap_or(usual.retry.max_attempts),
                base_ms: pause(retry.base_ms, usual.retry.base_ms),
                cap_ms: pause(retry.cap_ms, usual.retry.cap_ms),
            },
        }
    }
}

/// What is said to the agent and with which settings: whether it could ever be run.
pub(super) fn check_content(
    cx: &Connection,
    params: &mut TurnStartParams,
) -> Result<(), ErrorObject> {
    if params.input.is_empty() {
        return Err(ErrorObject::empty_queue_input());
    }
    let checked = input::check(&params.input);
    if let Err(too_long @ InvalidInput::TooLong { .. }) = checked {
        return Err(too_long.into());
    }
    let stored = serde_json::to_vec(params);
    let bytes = stored.map_or(usize::MAX, |stored| stored.len());
    if bytes > QUEUED_TURN_BYTES_MAX {
        return Err(ErrorObject::queued_turn_too_large(bytes));
    }
    checked?;
    check_settings(cx, params)
}

fn check_retry(retry: QueueRetry) -> Result<(), ErrorObject> {
    let attempts = retry.max_attempts.unwrap_or(1);
    if !(1..=ATTEMPTS_MAX).contains(&attempts) {
        return Err(ErrorObject::out_of_range("retry.maxAttempts"));
    }
    for (member, pause) in [
        ("retry.baseMs", retry.base_ms),
        ("retry.capMs", retry.cap_ms),
    ] {
        if pause.is_some_and(|pause| pause > RETRY_PAUSE_MAX_MS) {
            return Err(ErrorObject::out_of_range(member));
        }
    }
    Ok(())
}

/// The answer to an add.
pub(super) fn shown(added: &Appended) -> ThreadQueueAddAnswer {
    let row = match added {
        Appended::New(row) => row,
        Appended::Repeated(repeated) => &repeated.row,
    };
    let mut queued_turn = view::queued_turn(row);
    let (turn_id, state) = match added {
        Appended::New(_) => (None, None),
        Appended::Repeated(repeated) => {
            // As it was answered then; where it stands now is said beside it.
            queued_turn.status = QueuedTurnStatus::Pending;
            (Some(queued_turn.turn_id), Some(state(repeated)))
        }
    };
    ThreadQueueAddAnswer {
        queued_submission: queued_turn.clone(),
        queued_turn,
        deduplicated: turn_id.is_some(),
        turn_id,
        state,
    }
}

fn state(repeated: &Repeated) -> QueuedTurnState {
    match repeated.row.state {
        RowState::Queued => QueuedTurnState::Pending,
        RowState::Blocked | RowState::Dead | RowState::Cancelled => QueuedTurnState::Failed,
        RowState::Claimed | RowState::Reconcile => QueuedTurnState::Dispatching,
        RowState::Started => QueuedTurnState::Running,
        RowState::Done => match repeated.turn.as_ref().map(|turn| turn.status) {
            Some(TurnStatus::Failed) => QueuedTurnState::FailedTurn,
            Some(TurnStatus::Interrupted) => QueuedTurnState::Interrupted,
            Some(TurnStatus::InProgress) => QueuedTurnState::Running,
            // A turn that was taken back since has ended all the same.
            Some(TurnStatus::Completed) | None => QueuedTurnState::Completed,
        },
    }
}
