//! The exact errors about threads, turns and approvals.
//!
//! The invariant here: each text stands once in the whole workspace, next to its word and its
//! `data`, because clients match all three. Nothing a caller sent as content is repeated; ids,
//! cursors and names are cut to a length.
//!
//! When one of them is due is decided by the server.

use serde_json::{Value, json};

use super::{ErrorObject, INTERNAL_ERROR, INVALID_REQUEST, Reason, quoted};
use crate::ids::InvalidId;

/// How a method calls a thread that it does not find: Codex's own habit, which clients match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingThread {
    /// `turn/*`, the queue and everything not named below.
    NotFound,
    /// `thread/read`, `thread/turns/list`, `thread/items/list`.
    NotLoaded,
    /// `thread/resume`, `thread/fork`, `thread/archive`, `thread/delete`.
    NoRollout,
    /// `thread/unarchive`.
    NoArchivedRollout,
}

/// The worker that owns a thread, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Its id.
    pub id: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Its machine.
    pub host: Option<String>,
    /// Where it listens.
    pub endpoint: Option<String>,
}

/// Why the active turn cannot be steered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsteerableTurn {
    /// It is a review.
    Review,
    /// It is a compaction.
    Compact,
    /// Its engine has no steering.
    Engine,
}

impl UnsteerableTurn {
    /// The word of `codexErrorInfo`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Review => "review",
            Self::Compact => "compact",
            Self::Engine => "engine",
        }
    }
}

fn refused(reason: Reason, message: impl Into<String>) -> ErrorObject {
    ErrorObject::new(INVALID_REQUEST, reason, message)
}

/// Refusals about threads.
impl ErrorObject {
    /// A text that is no thread id.
    pub fn invalid_thread_id(why: &InvalidId) -> Self {
        let message = format!("invalid thread id: {}", why.why);
        refused(Reason::InvalidThreadId, message)
    }

    /// A text that is no thread id, in the words of `thread/resume`.
    pub fn invalid_session_id(why: &InvalidId) -> Self {
        let message = format!("invalid session id: {}", why.why);
        refused(Reason::InvalidThreadId, message)
    }

    /// A thread that does not exist, in the words of the method that looked for it.
    pub fn thread_not_found(method: MissingThread, id: &str) -> Self {
        let id = quoted(id);
        let message = match method {
            MissingThread::NotFound => format!("thread not found: {id}"),
            MissingThread::NotLoaded => format!("thread not loaded: {id}"),
            MissingThread::NoRollout => format!("no rollout found for thread id {id}"),
            MissingThread::NoArchivedRollout => {
                format!("no archived rollout found for thread id {id}")
            }
        };
        refused(Reason::ThreadNotFound, message)
    }

    /// A thread that must be taken back first.
    pub fn archived(id: &str) -> Self {
        let id = quoted(id);
        let message = format!(
            "session {id} is archived. Run `turnlane unarchive {id}` to unarchive it first."
        );
        refused(Reason::Archived, message)
    }

    /// A thread that another live worker owns.
    pub fn owned_elsewhere(id: &str, owner: &Owner) -> Self {
        let id = quoted(id);
        let message = format!("thread {id} already has an active writer");
        let worker = json!({"id": owner.id, "pid": owner.pid, "host": owner.host,
            "endpoint": owner.endpoint});
        // Calls about an approval do not name the thread.
        refused(Reason::OwnedElsewhere, message)
            .with("threadId", id)
            .with("worker", worker)
    }

    /// A name that another thread has; `other` is that thread.
    pub fn name_in_use(name: &str, other: &str) -> Self {
        let (name, other) = (quoted(name), quoted(other));
        let message = format!(
            "the name {name:?} is in use by thread {other}; choose another name, or rename or archive \
             that thread first"
        );
        refused(Reason::NameInUse, message)
            .with("threadId", other)
            .with("name", name)
    }

    /// A text that no list gave as a cursor.
    pub fn invalid_cursor(cursor: &str) -> Self {
        let message = format!("invalid cursor: {}", quoted(cursor));
        refused(Reason::InvalidCursor, message)
    }

    /// `thread/name/set` without a name.
    pub fn empty_thread_name() -> Self {
        refused(Reason::InvalidParams, "thread name must not be empty")
    }

    /// `thread/rollback` of nothing.
    pub fn too_few_turns() -> Self {
        refused(Reason::InvalidParams, "numTurns must be at least 1")
    }

    /// `thread/resume` with a history or a file.
    pub fn history_not_supported() -> Self {
        refused(Reason::InvalidParams, "history is not supported")
    }

