//! What a failed turn means for its lane: whether it waits, for how long, and whether the turn can
//! be run again as if it had never been.
//!
//! The invariant here: both questions are answered from words alone, without a clock and without
//! the text of an error, so every engine's failures are treated alike.
//!
//! Jitter, `retry_at` and the waiting itself are the lane's business.

use std::time::Duration;

use turnlane_protocol::item::{ItemBody, ThreadItem};
use turnlane_protocol::turn_error::{CodexErrorInfo, ErrorKind};

/// Waits after a used-up allowance whose end nobody named.
const QUOTA_STEPS_MINUTES: [u64; 6] = [1, 2, 5, 15, 30, 60];
/// First wait after a passing trouble; doubles from try to try.
const DOUBLING_FROM: Duration = Duration::from_secs(30);
/// Longest wait after a passing trouble.
const DOUBLING_MAX: Duration = Duration::from_mins(15);
/// Wait between looks for an engine that cannot be started.
const ENGINE_EVERY: Duration = Duration::from_secs(30);

/// A moment as `2030-01-01T09:05:00Z`, for texts.
pub fn moment(unix_ms: i64) -> String {
    crate::native::failure::rfc3339(unix_ms.div_euclid(1_000))
}

/// How a lane waits after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Until the time the error names, else in growing steps.
    Steps,
    /// Until the time the error names, else doubling.
    Doubling,
    /// The same time again and again.
    Every(Duration),
    /// Until a person has done something.
    Person,
}

/// How a lane waits after a failure of this kind; none: it goes on with the next turn.
pub fn waits(kind: &ErrorKind) -> Option<Wait> {
    match kind {
        ErrorKind::Quota => Some(Wait::Steps),
        ErrorKind::RateLimited
        | ErrorKind::Overloaded
        | ErrorKind::ServerError
        | ErrorKind::Network => Some(Wait::Doubling),
        ErrorKind::EngineUnavailable => Some(Wait::Every(ENGINE_EVERY)),
        ErrorKind::Auth | ErrorKind::Plan => Some(Wait::Person),
        ErrorKind::ContextExhausted
        | ErrorKind::ModelNotFound
        | ErrorKind::Incomplete
        | ErrorKind::Policy
        | ErrorKind::BadRequest
        | ErrorKind::Sandbox
        | ErrorKind::Budget
        | ErrorKind::EngineRefused
        | ErrorKind::EngineCrashed
        | ErrorKind::Busy
        | ErrorKind::ThreadNotFound
        | ErrorKind::ResumeMismatch
        | ErrorKind::Protocol
        | ErrorKind::Unsupported
        | ErrorKind::Timeout
        | ErrorKind::ApprovalTimeout
        | ErrorKind::Stopped
        | ErrorKind::Interrupted
        | ErrorKind::Unknown
        | ErrorKind::Other
        | ErrorKind::Unlisted(_) => None,
    }
}

/// How long a lane waits after the `nth` failure in a row of this kind, from 1, when the error
/// names no time; none: it does not wait, or waits for a person (see [`waits`]).
pub fn wait_for(kind: &ErrorKind, nth: u32) -> Option<Duration> {
    let again = nth.saturating_sub(1);
    match waits(kind)? {
        Wait::Steps => {
            let last = QUOTA_STEPS_MINUTES.len() - 1;
            let step = usize::try_from(again).unwrap_or(last).min(last);
            Some(Duration::from_mins(QUOTA_STEPS_MINUTES[step]))
        }
        Wait::Doubling => {
            let factor = 2_u32.saturating_pow(again);
            Some(DOUBLING_FROM.saturating_mul(factor).min(DOUBLING_MAX))
        }
        Wait::Every(time) => Some(time),
        Wait::Person => None,
    }
}

/// The kind that a word of `codexErrorInfo` stands for.
///
/// A word nobody knows is [`ErrorKind::Other`], never a guess.
pub fn kind_of(info: &CodexErrorInfo) -> ErrorKind {
    match info {
        CodexErrorInfo::ContextWindowExceeded => ErrorKind::ContextExhausted,
        CodexErrorInfo::UsageLimitExceeded => ErrorKind::Quota,
        CodexErrorInfo::RateLimitExceeded => ErrorKind::RateLimited,
        CodexErrorInfo::ServerOverloaded => ErrorKind::Overloaded,
        CodexErrorInfo::ModelNotFound => ErrorKind::ModelNotFound,
        CodexErrorInfo::InternalServerError => ErrorKind::ServerError,
        CodexErrorInfo::Unauthorized => ErrorKind::Auth,
        CodexErrorInfo::BadRequest => ErrorKind::BadRequest,
        CodexErrorInfo::CyberPolicy => ErrorKind::Policy,
        CodexErrorInfo::SandboxError => ErrorKind::Sandbox,
        CodexErrorInfo::HttpConnectionFailed { http_status_code }
        | CodexErrorInfo::ResponseStreamConnectionFailed { http_status_code }
        | CodexErrorInfo::ResponseStreamDisconnected { http_status_code }
        | CodexErrorInfo::ResponseTooManyFailedAttempts { http_status_code } => {
            kind_of_status(*http_status_code)
        }
        CodexErrorInfo::Other | CodexErrorInfo::ActiveTurnNotSteerable { .. } => ErrorKind::Other,
        CodexErrorInfo::Unlisted(word) => match word.as_str() {
            Some("flexUnavailable" | "policyCapacityUnavailable") => ErrorKind::Overloaded,
            Some("misalignmentPolicyViolation" | "tooManyDenials") => ErrorKind::Policy,
            Some("sessionBudgetExceeded") => ErrorKind::Budget,
            Some(_) | None => ErrorKind::Other,
        },
    }
}

