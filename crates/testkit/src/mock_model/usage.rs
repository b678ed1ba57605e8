//! The token counts at the end of an answer.

use serde_json::{Value, json};

/// What an answer cost, in tokens. The total is the sum of input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// All input tokens, those of the next two fields included.
    pub input: u64,
    /// Input tokens that came from the provider's cache.
    pub cached_input: u64,
    /// Input tokens that were written into the provider's cache.
    pub cache_write_input: u64,
    /// All output tokens, those of the next field included.
    pub output: u64,
    /// Output tokens that were reasoning.
    pub reasoning_output: u64,
}

impl Usage {
    /// What an answer costs unless the test says otherwise: five counts that cannot be confused.
    pub const SAMPLE: Self = Self {
        input: 100,
        cached_input: 40,
        cache_write_input: 7,
        output: 20,
        reasoning_output: 5,
    };

    /// The `usage` object of a response.
    pub(super) fn to_json(self) -> Value {
        json!({
            "input_tokens": self.input,
            "input_tokens_details": {
                "cached_tokens": self.cached_input,
                "cache_write_tokens": self.cache_write_input,
            },
            "output_tokens": self.output,
            "output_tokens_details": {"reasoning_tokens": self.reasoning_output},
            "total_tokens": self.input + self.output,
        })
    }
}
