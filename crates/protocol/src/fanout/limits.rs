//! The limits of a job.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The limits of a job; a limit that is absent has its default.
///
/// Which numbers are allowed is decided by the runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct JobLimits {
    /// The number of items that run at once, over all workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u64>,
    /// Starts of items per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_rate: Option<f64>,
    /// Further attempts of an item after its first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
    /// The longest run of one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The longest time without an event of the engine and without a running command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// The longest run of the job, from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The number of failed items that pauses the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<MaxFailures>,
    /// The tokens that all attempts together may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The cost of all attempts together, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// The number of attempts of the whole job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u64>,
    /// The time between a stop and the interrupt of what still runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// The number of failed items that pauses a job: `5`, or `20%` of those that have finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxFailures {
    /// More failed items than this.
    Count(u64),
    /// More failed items than this part of the finished ones.
    Percent(u8),
}

/// A text that is neither a number nor a percentage up to `100%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number or a percentage from 0% to 100%")]
pub struct InvalidMaxFailures;

impl FromStr for MaxFailures {
    type Err = InvalidMaxFailures;

    fn from_str(text: &str) -> Result<Self, InvalidMaxFailures> {
        match text.strip_suffix('%') {
            Some(percent) => match percent.parse::<u8>() {
                Ok(percent) if percent <= 100 => Ok(Self::Percent(percent)),
                _ => Err(InvalidMaxFailures),
            },
            None => text
                .parse()
                .map(Self::Count)
                .map_err(|_| InvalidMaxFailures),
        }
    }
}

impl fmt::Display for MaxFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl Serialize for MaxFailures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for MaxFailures {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrText;

        impl Visitor<'_> for NumberOrText {
            type Value = MaxFailures;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a percentage from 0% to 100%")
            }

            fn visit_u64<E: Error>(self, count: u64) -> Result<MaxFailures, E> {
                Ok(MaxFailures::Count(count))
            }

            fn visit_i64<E: Error>(self, count: i64) -> Result<MaxFailures, E> {
                u64::try_from(count)
                    .map(MaxFailures::Count)
                    .map_err(|_| E::custom("maxFailures is negative"))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<MaxFailures, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(NumberOrText)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for MaxFailures {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "MaxFailures".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": "^[0-9]+%?$"},
        ]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_and_a_percentage_are_read_and_anything_else_is_refused() {
        assert_eq!("5".parse(), Ok(MaxFailures::Count(5)));
        assert_eq!("20%".parse(), Ok(MaxFailures::Percent(20)));
        for wrong in ["", "%", "101%", "-1", "1.5", "many", "20 %"] {
            assert_eq!(wrong.parse::<MaxFailures>(), Err(InvalidMaxFailures));
        }
        let read = |json: &str| serde_json::from_str::<MaxFailures>(json);
        assert_eq!(read("5").unwrap(), MaxFailures::Count(5));
        assert_eq!(read("\"5\"").unwrap(), MaxFailures::Count(5));
        assert!(read("-5").is_err());
        assert!(read("\"101%\"").is_err());
    }
}
