//! Reading JSON into our types without serde's generosity.
//!
//! serde reads a struct from an array as well as from an object, by position. On the wire that makes
//! `["accept"]` a decision. The invariant here: what is read as a struct was written as an object, at
//! every depth that serde reads directly. [`read_params`] also applies the bounds of `bounds.rs`.
//!
//! Both are done by wrapping the deserializer of `serde_json`, so the content is read once and no type has
//! to take part. One thing passes by: members of a struct that is flattened, or of an enum that is
//! tagged inside, are buffered by serde before they are read. Their texts are bounded, their nested
//! structs are not checked. No type that decides something nests structs there.

mod guard;
mod key;

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};

use crate::bounds::{Bound, ROOT};
use guard::{Guard, Scope};

/// Reads params or an answer; structs are objects.
pub fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, serde_json::Error> {
    read_within(json, Bound::Free)
}

/// Reads params of a method; structs are objects, and texts and lists are bounded.
pub fn read_params<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, serde_json::Error> {
    read_within(json, ROOT)
}

/// Reads an answer that decides something: besides, no object in it has a member twice.
pub fn read_decision<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice::<OnceEach>(json)?;
    read(json)
}

fn read_within<'a, T: Deserialize<'a>>(
    json: &'a [u8],
    bound: Bound,
) -> Result<T, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    let scope = Scope {
        bound,
        name: "params",
    };
    let value = T::deserialize(Guard::new(&mut deserializer, scope))?;
    deserializer.end()?;
    Ok(value)
}

/// Any JSON in whose objects every member stands once.
struct OnceEach;

impl<'de> Deserialize<'de> for OnceEach {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> DeserializeSeed<'de> for OnceEach {
    type Value = Self;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OnceEach {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element_seed(Self)?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if !names.insert(name) {
                // Not quoted: the name is the client's.
                return Err(A::Error::custom("a member is given twice"));
            }
            map.next_value_seed(Self)?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests;
