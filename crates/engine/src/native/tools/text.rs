//! How much of a long output the model is told.
//!
//! The invariant here: what is told of an output is at most the limit, beginning and end, cut at
//! characters, with the number of tokens that are missing between them; an output within the limit
//! is told as it is. A token is [`TOKEN_BYTES`] bytes, as everywhere in the engine.
//!
//! What was kept of an output in the first place is decided by whoever collected it; redaction has
//! been done before.

/// Bytes that count as one token.
pub(crate) const TOKEN_BYTES: u64 = 4;

/// How much there was, also where not all of it was kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
}

impl Size {
    /// The size of a text that is whole.
    pub(crate) fn of(text: &str) -> Self {
        Self {
            bytes: text.len() as u64,
            lines: text.lines().count() as u64,
        }
    }

    /// Its tokens, the last one perhaps not full.
    pub(crate) fn tokens(self) -> u64 {
        self.bytes.div_ceil(TOKEN_BYTES)
    }
}

/// A whole text as the model is told it.
pub(crate) fn for_model(text: &str, tokens_max: u64) -> String {
    cut(text, Size::of(text), tokens_max)
}

/// A text whose middle may be missing already as the model is told it; `size` is that of the whole.
pub(crate) fn cut(text: &str, size: Size, tokens_max: u64) -> String {
    let bytes_max = tokens_max.saturating_mul(TOKEN_BYTES);
    let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(bytes_max / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - (bytes_max - bytes_max / 2))..];
    let told = (head.len() + tail.len()) as u64;
    let missing = size.bytes.saturating_sub(told).div_ceil(TOKEN_BYTES);
    let lines = size.lines;
    format!("Total output lines: {lines}\n\n{head}…{missing} tokens truncated…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_output_within_the_limit_is_told_as_it_is() {
        assert_eq!(for_model("12345678", 2), "12345678");
        assert_eq!(for_model("", 0), "");
    }

    #[test]
    fn a_longer_one_is_told_from_both_ends_with_what_is_missing() {
        let told = for_model("abcd\nefgh\nijkl\n", 2);
        assert_eq!(
            told,
            "Total output lines: 3\n\nabcd…2 tokens truncated…jkl\n"
        );
    }

    #[test]
    fn what_was_never_kept_counts_as_missing() {
        let size = Size {
            bytes: 4_000_008,
            lines: 70,
        };
        let told = cut("abcdefgh MARK ijklmnop", size, 2);
        assert_eq!(
            told,
            "Total output lines: 70\n\nabcd…1000000 tokens truncated…mnop"
        );
        assert_eq!(size.tokens(), 1_000_002);
    }

    proptest! {
        #[test]
        fn no_text_is_cut_within_a_character(text in "\\PC{0,60}", tokens_max in 0_u64..20) {
            let told = for_model(&text, tokens_max);
            let limit = usize::try_from(tokens_max * TOKEN_BYTES).unwrap();
            if text.len() <= limit {
                prop_assert_eq!(told, text);
            } else {
                let (_, told) = told.split_once("\n\n").unwrap();
                let (head, rest) = told.split_once('…').unwrap();
                prop_assert!(text.starts_with(head) && head.len() <= limit / 2);
                let (_, tail) = rest.split_once(" tokens truncated…").unwrap();
                prop_assert!(text.ends_with(tail));
                prop_assert!(head.len() + tail.len() <= limit);
            }
        }
    }
}
