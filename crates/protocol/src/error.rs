//! The error member of an answer: a code, a text for people and a stable word for programs.
//!
//! The invariant here: every error Turnlane writes has `data.reason`, so no program has to read
//! texts; only the exec-server's own dialects, whose errors carry no `data`, use
//! [`ErrorObject::bare`]. Texts never carry what a caller sent as content (prompts, environment values, tokens);
//! [`ErrorObject::invalid_params`] is the one place that cleans serde's own wording. Exact texts are
//! constructors of [`ErrorObject`], here and in the files beside, so that each is written once.
//!
//! Which situation gets which error is not decided here but by the crate that meets the situation.

mod fanout;
mod processes;
mod queue;
#[cfg(test)]
mod tests;
mod threads;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use fanout::InputProblem;
pub use processes::ProcessFamily;
pub use queue::{QUEUED_TURN_BYTES_MAX, QueueDialect};
pub use threads::{MissingThread, Owner, UnsteerableTurn};

/// The frame was not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// Everything a caller did wrong: unknown method, bad params, wrong state.
pub const INVALID_REQUEST: i64 = -32600;
/// Only: input too long, bad base64, bad terminal size, write without data.
pub const INVALID_PARAMS: i64 = -32602;
/// Our fault or the machine's: store, spawn, engine.
pub const INTERNAL_ERROR: i64 = -32603;
/// The process has too many unanswered requests; the same request may succeed later.
pub const OVERLOADED: i64 = -32001;

/// How many characters of a caller's own word (a method, an enum value) an error text repeats.
const QUOTED_CHARS_MAX: usize = 64;

/// How many characters a message or a text in `data` has at most: none is that long by itself, but
/// some repeat what another program said.
const MESSAGE_CHARS_MAX: usize = 500;

/// The `error` member of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{message} ({code})")]
pub struct ErrorObject {
    /// One of the constants of this module; other servers may send others.
    pub code: i64,
    /// A text for people; exact where the contract gives one.
    pub message: String,
    /// An object with at least `reason` in every error we write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl ErrorObject {
    /// An error with its stable word.
    pub fn new(code: i64, reason: Reason, message: impl Into<String>) -> Self {
        let data = Map::from_iter([("reason".to_owned(), Value::from(reason.as_str()))]);
        Self {
            code,
            message: cut(message.into()),
            data: Some(Value::Object(data)),
        }
    }

    /// An error without `data`, as the exec-server's dialects have them.
    pub fn bare(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: cut(message.into()),
            data: None,
        }
    }

    /// The exec-server's answer to params that do not fit their type: -32602 and serde's text,
    /// cleaned as in [`invalid_params`](Self::invalid_params).
    pub fn bare_params(why: &serde_json::Error) -> Self {
        Self::bare(INVALID_PARAMS, cleaned(&why.to_string()))
    }

    /// Adds a member to `data`, beside `reason`.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        if let Some(Value::Object(data)) = &mut self.data {
            let value = match value.into() {
                Value::String(text) => Value::String(cut(text)),
                other => other,
            };
            data.insert(key.to_owned(), value);
        }
        self
    }

    /// The answer to a frame that is not JSON.
    pub fn parse_error(why: &serde_json::Error) -> Self {
        Self::new(
            PARSE_ERROR,
            Reason::ParseError,
            format!("Parse error: {why}"),
        )
    }

    /// The answer to params that do not fit their type: serde's text without position and without
    /// the content of strings, since a string may be a prompt.
    pub fn invalid_params(why: &serde_json::Error) -> Self {
        Self::invalid_request(&cleaned(&why.to_string()))
    }

    /// The answer to a message that is JSON but not a request; `why` is a serde-like text.
    pub fn invalid_request(why: &str) -> Self {
        Self::new(
            INVALID_REQUEST,
            Reason::InvalidParams,
            format!("Invalid request: {why}"),
        )
    }

    /// The answer to a method nobody serves.
    pub fn unknown_method(method: &str) -> Self {
        let shown = quoted(method);
        let message = format!("Invalid request: unknown variant `{shown}`");
        Self::new(INVALID_REQUEST, Reason::UnknownMethod, message).with("method", shown)
    }

    /// The answer to everything before `initialize`.
    pub fn not_initialized() -> Self {
        Self::new(INVALID_REQUEST, Reason::NotInitialized, "Not initialized")
    }

    /// The answer to a second `initialize`.
    pub fn already_initialized() -> Self {
        let message = "Already initialized";
        Self::new(INVALID_REQUEST, Reason::AlreadyInitialized, message)
    }

    /// The answer to a method that the client has not opted into.
    pub fn experimental(method: &str) -> Self {
        let message = format!("{method} requires experimentalApi capability");
        Self::new(INVALID_REQUEST, Reason::Experimental, message)
    }

    /// The answer to a method of ours without the capability it needs, as `turnlane.events`.
    pub fn capability(method: &str, capability: &str) -> Self {
        let message = format!("{method} requires {capability} capability");
        Self::new(INVALID_REQUEST, Reason::Capability, message)
    }

    /// The answer to a method that is not served over the network.
    pub fn local_only(method: &str) -> Self {
        let message = format!("{method} is only served on local connections");
        Self::new(INVALID_REQUEST, Reason::LocalOnly, message)
    }

    /// The answer to a frame above the limit, where the framing lets us skip it.
    pub fn message_too_large(bytes_max: usize) -> Self {
        let message = format!("message exceeds {bytes_max} bytes");
        Self::new(INVALID_REQUEST, Reason::TooLarge, message)
    }

    /// The refusal under overload. `errorInfo` is the word the Python SDK maps to its busy error.
    pub fn overloaded(retry_after_ms: u64) -> Self {
        Self::new(
            OVERLOADED,
            Reason::Overloaded,
            "Server overloaded; retry later.",
        )
        .with("errorInfo", "server_overloaded")
        .with("retryAfterMs", retry_after_ms)
    }

    /// Our own failure; `what` names what was tried and nothing a caller sent.
    pub fn internal(what: impl Into<String>) -> Self {
        Self::new(INTERNAL_ERROR, Reason::Internal, what)
    }

    /// The stable word, if the error carries one we know.
    pub fn reason(&self) -> Option<Reason> {
        self.data
            .as_ref()?
            .get("reason")?
            .as_str()
            .and_then(Reason::from_word)
    }
}