fn kind_of_status(status: Option<u16>) -> ErrorKind {
    match status {
        Some(429) => ErrorKind::RateLimited,
        Some(401 | 403) => ErrorKind::Auth,
        Some(503) => ErrorKind::Overloaded,
        Some(500..=599) => ErrorKind::ServerError,
        Some(_) | None => ErrorKind::Network,
    }
}

/// Whether an item may have changed something outside of the thread.
///
/// A turn with such an item is not put back, because running it again could do it twice. Only words
/// are known to change nothing; a type we do not know counts as an effect.
pub fn has_effect(item: &ThreadItem) -> bool {
    !matches!(
        item.body,
        ItemBody::UserMessage(_)
            | ItemBody::AgentMessage(_)
            | ItemBody::Reasoning(_)
            | ItemBody::Plan(_)
            | ItemBody::ContextCompaction(_)
            | ItemBody::Sleep(_)
            | ItemBody::HookPrompt(_)
            | ItemBody::FunctionCallOutput(_)
            | ItemBody::EnteredReviewMode(_)
            | ItemBody::ExitedReviewMode(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn waits_grow_as_the_contract_says() {
        let minutes = |kind: &ErrorKind, nth| wait_for(kind, nth).map(|wait| wait.as_secs());
        let quota: Vec<_> = (0..9).map(|nth| minutes(&ErrorKind::Quota, nth)).collect();
        let expected = [60, 60, 120, 300, 900, 1800, 3600, 3600, 3600];
        assert_eq!(quota, expected.map(Some));

        for kind in [
            ErrorKind::RateLimited,
            ErrorKind::Overloaded,
            ErrorKind::ServerError,
            ErrorKind::Network,
        ] {
            let waits: Vec<_> = (1..=7).map(|nth| minutes(&kind, nth)).collect();
            let expected = [30, 60, 120, 240, 480, 900, 900];
            assert_eq!(waits, expected.map(Some), "{kind:?}");
            assert_eq!(minutes(&kind, u32::MAX), Some(900));
        }
        assert_eq!(minutes(&ErrorKind::EngineUnavailable, 40), Some(30));
    }

    #[test]
    fn a_missing_key_waits_for_a_person_and_a_bad_request_does_not_wait() {
        for kind in [ErrorKind::Auth, ErrorKind::Plan] {
            assert_eq!(waits(&kind), Some(Wait::Person));
            assert_eq!(wait_for(&kind, 1), None);
        }
        for kind in [
            ErrorKind::BadRequest,
            ErrorKind::Other,
            ErrorKind::Unlisted("new".into()),
        ] {
            assert_eq!(waits(&kind), None);
        }
    }

    #[test]
    fn words_of_codex_have_their_kinds() {
        let kind = |info| kind_of(&serde_json::from_value(info).unwrap());
        for (word, expected) in [
            ("contextWindowExceeded", ErrorKind::ContextExhausted),
            ("usageLimitExceeded", ErrorKind::Quota),
            ("rateLimitExceeded", ErrorKind::RateLimited),
            ("unauthorized", ErrorKind::Auth),
            ("serverOverloaded", ErrorKind::Overloaded),
            ("flexUnavailable", ErrorKind::Overloaded),
            ("internalServerError", ErrorKind::ServerError),
            ("modelNotFound", ErrorKind::ModelNotFound),
            ("tooManyDenials", ErrorKind::Policy),
            ("badRequest", ErrorKind::BadRequest),
            ("sandboxError", ErrorKind::Sandbox),
            ("sessionBudgetExceeded", ErrorKind::Budget),
            ("somethingNew", ErrorKind::Other),
        ] {
            assert_eq!(kind(json!(word)), expected, "{word}");
        }
        for (status, expected) in [
            (json!(null), ErrorKind::Network),
            (json!(408), ErrorKind::Network),
            (json!(401), ErrorKind::Auth),
            (json!(429), ErrorKind::RateLimited),
            (json!(502), ErrorKind::ServerError),
            (json!(503), ErrorKind::Overloaded),
        ] {
            let info = json!({"responseTooManyFailedAttempts": {"httpStatusCode": status}});
            assert_eq!(kind(info), expected, "{status}");
        }
    }

    #[test]
    fn words_have_no_effect_and_everything_else_may_have() {
        let item = |word: &str| {
            let members = json!({"id": "i", "type": word, "text": "", "content": [], "changes": [],
                "status": "completed", "command": "x", "cwd": "/", "commandActions": []});
            serde_json::from_value::<ThreadItem>(members).unwrap()
        };
        for word in [
            "userMessage",
            "agentMessage",
            "reasoning",
            "plan",
            "contextCompaction",
        ] {
            assert!(!has_effect(&item(word)), "{word}");
        }
        for word in [
            "commandExecution",
            "fileChange",
            "subAgentActivity",
            "mcpToolCall",
            "later",
        ] {
            assert!(has_effect(&item(word)), "{word}");
        }
    }
}
