//! Items, as servers write them.
//!
//! The invariant here: every object is an item. One that [`Item`] cannot read (an id that is no
//! text, times that are no numbers, no type) is kept as [`ItemBody::Other`] with all its members, so
//! that an odd item never costs the event it came in.

use serde::Deserialize;
use serde_json::{Map, Value};
use turnlane_protocol::ids::ItemId;

use super::{Item, ItemBody};

/// An item of a notification or an answer; none when it is no object.
pub(crate) fn item_from_json(value: &Value) -> Option<Item> {
    let members = value.as_object()?;
    Some(Item::deserialize(value).unwrap_or_else(|_| odd(members.clone())))
}

fn odd(mut members: Map<String, Value>) -> Item {
    let id = match members.get("id") {
        Some(Value::String(id)) => ItemId::from(id.as_str()),
        Some(Value::Null) | None => ItemId::from(""),
        Some(other) => ItemId::from(other.to_string()),
    };
    if members.get("id").is_some_and(Value::is_string) {
        members.remove("id");
    }
    let mut time = |name| {
        let at = members.get(name).and_then(Value::as_i64)?;
        members.remove(name);
        Some(at)
    };
    Item {
        id,
        started_at_ms: time("startedAtMs"),
        completed_at_ms: time("completedAtMs"),
        body: ItemBody::Other(members),
    }
}
