//! Request fields that a provider refused, so that they are left out from then on.
//!
//! The invariant here: a field is learned once per provider and model, and only from a refusal
//! that names it as a field. Common words like `include` count only where they are quoted or
//! stand behind a word like "parameter", because every other sentence has them.
//!
//! The request is built elsewhere; this only says what to leave out.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// Pairs of provider and model that are remembered; later ones are not learned.
const PAIRS_MAX: usize = 1024;

/// Something that is left out of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Omission {
    /// `include`.
    Include,
    /// `prompt_cache_key`.
    PromptCacheKey,
    /// `reasoning.effort`.
    ReasoningEffort,
    /// `reasoning`.
    Reasoning,
    /// `parallel_tool_calls`.
    ParallelToolCalls,
    /// `text.verbosity`.
    TextVerbosity,
    /// `service_tier`.
    ServiceTier,
    /// `store`.
    Store,
    /// All reasoning entries of the history: their encrypted content is not accepted.
    ReasoningEntries,
}

impl Omission {
    /// What the warning calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Include => "include",
            Self::PromptCacheKey => "prompt_cache_key",
            Self::ReasoningEffort => "reasoning.effort",
            Self::Reasoning => "reasoning",
            Self::ParallelToolCalls => "parallel_tool_calls",
            Self::TextVerbosity => "text.verbosity",
            Self::ServiceTier => "service_tier",
            Self::Store => "store",
            Self::ReasoningEntries => "encrypted reasoning",
        }
    }

    /// What an answer refuses; none: nothing that could be left out.
    ///
    /// Only for answers that are [`BadRequest`](turnlane_protocol::turn_error::CodexErrorInfo):
    /// an overflow of the context may name fields too.
    pub fn named_by(status: u16, body: &[u8]) -> Option<Self> {
        if !matches!(status, 400 | 422) {
            return None;
        }
        let body = String::from_utf8_lossy(body);
        let value: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
        let error = match &value["error"] {
            Value::Object(_) => &value["error"],
            _ => &value,
        };
        let text = ["message", "detail"]
            .into_iter()
            .find_map(|member| error[member].as_str())
            .or_else(|| value["error"].as_str())
            .unwrap_or(if value.is_null() { &body } else { "" });
        if error["code"] == "invalid_encrypted_content" || refuses_encrypted(text) {
            return Some(Self::ReasoningEntries);
        }
        error["param"]
            .as_str()
            .and_then(Self::of_param)
            .or_else(|| Self::of_locations(&error["detail"]))
            .or_else(|| Self::of_text(text))
    }

    fn of_param(param: &str) -> Option<Self> {
        // `include[0]` is `include`.
        let param = param.split('[').next().unwrap_or(param);
        Some(match param {
            "include" | "reasoning.encrypted_content" => Self::Include,
            "prompt_cache_key" => Self::PromptCacheKey,
            "reasoning.effort" | "reasoning_effort" => Self::ReasoningEffort,
            "reasoning" | "reasoning.summary" => Self::Reasoning,
            "parallel_tool_calls" => Self::ParallelToolCalls,
            "text.verbosity" | "verbosity" => Self::TextVerbosity,
            "service_tier" => Self::ServiceTier,
            "store" => Self::Store,
            _ => return None,
        })
    }

    /// Validators list where they found something: `{"loc":["body","reasoning","effort"]}`.
    fn of_locations(detail: &Value) -> Option<Self> {
        detail.as_array()?.iter().find_map(|found| {
            let steps = found["loc"].as_array()?.iter().filter_map(Value::as_str);
            let path: Vec<&str> = steps.skip_while(|step| *step == "body").collect();
            Self::of_param(&path.join(".")).or_else(|| Self::of_param(path.first()?))
        })
    }

    fn of_text(text: &str) -> Option<Self> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
        let mut before = "";
        let mut at = 0;
        for word in text.split(|c: char| !is_part(c)) {
            let start = at;
            at += word.len();
            let quoted = text[..start].ends_with(['\'', '"', '`'])
                && text[at..].starts_with(['\'', '"', '`', '[']);
            at += text[at..].chars().next().map_or(0, char::len_utf8);
            let bare = word.trim_matches('.');
            if bare.is_empty() {
                continue;
            }
            let announced = ["parameter", "field", "argument", "property", "key"]
                .contains(&before.to_ascii_lowercase().as_str());
            let distinct = bare.contains(['_', '.']);
            if (quoted || announced || distinct)
                && let Some(omission) = Self::of_param(bare)
            {
                return Some(omission);
            }
            before = bare;
        }
        None
    }
}

