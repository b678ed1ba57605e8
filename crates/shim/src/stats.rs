//! Counts of a shim process: tokens and bytes of the turns it saw, and when they are told.
//!
//! The invariant here: a number that no engine told is left out, and a turn is counted once with its own
//! usage, never with its thread's total.

use std::time::Duration;

use serde_json::{Value, json};
use turnlane::{TokenCounts, Usage};

use crate::wire::Event;

/// While numbers change, they are told this often.
const CHANGING: Duration = Duration::from_secs(10);
/// And so often when they do not.
const UNCHANGED: Duration = Duration::from_mins(1);
/// Shares of the context at which a warning is sent.
const WARNINGS: [i64; 3] = [80, 90, 95];
/// Below this share the warnings are armed again.
const ARMED_BELOW: i64 = 70;

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    output_bytes: u64,
    sums: TokenCounts,
    thread: Option<TokenCounts>,
    turns: u64,
    context: Option<Context>,
    /// The highest warning that was sent since the context was last small.
    warned: i64,
    has_changed: bool,
    is_due: bool,
    told: Duration,
}

/// The last model call beside its limit.
#[derive(Clone, Copy, Debug)]
struct Context {
    last: TokenCounts,
    window: i64,
}

impl Context {
    fn used(self) -> i64 {
        self.last.input_tokens + self.last.output_tokens
    }

    fn percent(self) -> i64 {
        (self.used() * 100).checked_div(self.window).unwrap_or(0)
    }
}

impl Stats {
    pub(crate) fn said(&mut self, bytes: usize) {
        self.output_bytes += bytes as u64;
        self.has_changed = true;
    }

    /// Counts a model call; a warning, where the context fills up.
    pub(crate) fn used(&mut self, usage: &Usage, model: &str, uptime: Duration) -> Option<Event> {
        self.has_changed = true;
        let (Some(last), Some(window)) = (usage.last, usage.context_window) else {
            return None;
        };
        if window <= 0 {
            return None;
        }
        let context = Context { last, window };
        self.context = Some(context);
        let percent = context.percent();
        if percent < ARMED_BELOW {
            self.warned = 0;
        }
        let reached = WARNINGS.into_iter().rev().find(|step| percent >= *step)?;
        if reached <= self.warned {
            return None;
        }
        self.warned = reached;
        let warning = Event::new("ContextWarning")
            .with("model", model)
            .with("output_bytes", self.output_bytes)
            .with("uptime_secs", uptime.as_secs())
            .with("input_tokens", last.input_tokens)
            .with("cached_input_tokens", last.cached_input_tokens)
            .with("cache_creation_input_tokens", last.cache_write_input_tokens)
            .with("cache_read_input_tokens", last.cached_input_tokens)
            .with("output_tokens", last.output_tokens)
            .with("reasoning_output_tokens", last.reasoning_output_tokens)
            .with("used_tokens", context.used())
            .with("context_limit_tokens", window)
            .with("usage_pct", percent);
        Some(warning)
    }

    /// Counts a turn that has ended.
    pub(crate) fn ended(&mut self, usage: Option<&Usage>) {
        self.turns += 1;
        self.has_changed = true;
        self.is_due = true;
        let Some(usage) = usage else {
            return;
        };
        if let Some(turn) = usage.turn {
            self.sums.input_tokens += turn.input_tokens;
            self.sums.cached_input_tokens += turn.cached_input_tokens;
            self.sums.cache_write_input_tokens += turn.cache_write_input_tokens;
            self.sums.output_tokens += turn.output_tokens;
            self.sums.reasoning_output_tokens += turn.reasoning_output_tokens;
        }
        self.thread = usage.thread.or(self.thread);
    }

    /// When the counts are to be told next, as time since the start.
    pub(crate) fn due_at(&self) -> Duration {
        if self.is_due {
            return Duration::ZERO;
        }
        let pause = if self.has_changed && self.turns > 0 {
            CHANGING
        } else {
            UNCHANGED
        };
        self.told + pause
    }