    /// `supersedes` names a thread that does not hold the binding.
    pub fn binding_not_held(thread: &str, key: &str) -> Self {
        let message = format!("thread {thread} does not hold binding {}", quoted(key));
        refused(Reason::InvalidParams, message)
    }

    /// A binding that another live connection holds.
    pub fn binding_in_use(key: &str) -> Self {
        let message = format!("binding is in use: {}", quoted(key));
        refused(Reason::BindingInUse, message)
    }

    /// `thread/fork` with both of its ends.
    pub fn both_fork_ends() -> Self {
        let message = "`beforeTurnId` cannot be combined with `lastTurnId`";
        refused(Reason::InvalidParams, message)
    }

    /// A working directory that is not absolute where it must be.
    pub fn relative_cwd(cwd: &str) -> Self {
        let message = format!("cwd must be absolute: {}", quoted(cwd));
        refused(Reason::InvalidParams, message)
    }

    /// An environment nobody has configured.
    pub fn unknown_environment(id: &str) -> Self {
        let message = format!("unknown turn environment id `{}`", quoted(id));
        refused(Reason::InvalidParams, message)
    }

    /// An output schema that is none; `why` comes from the check and not from the schema.
    pub fn invalid_output_schema(why: &str) -> Self {
        let message = format!("invalid outputSchema: {why}");
        refused(Reason::InvalidParams, message)
    }

    /// `sandbox` and `sandboxPolicy` that mean different things.
    pub fn sandbox_disagreement() -> Self {
        let message = "sandbox and sandboxPolicy disagree";
        refused(Reason::InvalidParams, message)
    }

    /// `permissions` beside one of the members for a sandbox, which `member` names.
    pub fn permissions_with(member: &str) -> Self {
        let message = format!("`permissions` cannot be combined with `{member}`");
        refused(Reason::InvalidParams, message)
    }

    /// A permission profile that cannot be used; `why` is the text of a
    /// [`ProfileError`](crate::policy::ProfileError).
    pub fn permission_profile(why: impl Into<String>) -> Self {
        refused(Reason::InvalidParams, why)
    }

    /// Rules about commands that cannot be loaded; no turn starts.
    pub fn bad_rules(why: impl Into<String>) -> Self {
        refused(Reason::BadRules, why)
    }

    /// A sandbox that this machine cannot enforce.
    pub fn sandbox_unavailable(why: impl Into<String>) -> Self {
        Self::new(INTERNAL_ERROR, Reason::SandboxUnavailable, why)
    }

    /// Something that would run without a sandbox, asked for by a connection that may not run
    /// anything unconfined; `what` names it.
    pub fn unconfined_denied(what: &str) -> Self {
        let message = format!("{what}, and this connection may not run anything without a sandbox");
        refused(Reason::UnconfinedDenied, message)
    }

    /// A history that does not fit into one message.
    pub fn history_too_large(bytes: usize) -> Self {
        let message = format!("thread history is too large for one message: {bytes} bytes");
        refused(Reason::TooLarge, message)
    }

    /// Something a thread's engine cannot do.
    pub fn unsupported_by_engine(engine: &str, method: &str) -> Self {
        let engine = quoted(engine);
        let message = format!("engine '{engine}' does not support {method}");
        refused(Reason::UnsupportedByEngine, message).with("engine", engine)
    }

    /// A store that cannot grow; `why` is the operating system's text.
    pub fn disk_full(why: &str) -> Self {
        let message = format!("store is full: {why}");
        Self::new(INTERNAL_ERROR, Reason::DiskFull, message)
    }

    /// A store that the system does not let the server write; `why` is the operating system's text.
    pub fn not_writable(path: &str, why: &str) -> Self {
        let message = format!("cannot write {path}: {why}; nothing was recorded");
        Self::new(INTERNAL_ERROR, Reason::NotWritable, message).with("path", path)
    }

    /// A store whose database is locked by `holder`, as text and, where known, by number and name.
    pub fn database_locked(holder: &str, pid: Option<u32>, program: Option<&str>) -> Self {
        let message = format!("{holder} holds a lock on the database; nothing was recorded");
        let mut error = Self::new(INTERNAL_ERROR, Reason::DatabaseLocked, message);
        if let Some(pid) = pid {
            error = error.with("pid", pid);
        }
        if let Some(program) = program {
            error = error.with("program", program);
        }
        error
    }
}

/// Refusals about turns.
impl ErrorObject {
    /// A turn that does not exist.
    pub fn turn_not_found(id: &str) -> Self {
        let message = format!("turn not found: {}", quoted(id));
        refused(Reason::TurnNotFound, message)
    }

