//! How often a failed model call is made again, and after which wait.
//!
//! The invariant here: one model call makes at most 1 + `request_max` + `stream_max` requests. The
//! two counters are separate and never multiplied, and nothing sets them back. Only pauses that a
//! shared gate takes over are not counted.
//!
//! What may be tried again is decided by [`failure`](super::failure); the waiting itself, and
//! ending it on cancel, is the caller's.

use std::time::Duration;

use turnlane_protocol::turn_error::CodexErrorInfo;

use super::failure::{Again, Failure};
use crate::hooks::Limited;
use crate::outcome::EngineError;

/// The wait before the first try; doubles from try to try.
const DELAY_FIRST: Duration = Duration::from_millis(200);
/// The longest wait that nobody asked for.
const DELAY_MAX: Duration = Duration::from_secs(10);

/// How often a model call may be made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// After failures before a 2xx header.
    pub request_max: u32,
    /// After failures behind it.
    pub stream_max: u32,
    /// The longest wait of a provider that is waited out.
    pub wait_max: Duration,
}

/// A random factor between 0.9 and 1.1, so that callers that failed together do not come together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter(f64);

impl Jitter {
    /// No spread.
    pub const NONE: Self = Self(1.0);

    /// The factor for a random number from 0 to 1; others count as the nearer end.
    pub fn from_unit(random: f64) -> Self {
        if random.is_nan() {
            return Self::NONE;
        }
        Self(0.9 + 0.2 * random.clamp(0.0, 1.0))
    }

    /// The factor for 32 random bits.
    pub fn from_bits(random: u32) -> Self {
        Self::from_unit(f64::from(random) / f64::from(u32::MAX))
    }
}

/// What to do after a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Show the notice, wait, and make the request again.
    Wait {
        /// How long.
        delay: Duration,
        /// What is shown before; it says "Reconnecting... n/max".
        notice: Box<EngineError>,
    },
    /// Make the request again at once: the gate before it does the waiting.
    Gate,
    /// Make the history shorter, then call the model anew.
    Compact(Box<Failure>),
    /// The turn fails with this.
    GiveUp(Box<Failure>),
}

/// The tries of one model call.
#[derive(Clone, Debug)]
pub struct Retries {
    limits: RetryLimits,
    request: u32,
    stream: u32,
    attempts: u32,
}

impl Retries {
    /// No request was made yet.
    pub fn new(limits: RetryLimits) -> Self {
        Self {
            limits,
            request: 0,
            stream: 0,
            attempts: 0,
        }
    }

    /// A request is made now.
    pub fn sent(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
    }

    /// How many requests were made.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The pause to tell the gate of, before [`after`](Self::after); none: the gate is not asked.
    ///
    /// A gate is told of what concerns every caller of the provider: its limits and its load.
    pub fn pause(&self, failure: &Failure, jitter: Jitter) -> Option<Duration> {
        let shared = matches!(
            failure.info,
            CodexErrorInfo::RateLimitExceeded | CodexErrorInfo::ServerOverloaded
        );
        let tries = match failure.again {
            Again::Request => self.request,
            Again::Stream => self.stream,
            Again::Never | Again::Compact => return None,
        };
        shared.then(|| delay(tries.saturating_add(1), failure.retry_after, jitter))
    }

    /// What to do after a failure; counts the try that it allows.
    ///
    /// `gate` is the answer to [`pause`](Self::pause), [`Limited::Own`] where it was not asked.
    pub fn after(&mut self, mut failure: Failure, gate: Limited, jitter: Jitter) -> Next {
        failure.attempts = self.attempts;
        let held = gate == Limited::Hold && self.pause(&failure, jitter).is_some();
        let (tries, max) = match failure.again {
            Again::Never => return Next::GiveUp(Box::new(failure)),
            Again::Compact => return Next::Compact(Box::new(failure)),
            Again::Request | Again::Stream if held => return Next::Gate,
            Again::Request => (&mut self.request, self.limits.request_max),
            Again::Stream => (&mut self.stream, self.limits.stream_max),
        };
        let too_long = failure
            .retry_after
            .is_some_and(|asked| asked > self.limits.wait_max);
        if *tries >= max || too_long {
            return Next::GiveUp(Box::new(failure));
        }
        *tries += 1;
        Next::Wait {
            delay: delay(*tries, failure.retry_after, jitter),
            notice: Box::new(failure.reconnecting(*tries, max)),
        }
    }
}

