//! Tokens of a turn, from the totals of its thread.
//!
//! The invariant here: every token that Codex counts during the turn is told once. Codex repeats
//! totals, after a resume with the id of an older turn; so the growth of the total counts, not the
//! number of messages.

use serde::Deserialize;
use turnlane_protocol::usage::{ThreadTokenUsage, TokenCounts, TokenUsage};

use crate::event::Event;

/// Params of `thread/tokenUsage/updated`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageUpdate {
    pub(super) turn_id: String,
    pub(super) token_usage: ThreadTokenUsage,
}

/// Counts the tokens of one turn.
#[derive(Debug, Default)]
pub(super) struct UsageMeter {
    /// The thread's total before the turn; none: not known yet.
    base: Option<TokenUsage>,
    latest: Option<TokenUsage>,
}

impl UsageMeter {
    /// A meter for a thread that has used nothing.
    pub(super) fn of_new_thread() -> Self {
        Self {
            base: Some(TokenUsage::default()),
            latest: None,
        }
    }

    /// Notes the total that an older turn left.
    pub(super) fn note_base(&mut self, update: &UsageUpdate) {
        if self.latest.is_none() {
            self.base = Some(update.token_usage.total);
        }
    }

    /// Notes a total of this turn. Returns what was used since the last one, if anything.
    pub(super) fn note(&mut self, update: &UsageUpdate) -> Option<Event> {
        let ThreadTokenUsage {
            total,
            last,
            model_context_window,
        } = update.token_usage;
        // Without an older total, the first call of the turn is all of its growth so far.
        let base = *self.base.get_or_insert_with(|| minus(total, last));
        let before = self.latest.replace(total).unwrap_or(base);
        let grown = minus(total, before);
        (grown != TokenUsage::default()).then_some(Event::Usage {
            last: grown,
            context_window: model_context_window,
        })
    }

    /// The tokens of the turn; none if Codex counted none, or counted backwards.
    pub(super) fn of_turn(&self) -> Option<TokenCounts> {
        let grown = minus(self.latest?, self.base?);
        let counts = TokenCounts::from(grown);
        let all = [
            counts.input_tokens,
            counts.cached_input_tokens,
            counts.cache_write_input_tokens,
            counts.output_tokens,
            counts.reasoning_output_tokens,
        ];
        let is_known = all.iter().all(|count| *count >= 0) && all.iter().any(|count| *count > 0);
        is_known.then_some(counts)
    }

    /// The thread's total after the turn.
    pub(super) fn total(&self) -> Option<TokenCounts> {
        self.latest.map(TokenCounts::from)
    }
}

fn minus(later: TokenUsage, earlier: TokenUsage) -> TokenUsage {
    TokenUsage {
        total_tokens: later.total_tokens - earlier.total_tokens,
        input_tokens: later.input_tokens - earlier.input_tokens,
        cached_input_tokens: later.cached_input_tokens - earlier.cached_input_tokens,
        cache_write_input_tokens: later.cache_write_input_tokens - earlier.cache_write_input_tokens,
        output_tokens: later.output_tokens - earlier.output_tokens,
        reasoning_output_tokens: later.reasoning_output_tokens - earlier.reasoning_output_tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(total: i64, last: i64) -> UsageUpdate {
        let usage = |tokens| TokenUsage {
            total_tokens: tokens,
            input_tokens: tokens,
            ..TokenUsage::default()
        };
        UsageUpdate {
            turn_id: "u".to_owned(),
            token_usage: ThreadTokenUsage {
                total: usage(total),
                last: usage(last),
                model_context_window: Some(100),
            },
        }
    }

    fn told(event: Option<&Event>) -> Option<i64> {
        match event {
            Some(Event::Usage { last, .. }) => Some(last.total_tokens),
            _ => None,
        }
    }

    fn input(meter: &UsageMeter) -> Option<i64> {
        meter.of_turn().map(|counts| counts.input_tokens)
    }

    #[test]
    fn repeated_totals_are_told_once() {
        let mut meter = UsageMeter::default();
        meter.note_base(&update(24, 12));
        assert_eq!(told(meter.note(&update(24, 12)).as_ref()), None);
        assert_eq!(input(&meter), None);
        assert_eq!(told(meter.note(&update(36, 12)).as_ref()), Some(12));
        assert_eq!(told(meter.note(&update(36, 12)).as_ref()), None);
        assert_eq!(told(meter.note(&update(41, 5)).as_ref()), Some(5));
        assert_eq!(input(&meter), Some(17));
        assert_eq!(meter.total().map(|total| total.input_tokens), Some(41));
    }

    #[test]
    fn without_an_older_total_the_first_call_of_the_turn_counts() {
        let mut meter = UsageMeter::of_new_thread();
        assert_eq!(told(meter.note(&update(10, 10)).as_ref()), Some(10));
        assert_eq!(input(&meter), Some(10));
        let mut meter = UsageMeter::default();
        assert_eq!(told(meter.note(&update(100, 10)).as_ref()), Some(10));
        assert_eq!(input(&meter), Some(10));
        let mut meter = UsageMeter::default();
        meter.note_base(&update(50, 1));
        let _ = meter.note(&update(40, 1));
        assert_eq!(input(&meter), None, "counted backwards");
    }
}