fn refuses_encrypted(text: &str) -> bool {
    let lower = text.to_lowercase();
    let names = lower.contains("encrypted content") || lower.contains("encrypted_content");
    let refuses = [
        "invalid encrypted",
        "could not be verified",
        "could not be decrypted",
    ]
    .iter()
    .any(|word| lower.contains(word))
        || lower.contains("content is invalid")
        || lower.contains("content is not valid");
    names && refuses
}

/// Whether a refusal taught something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learning {
    /// It did: warn, and try once more without.
    New,
    /// It was left out already, or cannot be remembered: trying again cannot help.
    Known,
}

/// What providers have refused, for the life of the process.
#[derive(Debug, Default)]
pub struct Learned {
    pairs: Mutex<HashMap<Pair, BTreeSet<Omission>>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Pair {
    provider: String,
    model: String,
}

impl Pair {
    fn new(provider: &str, model: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
        }
    }
}

impl Learned {
    /// Remembers a refusal; the second time it is [`Learning::Known`].
    pub fn learn(&self, provider: &str, model: &str, omission: Omission) -> Learning {
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = Pair::new(provider, model);
        if pairs.len() >= PAIRS_MAX && !pairs.contains_key(&pair) {
            return Learning::Known;
        }
        if pairs.entry(pair).or_default().insert(omission) {
            Learning::New
        } else {
            Learning::Known
        }
    }

    /// What to leave out of a request.
    pub fn omissions(&self, provider: &str, model: &str) -> BTreeSet<Omission> {
        let pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = Pair::new(provider, model);
        pairs.get(&pair).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refusal_names_its_field() {
        use Omission as O;
        let error = |message: &str| json!({"error": {"message": message}});
        for (body, expected) in [
            (
                json!({"error": {"param": "include[0]", "message": "no"}}),
                Some(O::Include),
            ),
            (
                json!({"error": {"param": "reasoning.effort"}}),
                Some(O::ReasoningEffort),
            ),
            (
                json!({"detail": [{"loc": ["body", "store"], "msg": "extra"}]}),
                Some(O::Store),
            ),
            (
                json!({"detail": [{"loc": ["body", "text", "verbosity"]}]}),
                Some(O::TextVerbosity),
            ),
            (
                error("Unknown parameter: 'prompt_cache_key'."),
                Some(O::PromptCacheKey),
            ),
            (error("unknown field \"include\""), Some(O::Include)),
            (error("Unsupported parameter: store"), Some(O::Store)),
            (
                error("parallel_tool_calls is not supported"),
                Some(O::ParallelToolCalls),
            ),
            (error("`reasoning` is not supported"), Some(O::Reasoning)),
            (error("service_tier must be auto"), Some(O::ServiceTier)),
            (
                error("cannot give 'reasoning.encrypted_content'"),
                Some(O::Include),
            ),
            (json!({"error": "unknown field `store`"}), Some(O::Store)),
            (
                json!({"error": {"code": "invalid_encrypted_content"}}),
                Some(O::ReasoningEntries),
            ),
            (
                error("The encrypted content gAAA could not be verified."),
                Some(O::ReasoningEntries),
            ),
            (
                error("Your request must include a reasoning model; see the store."),
                None,
            ),
            (error("é 'temperature' é"), None),
            (json!({"error": {"param": "model"}}), None),
        ] {
            let text = body.to_string();
            assert_eq!(O::named_by(400, text.as_bytes()), expected, "{text}");
            assert_eq!(O::named_by(422, text.as_bytes()), expected, "{text}");
            assert_eq!(O::named_by(500, text.as_bytes()), None, "{text}");
        }
        assert_eq!(
            O::named_by(400, b"unknown parameter 'store'"),
            Some(O::Store)
        );
        assert_eq!(O::named_by(400, b"\xff\xfe"), None);
    }

    #[test]
    fn a_refusal_is_learned_once_per_provider_and_model() {
        let learned = Learned::default();
        assert_eq!(learned.learn("p", "m", Omission::Store), Learning::New);
        assert_eq!(learned.learn("p", "m", Omission::Store), Learning::Known);
        assert_eq!(learned.learn("p", "n", Omission::Store), Learning::New);
        assert_eq!(learned.learn("p", "m", Omission::Include), Learning::New);
        let both = [Omission::Include, Omission::Store].into();
        assert_eq!(learned.omissions("p", "m"), both);
        assert!(learned.omissions("q", "m").is_empty());
    }
}