/// The wait before try `n`, from 1.
fn delay(n: u32, asked: Option<Duration>, jitter: Jitter) -> Duration {
    let factor = 2_u32.saturating_pow(n.saturating_sub(1));
    let own = DELAY_FIRST.saturating_mul(factor).min(DELAY_MAX);
    own.mul_f64(jitter.0).max(asked.unwrap_or_default())
}

/// Whether an overflow of the context may still be answered by a compaction; one per turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compactions {
    since_success: u32,
}

impl Compactions {
    /// A response was received whole.
    pub fn succeeded(&mut self) {
        self.since_success = 0;
    }

    /// The history does not fit; counts the compaction that it allows.
    ///
    /// The second time without a response between, shortening has not helped and the turn fails.
    pub fn overflowed(&mut self) -> Overflow {
        if self.since_success > 0 {
            return Overflow::GiveUp;
        }
        self.since_success += 1;
        Overflow::Compact
    }
}

/// What to do when the history does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Make it shorter.
    Compact,
    /// The turn fails.
    GiveUp,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::failure::{Around, Cause, Fault, Now, classify};
    use crate::native::redact::Redactor;
    use http::{HeaderMap, HeaderName, HeaderValue};

    const LIMITS: RetryLimits = RetryLimits {
        request_max: 4,
        stream_max: 5,
        wait_max: Duration::from_mins(1),
    };

    fn fail(cause: Cause<'_>) -> Failure {
        let around = Around {
            model: "m-1",
            now: Now {
                unix_ms: 1_893_456_000_000,
            },
            redactor: &Redactor::default(),
        };
        classify(cause, around)
    }

    fn answer(status: u16, retry_after: Option<&'static str>) -> Failure {
        let mut headers = HeaderMap::new();
        if let Some(wait) = retry_after {
            let name = HeaderName::from_static("retry-after");
            headers.insert(name, HeaderValue::from_static(wait));
        }
        fail(Cause::Answer {
            status,
            headers: &headers,
            body: b"",
        })
    }

    fn cut() -> Failure {
        fail(Cause::Transport {
            fault: Fault::Cut,
            text: "",
        })
    }

    fn waited(next: Next) -> (u128, String) {
        match next {
            Next::Wait { delay, notice } => (delay.as_millis(), notice.message),
            other => panic!("no wait: {other:?}"),
        }
    }

    #[test]
    fn waits_double_up_to_ten_seconds_and_spread() {
        let ms = |n, jitter| delay(n, None, jitter).as_millis();
        let plain: Vec<u128> = (1..=8).map(|n| ms(n, Jitter::NONE)).collect();
        assert_eq!(plain, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(ms(1, Jitter::from_unit(0.0)), 180);
        assert_eq!(ms(1, Jitter::from_bits(u32::MAX)), 220);
        assert_eq!(ms(1, Jitter::from_unit(f64::NAN)), 200);
        assert_eq!(ms(u32::MAX, Jitter::from_unit(9.0)), 11_000);
        let asked = Some(Duration::from_secs(2));
        assert_eq!(delay(1, asked, Jitter::NONE).as_millis(), 2000);
        assert_eq!(delay(5, asked, Jitter::NONE).as_millis(), 3200);
    }

    #[test]
    fn both_classes_are_counted_for_themselves() {
        let mut retries = Retries::new(LIMITS);
        let mut notices = Vec::new();
        // In turns, so that a class that set the other back would never end.
        for n in 0..4 {
            retries.sent();
            let next = retries.after(answer(502, None), Limited::Own, Jitter::NONE);
            notices.push(waited(next));
            retries.sent();
            notices.push(waited(retries.after(cut(), Limited::Own, Jitter::NONE)));
            assert_eq!(notices[2 * n].0, notices[2 * n + 1].0);
        }
        assert_eq!(notices[0], (200, "Reconnecting... 1/4".to_owned()));
        assert_eq!(notices[1], (200, "Reconnecting... 1/5".to_owned()));
        assert_eq!(notices[6], (1600, "Reconnecting... 4/4".to_owned()));
        retries.sent();
        waited(retries.after(cut(), Limited::Own, Jitter::NONE));
        retries.sent();
        assert_eq!(
            retries.attempts(),
            1 + LIMITS.request_max + LIMITS.stream_max
        );
        for last in [cut(), answer(502, None)] {
            let next = retries
                .clone()
                .after(last.clone(), Limited::Own, Jitter::NONE);
            let Next::GiveUp(failure) = next else {
                panic!("one request too many: {next:?}");
            };
            // The cause's own word, with the number of requests.
            assert_eq!(failure.info, last.info);
            assert!(failure.details().unwrap().ends_with("attempts=10"));
        }
    }

    #[test]
    fn a_notice_has_the_word_and_the_details_of_its_cause() {
        let mut retries = Retries::new(LIMITS);
        retries.sent();
        let next = retries.after(answer(429, Some("2")), Limited::Own, Jitter::NONE);
        let Next::Wait { delay, notice } = next else {
            panic!("no wait: {next:?}");
        };
        assert_eq!(delay, Duration::from_secs(2));
        assert_eq!(notice.message, "Reconnecting... 1/4");
        assert_eq!(
            notice.codex_error_info,
            Some(CodexErrorInfo::RateLimitExceeded)
        );
        let details = "http_status=429; retry_after_ms=2000; attempts=1";
        assert_eq!(notice.additional_details.as_deref(), Some(details));
    }

    #[test]
    fn a_wait_that_is_too_long_fails_at_once_or_is_left_to_the_gate() {
        let mut retries = Retries::new(LIMITS);
        retries.sent();
        let failure = answer(429, Some("3600"));
        let hour = Duration::from_hours(1);
        assert_eq!(retries.pause(&failure, Jitter::NONE), Some(hour));
        for _ in 0..20 {
            let next = retries.after(failure.clone(), Limited::Hold, Jitter::NONE);
            assert_eq!(next, Next::Gate);
        }
        let next = retries.after(failure, Limited::Own, Jitter::NONE);
        let Next::GiveUp(failure) = next else {
            panic!("waits an hour: {next:?}");
        };
        assert_eq!(failure.retry_after, Some(hour));
        assert_eq!(failure.error().retry_at, Some(1_893_459_600));
        // Held pauses were not counted.
        let next = retries.after(answer(503, None), Limited::Own, Jitter::NONE);
        assert_eq!(waited(next).1, "Reconnecting... 1/4");
    }

    #[test]
    fn a_gate_is_told_of_limits_and_load_only() {
        let retries = Retries::new(LIMITS);
        let pause = |failure| retries.pause(&failure, Jitter::NONE);
        let own = Some(Duration::from_millis(200));
        assert_eq!(pause(answer(429, None)), own);
        assert_eq!(pause(answer(503, None)), own);
        for failure in [answer(500, Some("9")), answer(402, None), cut()] {
            assert_eq!(pause(failure.clone()), None);
            // Nor can a gate hold what it was not told of.
            let next = retries.clone().after(failure, Limited::Hold, Jitter::NONE);
            assert_ne!(next, Next::Gate);
        }
    }

    #[test]
    fn what_cannot_help_is_not_tried() {
        let mut retries = Retries::new(LIMITS);
        for failure in [answer(401, None), answer(302, None), answer(400, None)] {
            let next = retries.after(failure.clone(), Limited::Own, Jitter::NONE);
            assert_eq!(next, Next::GiveUp(Box::new(failure)));
        }
        let none = RetryLimits {
            request_max: 0,
            ..LIMITS
        };
        let next = Retries::new(none).after(answer(500, None), Limited::Own, Jitter::NONE);
        assert!(matches!(next, Next::GiveUp(_)));
    }

    #[test]
    fn a_second_overflow_needs_a_response_between() {
        let overflow = fail(Cause::Answer {
            status: 400,
            headers: &HeaderMap::new(),
            body: br#"{"error":{"code":"context_length_exceeded"}}"#,
        });
        let next = Retries::new(LIMITS).after(overflow, Limited::Own, Jitter::NONE);
        assert!(matches!(next, Next::Compact(_)));
        let mut compactions = Compactions::default();
        assert_eq!(compactions.overflowed(), Overflow::Compact);
        assert_eq!(compactions.overflowed(), Overflow::GiveUp);
        compactions.succeeded();
        assert_eq!(compactions.overflowed(), Overflow::Compact);
    }
}