    /// A turn that is to be the end of a fork and has not ended.
    pub fn turn_in_progress(id: &str) -> Self {
        let message = format!("turn is in progress: {}", quoted(id));
        refused(Reason::Busy, message).with("turnId", quoted(id))
    }

    /// `turn/steer` for a turn that does not run.
    pub fn stale_steer(expected: &str, actual: &str) -> Self {
        let message = format!(
            "expected active turn id `{}` but found `{actual}`",
            quoted(expected)
        );
        refused(Reason::StaleTurn, message)
            .with("expected", quoted(expected))
            .with("actual", actual)
    }

    /// `turn/interrupt` for a turn that does not run.
    pub fn stale_interrupt(expected: &str, actual: &str) -> Self {
        let message = format!(
            "expected active turn id {} but found {actual}",
            quoted(expected)
        );
        refused(Reason::StaleTurn, message)
            .with("expected", quoted(expected))
            .with("actual", actual)
    }

    /// `turn/steer` while nothing runs.
    pub fn nothing_to_steer() -> Self {
        refused(Reason::NoActiveTurn, "no active turn to steer")
    }

    /// `turn/interrupt` while nothing runs.
    pub fn nothing_to_interrupt() -> Self {
        refused(Reason::NoActiveTurn, "no active turn to interrupt")
    }

    /// `turn/interrupt` of a turn that waits.
    pub fn turn_is_queued() -> Self {
        let message = "turn is queued; remove it with thread/queue/delete";
        refused(Reason::Queued, message)
    }

    /// `turn/steer` with nothing to say.
    pub fn empty_steer() -> Self {
        refused(Reason::InvalidInput, "input must not be empty")
    }

    /// `turn/steer` without the turn it is for.
    pub fn empty_expected_turn() -> Self {
        refused(Reason::InvalidInput, "expectedTurnId must not be empty")
    }

    /// `turn/steer` of a turn that cannot be steered.
    pub fn not_steerable(turn: UnsteerableTurn) -> Self {
        refused(Reason::NotSteerable, "active turn cannot be steered").with(
            "codexErrorInfo",
            json!({"activeTurnNotSteerable": {"turnKind": turn.as_str()}}),
        )
    }

    /// A turn runs or waits where none may.
    pub fn busy(turn_id: Option<&str>) -> Self {
        let message = "thread already has an active or pending turn";
        refused(Reason::Busy, message).with("turnId", turn_id.map_or(Value::Null, Value::from))
    }

    /// A hook that said no; `phase` is its event.
    pub fn blocked_by_hook(hook: &str, phase: &str, why: &str) -> Self {
        let message = format!("blocked by hook '{hook}' at {phase}: {why}");
        refused(Reason::BlockedByHook, message)
            .with("hook", hook)
            .with("phase", phase)
            .with("message", why)
    }

    /// A key that was used with other content.
    pub fn idempotency_conflict(key: &str) -> Self {
        let message = format!(
            "clientUserMessageId already used for a different queued turn: {}",
            quoted(key)
        );
        refused(Reason::IdempotencyConflict, message)
    }

    /// A key that another thread was started with, by other params.
    pub fn thread_key_conflict(key: &str) -> Self {
        let message = format!(
            "idempotencyKey already used for a thread with other settings: {}",
            quoted(key)
        );
        refused(Reason::IdempotencyConflict, message)
    }

    /// A queue that takes no more rows.
    pub fn queue_full(depth_max: u64) -> Self {
        let message = format!("queue cannot contain more than {depth_max} submissions");
        refused(Reason::QueueFull, message).with("maxDepth", depth_max)
    }
}

/// Refusals about approvals.
impl ErrorObject {
    /// An approval that does not exist.
    pub fn approval_not_found(id: &str) -> Self {
        let message = format!("approval not found: {}", quoted(id));
        refused(Reason::ApprovalNotFound, message)
    }

    /// A decision that the question does not offer; the question stays open.
    pub fn decision_not_offered(id: &str) -> Self {
        let message = format!("decision is not offered by approval: {}", quoted(id));
        refused(Reason::InvalidParams, message)
    }

    /// An approval that was decided before; `decision` and `by` as in `approval/changed`.
    pub fn approval_resolved(
        id: &str,
        decision: impl Into<Value>,
        decided_by: impl Into<Value>,
    ) -> Self {
        let message = format!("approval already resolved: {}", quoted(id));
        refused(Reason::ApprovalResolved, message)
            .with("decision", decision)
            .with("by", decided_by)
    }
}
