//! Tokens that ended turns used since the start, by model.
//!
//! The invariant here: the number of names is bounded by [`MODELS_MAX`] and each name is harmless as a
//! label of a metric. Clients choose models, so every other name is counted as `other`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use turnlane_protocol::usage::TokenCounts;

/// How many models are told apart.
const MODELS_MAX: usize = 64;
/// The longest name that is used as it is.
const NAME_BYTES_MAX: usize = 80;
/// The name of all models that have none of their own here.
const OTHER: &str = "other";

/// Tokens by model.
#[derive(Debug, Default)]
pub(crate) struct ModelTokens(Mutex<BTreeMap<String, TokenCounts>>);

impl ModelTokens {
    /// Adds what a turn with this model used.
    pub(crate) fn add(&self, model: &str, used: TokenCounts) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = counts.contains_key(model);
        let name = if is_known || is_label(model) && counts.len() < MODELS_MAX {
            model
        } else {
            OTHER
        };
        let total = counts.entry(name.to_owned()).or_default();
        for (total, used) in [
            (&mut total.input_tokens, used.input_tokens),
            (&mut total.cached_input_tokens, used.cached_input_tokens),
            (
                &mut total.cache_write_input_tokens,
                used.cache_write_input_tokens,
            ),
            (&mut total.output_tokens, used.output_tokens),
            (
                &mut total.reasoning_output_tokens,
                used.reasoning_output_tokens,
            ),
        ] {
            // A counter never goes back, whatever an engine reports.
            *total = total.saturating_add(used.max(0));
        }
    }

    /// The models with their counts.
    pub(crate) fn counts(&self) -> Vec<(String, TokenCounts)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = counts.iter().map(|(model, used)| (model.clone(), *used));
        pairs.collect()
    }
}

fn is_label(model: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/@+".contains(&byte);
    !model.is_empty() && model.len() <= NAME_BYTES_MAX && model.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(count: i64) -> TokenCounts {
        TokenCounts {
            input_tokens: count,
            ..TokenCounts::default()
        }
    }

    #[test]
    fn models_are_told_apart_and_counts_never_go_back() {
        let tokens = ModelTokens::default();
        tokens.add("b/m-1", input(5));
        tokens.add("a", input(7));
        tokens.add("b/m-1", input(-3));
        tokens.add("x\"} 1", input(2));
        let expected = [("a", 7), ("b/m-1", 5), ("other", 2)];
        let expected = expected.map(|(model, count)| (model.to_owned(), input(count)));
        assert_eq!(tokens.counts(), expected);
    }

    #[test]
    fn the_number_of_models_is_bounded() {
        let tokens = ModelTokens::default();
        for number in 0..1_000 {
            tokens.add(&format!("m{number}"), input(1));
        }
        let counts = tokens.counts();
        assert_eq!(counts.len(), MODELS_MAX + 1);
        let all: i64 = counts.iter().map(|(_, used)| used.input_tokens).sum();
        assert_eq!(all, 1_000);
    }
}