    /// The event, if it is time.
    pub(crate) fn tell(&mut self, uptime: Duration, queue_depth: u32) -> Option<Event> {
        if self.due_at() > uptime {
            return None;
        }
        self.told = uptime;
        self.is_due = false;
        self.has_changed = false;
        Some(self.event(uptime, queue_depth))
    }

    fn event(&self, uptime: Duration, queue_depth: u32) -> Event {
        Event::new("SessionStats")
            .with("output_bytes", self.output_bytes)
            .with("uptime_secs", uptime.as_secs())
            .with("input_tokens", self.sums.input_tokens)
            .with("output_tokens", self.sums.output_tokens)
            .with("cached_input_tokens", self.sums.cached_input_tokens)
            .with("reasoning_output_tokens", self.sums.reasoning_output_tokens)
            .with("turns", self.turns)
            .with("queue_depth", queue_depth)
            .with_some(
                "thread_input_tokens",
                self.thread.map(|sum| sum.input_tokens),
            )
            .with_some(
                "thread_output_tokens",
                self.thread.map(|sum| sum.output_tokens),
            )
            .with_some("context_usage_pct", self.context.map(Context::percent))
            .repeating()
    }

    /// The answer to `GetUsage`.
    pub(crate) fn usage(&self) -> Value {
        json!({"turns": self.turns, "total": counts(&self.sums), "thread": self.thread.as_ref().map(counts)})
    }
}

/// Counts in the words of the channel.
pub(crate) fn counts(counts: &TokenCounts) -> Value {
    json!({
        "input_tokens": counts.input_tokens,
        "cached_input_tokens": counts.cached_input_tokens,
        "cache_write_input_tokens": counts.cache_write_input_tokens,
        "output_tokens": counts.output_tokens,
        "reasoning_output_tokens": counts.reasoning_output_tokens,
    })
}

/// What a turn and its thread have used, null where it is unknown.
pub(crate) fn usage(usage: Option<&Usage>) -> Value {
    let turn = usage.and_then(|usage| usage.turn.as_ref()).map(counts);
    let thread = usage.and_then(|usage| usage.thread.as_ref()).map(counts);
    json!({"turn": turn, "thread": thread})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: i64, output: i64) -> TokenCounts {
        TokenCounts {
            input_tokens: input,
            output_tokens: output,
            ..TokenCounts::default()
        }
    }

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn turns_are_counted_by_their_own_usage() {
        let mut stats = Stats::default();
        assert!(stats.tell(secs(59), 0).is_none());
        let usage = |turn, thread| Usage {
            turn: Some(turn),
            thread: Some(thread),
            ..Usage::default()
        };
        stats.ended(Some(&usage(tokens(1234, 56), tokens(1234, 56))));
        let told = stats.tell(secs(1), 0).unwrap();
        assert_eq!(told.fields["input_tokens"], 1234);
        assert_eq!(told.fields["output_tokens"], 56);
        stats.ended(Some(&usage(tokens(10, 1), tokens(1244, 57))));
        let told = stats.tell(secs(2), 0).unwrap();
        assert_eq!(told.fields["input_tokens"], 1244);
        assert_eq!(told.fields["thread_output_tokens"], 57);
        assert!(!told.fields.contains_key("context_usage_pct"));
        assert!(stats.tell(secs(61), 0).is_none());
        assert!(stats.tell(secs(62), 0).is_some());
    }

    #[test]
    fn a_context_that_fills_up_is_warned_of_once_per_step() {
        let mut stats = Stats::default();
        let mut warned = |used: i64| {
            let usage = Usage {
                last: Some(tokens(used, 0)),
                context_window: Some(100),
                ..Usage::default()
            };
            let warning = stats.used(&usage, "m", secs(1));
            warning.map(|warning| warning.fields["usage_pct"].as_i64().unwrap())
        };
        let steps = [79, 80, 85, 91, 96, 99, 75, 96, 69, 82].map(&mut warned);
        let none = None;
        assert_eq!(
            steps,
            [
                none,
                Some(80),
                none,
                Some(91),
                Some(96),
                none,
                none,
                none,
                none,
                Some(82)
            ]
        );
    }
}