/// As much of a caller's own word as an error repeats.
fn quoted(word: &str) -> &str {
    match word.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => &word[..end],
        None => word,
    }
}

/// The beginning of a text that is too long for an error.
fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MESSAGE_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Serde's message without its position, and without the content of strings it quotes.
fn cleaned(message: &str) -> String {
    let message = match message.rfind(" at line ") {
        Some(at) => &message[..at],
        None => message,
    };
    for kind in [
        "invalid type: string ",
        "invalid value: string ",
        "invalid length: string ",
    ] {
        if let Some(quoted) = message.strip_prefix(kind) {
            // The expectation is ours; everything before its last mention may be the caller's.
            let expected = quoted.rfind(", expected ").map_or("", |at| &quoted[at..]);
            return format!("{}{expected}", kind.trim_end());
        }
    }
    if let Some(quoted) = message.strip_prefix("unknown variant `") {
        let (word, rest) = quoted.rsplit_once("`, expected ").unwrap_or((quoted, ""));
        if word.chars().count() > QUOTED_CHARS_MAX {
            return format!("unknown variant, expected {rest}");
        }
    }
    message.to_owned()
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $word:literal,)*) => {
        /// The stable word in `data.reason`; programs match this and never the message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)*
        }

        impl Reason {
            /// Every reason, in the order of the documentation.
            pub const ALL: &[Reason] = &[$(Reason::$variant,)*];

            /// The word as it stands on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Reason::$variant => $word,)*
                }
            }

            /// The reason with this word, if there is one.
            pub fn from_word(word: &str) -> Option<Reason> {
                match word {
                    $($word => Some(Reason::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

reasons! {
    /// The frame was not JSON.
    ParseError = "parseError",
    /// A message or its params do not have the shape they must have.
    InvalidParams = "invalidParams",
    /// A JSON array of messages.
    BatchUnsupported = "batchUnsupported",
    /// A message or an answer is above the size limit.
    TooLarge = "tooLarge",
    /// A request before `initialize`.
    NotInitialized = "notInitialized",
    /// A second `initialize`.
    AlreadyInitialized = "alreadyInitialized",
    /// Nobody serves this method.
    UnknownMethod = "unknownMethod",
    /// The method needs the `experimentalApi` capability.
    Experimental = "experimental",
    /// The method needs a capability under `turnlane`.
    Capability = "capability",
    /// The method is served on local connections only.
    LocalOnly = "localOnly",
    /// The operator has switched the method off.
    Disabled = "disabled",
    /// The connection may not run anything without a sandbox.
    UnconfinedDenied = "unconfinedDenied",
    /// Not a thread id.
    InvalidThreadId = "invalidThreadId",
    /// No such thread.
    ThreadNotFound = "threadNotFound",
    /// The thread is archived.
    Archived = "archived",
    /// Another live worker owns the thread.
    OwnedElsewhere = "ownedElsewhere",
    /// Another thread that is not archived has the name.
    NameInUse = "nameInUse",
    /// No such turn.
    TurnNotFound = "turnNotFound",
    /// Not a cursor of this list.
    InvalidCursor = "invalidCursor",
    /// The input has too many characters.
    InputTooLarge = "inputTooLarge",
    /// The input is of a kind we do not take.
    InvalidInput = "invalidInput",
    /// The turn named is not the active one.
    StaleTurn = "staleTurn",
    /// Nothing runs on the thread.
    NoActiveTurn = "noActiveTurn",
    /// The active turn cannot be steered.
    NotSteerable = "notSteerable",
    /// The thread has an active or pending turn.
    Busy = "busy",
    /// The turn still waits in the queue.
    Queued = "queued",
    /// The idempotency key was used with other content.
    IdempotencyConflict = "idempotencyConflict",
    /// The queue takes no more rows.
    QueueFull = "queueFull",
    /// Nothing waits in the queue.
    QueueEmpty = "queueEmpty",
    /// The head of the queue failed, and the call names no row.
    HeadFailed = "headFailed",
    /// No such row waits in the queue.
    QueuedTurnNotFound = "queuedTurnNotFound",
    /// The row waits and has not failed.
    NotFailed = "notFailed",
    /// The order is not one of the rows that wait now.
    StaleOrder = "staleOrder",
    /// The thread is gone with its server and has no queue.
    Ephemeral = "ephemeral",
    /// A hook said no.
    BlockedByHook = "blockedByHook",
    /// Another live connection holds the binding.
    BindingInUse = "bindingInUse",
    /// The thread's engine cannot do this.
    UnsupportedByEngine = "unsupportedByEngine",
    /// No such approval.
    ApprovalNotFound = "approvalNotFound",
    /// The approval was decided before.
    ApprovalResolved = "approvalResolved",
    /// The name is in use for something that runs.
    DuplicateProcess = "duplicateProcess",
    /// Nothing that runs has this name.
    ProcessNotFound = "processNotFound",
    /// The input of the process takes nothing, or nothing more.
    StdinClosed = "stdinClosed",
    /// The program could not be started.
    SpawnFailed = "spawnFailed",
    /// The sandbox policy cannot be enforced on this machine.
    SandboxUnavailable = "sandboxUnavailable",
    /// The rules about commands cannot be loaded.
    BadRules = "badRules",
    /// No such fan-out job.
    JobNotFound = "jobNotFound",
    /// Several fan-out jobs fit.
    AmbiguousJob = "ambiguousJob",
    /// The fan-out job has no such item.
    ItemNotFound = "itemNotFound",
    /// The state of the fan-out job does not allow the call.
    WrongState = "wrongState",
    /// The template of the fan-out job cannot be used.
    BadTemplate = "badTemplate",
    /// The schema of results cannot be used.
    BadSchema = "badSchema",
    /// The input of the fan-out job cannot be imported.
    BadInput = "badInput",
    /// A limit of the fan-out job is out of range.
    BadLimit = "badLimit",
    /// The price of the model is not known.
    NoPrice = "noPrice",
    /// The engine cannot deliver results on the channel.
    ChannelUnsupported = "channelUnsupported",
    /// The items of the fan-out job cannot have worktrees.
    NoWorktree = "noWorktree",
    /// Worktrees of the fan-out job have work in them.
    Unlanded = "unlanded",
    /// The output file exists.
    OutputExists = "outputExists",
    /// The output file is the input file.
    OutputIsInput = "outputIsInput",
    /// Bytes or rows behind the place that is wanted next.
    OffsetMismatch = "offsetMismatch",
    /// Too many unanswered requests.
    Overloaded = "overloaded",
    /// The store cannot grow.
    DiskFull = "diskFull",
    /// The system does not let the server write its store.
    NotWritable = "notWritable",
    /// Another process holds a lock on the database.
    DatabaseLocked = "databaseLocked",
    /// Our own failure.
    Internal = "internal",
}
