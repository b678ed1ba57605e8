//! Tokens of one turn, from the totals of its thread.
//!
//! Codex tells the total of the thread after each turn. The invariant: a turn's usage is the growth of
//! that total, or unknown; totals are never added up.

use turnlane_protocol::usage::{TokenCounts, TokenUsage};

/// What a total tells about the turn that ended with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TurnTokens {
    /// The tokens of the turn; none if they are unknown.
    pub(super) turn: Option<TokenCounts>,
    /// The total to save.
    pub(super) total: Option<TokenCounts>,
}

/// Compares the total after a turn with the one that was saved before it.
pub(super) fn of_turn(before: Option<TokenCounts>, after: TokenCounts) -> TurnTokens {
    let Some(before) = before else {
        // The thread's past is unknown. From now on it is known.
        return TurnTokens {
            turn: None,
            total: Some(after),
        };
    };
    let growth = TokenCounts {
        input_tokens: after.input_tokens.saturating_sub(before.input_tokens),
        cached_input_tokens: after
            .cached_input_tokens
            .saturating_sub(before.cached_input_tokens),
        cache_write_input_tokens: after
            .cache_write_input_tokens
            .saturating_sub(before.cache_write_input_tokens),
        output_tokens: after.output_tokens.saturating_sub(before.output_tokens),
        reasoning_output_tokens: after
            .reasoning_output_tokens
            .saturating_sub(before.reasoning_output_tokens),
    };
    let fields = [
        growth.input_tokens,
        growth.cached_input_tokens,
        growth.cache_write_input_tokens,
        growth.output_tokens,
        growth.reasoning_output_tokens,
    ];
    let is_known = fields.iter().all(|count| *count >= 0) && fields.iter().any(|count| *count > 0);
    if is_known {
        TurnTokens {
            turn: Some(growth),
            total: Some(after),
        }
    } else {
        TurnTokens {
            turn: None,
            total: Some(before),
        }
    }
}

/// The counts as one model call, which is how the thread's total on our wire grows by them.
pub(super) fn as_call(counts: TokenCounts) -> TokenUsage {
    TokenUsage {
        total_tokens: counts.input_tokens.saturating_add(counts.output_tokens),
        input_tokens: counts.input_tokens,
        cached_input_tokens: counts.cached_input_tokens,
        cache_write_input_tokens: counts.cache_write_input_tokens,
        output_tokens: counts.output_tokens,
        reasoning_output_tokens: counts.reasoning_output_tokens,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(values: [i64; 5]) -> TokenCounts {
        TokenCounts {
            input_tokens: values[0],
            cached_input_tokens: values[1],
            cache_write_input_tokens: values[2],
            output_tokens: values[3],
            reasoning_output_tokens: values[4],
        }
    }

    #[test]
    fn a_turn_is_the_growth_of_the_total() {
        let first = counts([100, 40, 0, 20, 5]);
        let new = of_turn(Some(TokenCounts::default()), first);
        assert_eq!((new.turn, new.total), (Some(first), Some(first)));
        let second = of_turn(new.total, counts([1100, 840, 120, 70, 35]));
        assert_eq!(second.turn, Some(counts([1000, 800, 120, 50, 30])));
        assert_eq!(as_call(first).total_tokens, 120);
    }

    #[test]
    fn a_total_that_shrank_or_stood_still_tells_nothing() {
        let before = counts([100, 40, 0, 20, 5]);
        for after in [before, counts([200, 39, 0, 30, 5]), counts([0; 5])] {
            let tokens = of_turn(Some(before), after);
            assert_eq!((tokens.turn, tokens.total), (None, Some(before)));
        }
        let zero = of_turn(Some(counts([0; 5])), counts([0; 5]));
        assert_eq!(zero.turn, None);
    }

    #[test]
    fn an_unknown_past_makes_one_turn_unknown() {
        let after = counts([100, 40, 0, 20, 5]);
        let first = of_turn(None, after);
        assert_eq!((first.turn, first.total), (None, Some(after)));
        let second = of_turn(first.total, counts([150, 40, 0, 25, 5]));
        assert_eq!(second.turn, Some(counts([50, 0, 0, 5, 0])));
    }
}
