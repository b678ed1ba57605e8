//! The arguments of `spawn_agents_on_csv`.
//!
//! The invariant here: numbers are whole numbers, `64.0` included; concurrency is brought into its
//! range instead of being refused.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// The most workers at once that a call gets.
const CONCURRENCY_MAX: i64 = 64;

/// A call's arguments.
#[derive(Debug, PartialEq)]
pub(super) struct SpawnArguments {
    pub csv_path: String,
    pub instruction: String,
    pub id_column: Option<String>,
    pub output_csv_path: Option<String>,
    pub concurrency: Option<u32>,
    pub max_runtime: Option<Duration>,
    pub output_schema: Option<Value>,
    pub wait: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Called {
    csv_path: String,
    instruction: String,
    #[serde(default)]
    id_column: Option<String>,
    #[serde(default)]
    output_csv_path: Option<String>,
    #[serde(default)]
    max_concurrency: Option<f64>,
    #[serde(default)]
    max_workers: Option<f64>,
    #[serde(default)]
    max_runtime_seconds: Option<f64>,
    #[serde(default)]
    output_schema: Option<Value>,
    #[serde(default)]
    wait: Option<bool>,
}

impl SpawnArguments {
    /// Reads the arguments, or says why they cannot be used.
    pub(super) fn read(arguments: Value) -> Result<Self, String> {
        let parsed: Result<Called, _> = match arguments {
            Value::String(text) => serde_json::from_str(&text),
            value => serde_json::from_value(value),
        };
        let called =
            parsed.map_err(|error| format!("failed to parse function arguments: {error}"))?;
        if called.instruction.trim().is_empty() {
            return Err("instruction must be non-empty".to_owned());
        }
        let concurrency = match called.max_concurrency.or(called.max_workers) {
            None => None,
            Some(number) => {
                let whole = whole("max_concurrency", number)?;
                u32::try_from(whole.clamp(1, CONCURRENCY_MAX)).ok()
            }
        };
        let max_runtime = match called.max_runtime_seconds {
            None => None,
            Some(number) => {
                let seconds = whole("max_runtime_seconds", number)?;
                let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0);
                let seconds = seconds.ok_or("max_runtime_seconds must be >= 1")?;
                Some(Duration::from_secs(seconds))
            }
        };
        Ok(Self {
            csv_path: called.csv_path,
            instruction: called.instruction,
            id_column: called.id_column,
            output_csv_path: called.output_csv_path,
            concurrency,
            max_runtime,
            output_schema: called.output_schema.filter(|schema| !schema.is_null()),
            wait: called.wait.unwrap_or(true),
        })
    }
}

/// A whole number out of a JSON number.
fn whole(name: &str, number: f64) -> Result<i64, String> {
    // Beyond 2^53 a double is no longer exact; no argument is that large.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() != 0.0 || number.abs() > EXACT_MAX {
        return Err(format!("{name} must be a whole number"));
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is whole and within the exact range"
    )]
    Ok(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(extra: &Value) -> Result<SpawnArguments, String> {
        let mut arguments = json!({"csv_path": "a.csv", "instruction": "Do {a}"});
        let members = arguments.as_object_mut().unwrap();
        members.extend(extra.as_object().unwrap().clone());
        SpawnArguments::read(arguments)
    }

    #[test]
    fn concurrency_is_brought_into_its_range() {
        let concurrency = |extra: Value| read(&extra).unwrap().concurrency;
        assert_eq!(concurrency(json!({})), None);
        assert_eq!(concurrency(json!({"max_concurrency": 0})), Some(1));
        assert_eq!(concurrency(json!({"max_concurrency": -3})), Some(1));
        assert_eq!(concurrency(json!({"max_concurrency": 65})), Some(64));
        assert_eq!(concurrency(json!({"max_concurrency": 64.0})), Some(64));
        assert_eq!(concurrency(json!({"max_workers": 7})), Some(7));
        let both = json!({"max_workers": 7, "max_concurrency": 3});
        assert_eq!(concurrency(both), Some(3));
        let broken = read(&json!({"max_concurrency": 1.5}));
        assert_eq!(
            broken.unwrap_err(),
            "max_concurrency must be a whole number"
        );
    }

    #[test]
    fn a_time_limit_of_zero_is_refused() {
        let limit = |seconds: Value| read(&json!({"max_runtime_seconds": seconds}));
        let minute = Some(Duration::from_mins(1));
        assert_eq!(limit(json!(60)).unwrap().max_runtime, minute);
        let refused = limit(json!(0)).unwrap_err();
        assert_eq!(refused, "max_runtime_seconds must be >= 1");
    }

    #[test]
    fn arguments_that_are_no_arguments_are_named() {
        let refused = SpawnArguments::read(json!({"csv_path": 1})).unwrap_err();
        assert!(
            refused.starts_with("failed to parse function arguments: "),
            "{refused}"
        );
        let blank = json!({"csv_path": "a", "instruction": " "});
        let refused = SpawnArguments::read(blank).unwrap_err();
        assert_eq!(refused, "instruction must be non-empty");
    }
}
