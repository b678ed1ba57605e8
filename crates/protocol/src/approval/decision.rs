//! A decision about an approval, read to the letter.
//!
//! The invariant here: only the exact words are decisions. serde's own reading of enums also takes
//! `{"accept": null}` for `"accept"`, and an array for the members of a variant; a text that was not
//! meant as a decision must not become a yes, so this type reads itself.

use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// What somebody decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// Yes, once.
    Accept,
    /// Yes, and the same again while the thread is loaded.
    AcceptForSession,
    /// Yes, and every command that begins like this.
    AcceptWithExecpolicyAmendment {
        /// The beginning of the command, word by word.
        execpolicy_amendment: Vec<String>,
    },
    /// No; the model is told and the turn goes on.
    Decline,
    /// No; the turn is stopped.
    Cancel,
}

/// All words, in the order error texts list them.
const WORDS: &[&str] = &["accept", "acceptForSession", AMENDMENT, "decline", "cancel"];
const AMENDMENT: &str = "acceptWithExecpolicyAmendment";
const AMENDMENT_MEMBER: &str = "execpolicy_amendment";

impl Decision {
    /// Whether the thing may be done.
    pub fn is_accept(&self) -> bool {
        match self {
            Self::Accept | Self::AcceptForSession | Self::AcceptWithExecpolicyAmendment { .. } => {
                true
            }
            Self::Decline | Self::Cancel => false,
        }
    }
}

impl<'de> Deserialize<'de> for Decision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DecisionVisitor)
    }
}

struct DecisionVisitor;

impl<'de> Visitor<'de> for DecisionVisitor {
    type Value = Decision;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a decision")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Decision, E> {
        match word {
            "accept" => Ok(Decision::Accept),
            "acceptForSession" => Ok(Decision::AcceptForSession),
            "decline" => Ok(Decision::Decline),
            "cancel" => Ok(Decision::Cancel),
            _ => Err(E::unknown_variant(word, WORDS)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Decision, A::Error> {
        match map.next_key::<String>()?.as_deref() {
            Some(AMENDMENT) => {}
            Some(word) => return Err(A::Error::unknown_variant(word, &[AMENDMENT])),
            None => return Err(A::Error::custom("an empty object is no decision")),
        }
        let Amendment(execpolicy_amendment) = map.next_value()?;
        if map.next_key::<String>()?.is_some() {
            return Err(A::Error::custom("two decisions are none"));
        }
        Ok(Decision::AcceptWithExecpolicyAmendment {
            execpolicy_amendment,
        })
    }
}

/// An object with the one member [`AMENDMENT_MEMBER`].
struct Amendment(Vec<String>);

impl<'de> Deserialize<'de> for Amendment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AmendmentVisitor)
    }
}

struct AmendmentVisitor;

impl<'de> Visitor<'de> for AmendmentVisitor {
    type Value = Amendment;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with `{AMENDMENT_MEMBER}`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Amendment, A::Error> {
        match map.next_key::<String>()?.as_deref() {
            Some(AMENDMENT_MEMBER) => {}
            Some(_) => return Err(A::Error::custom("an amendment has one member")),
            None => return Err(A::Error::missing_field(AMENDMENT_MEMBER)),
        }
        let words = map.next_value()?;
        if map.next_key::<String>()?.is_some() {
            return Err(A::Error::custom("an amendment has one member"));
        }
        Ok(Amendment(words))
    }
}
