//! A line of `codex exec --json`, read leniently.
//!
//! The invariant: a line that is a JSON object is read, whatever its members are. Codex repeats keys
//! (`id` in `web_search`) and later versions add members and types, so no derived type is used: a
//! repeated key, an unknown member or a member of another type does not make a line unreadable. Only an
//! `item` that is no object does.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Members of an event that any type of event has.
#[derive(Debug, Default)]
pub(super) struct EventLine {
    pub(super) kind: Option<String>,
    pub(super) thread_id: Option<String>,
    pub(super) item: Option<ItemFields>,
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
    pub(super) message: Option<String>,
}

/// Members of an item that any type of item has.
#[derive(Debug, Default)]
pub(super) struct ItemFields {
    /// The value that begins with `item_`, if `id` stands there more than once.
    pub(super) id: Option<String>,
    pub(super) kind: Option<String>,
    /// Members with a text.
    pub(super) text: Option<String>,
    pub(super) message: Option<String>,
    pub(super) command: Option<String>,
    pub(super) aggregated_output: Option<String>,
    pub(super) status: Option<String>,
    pub(super) server: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) query: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) sender_thread_id: Option<String>,
    /// Members with a structure, by name.
    pub(super) values: Map<String, Value>,
}

/// The members of [`ItemFields::values`]; all others are skipped without being built.
const VALUES: [&str; 9] = [
    "action",
    "agents_states",
    "arguments",
    "changes",
    "error",
    "exit_code",
    "items",
    "receiver_thread_ids",
    "result",
];

/// Reads a line; none if it is not a JSON object.
pub(super) fn read(line: &[u8]) -> Option<EventLine> {
    serde_json::from_slice(line).ok()
}

struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;

        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }

        deserializer.deserialize_str(KeyVisitor)
    }
}

/// A text, or none where another type stands.
struct Text(Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(Some(text.to_owned())))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Text, E> {
                Ok(Text(Some(text)))
            }

            fn visit_unit<E: Error>(self) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }
        }

        deserializer.deserialize_any(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for EventLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LineVisitor;

        impl<'de> Visitor<'de> for LineVisitor {
            type Value = EventLine;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EventLine, A::Error> {
                let mut line = EventLine::default();
                while let Some(Key(key)) = map.next_key()? {
                    match key.as_ref() {
                        "type" => line.kind = map.next_value::<Text>()?.0,
                        "thread_id" => line.thread_id = map.next_value::<Text>()?.0,
                        "message" => line.message = map.next_value::<Text>()?.0,
                        "item" => line.item = map.next_value::<LenientItem>()?.0,
                        "usage" => line.usage = Some(map.next_value()?),
                        "error" => line.error = Some(map.next_value()?),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(line)
            }
        }

        deserializer.deserialize_map(LineVisitor)
    }
}

/// An item, or none where something other than an object stands.
struct LenientItem(Option<ItemFields>);

impl<'de> Deserialize<'de> for LenientItem {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;

        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = LenientItem;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an item")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LenientItem, A::Error> {
                let mut item = ItemFields::default();
                while let Some(Key(key)) = map.next_key()? {
                    item.read_member(&key, &mut map)?;
                }
                Ok(LenientItem(Some(item)))
            }

            fn visit_unit<E: Error>(self) -> Result<LenientItem, E> {
                Ok(LenientItem(None))
            }
        }

        deserializer.deserialize_any(ItemVisitor)
    }
}

impl ItemFields {
    fn read_member<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let text = match key {
            "id" => {
                let id = map.next_value::<Text>()?.0;
                let is_ours =
                    |id: &Option<String>| id.as_deref().is_some_and(|id| id.starts_with("item_"));
                if is_ours(&id) || !is_ours(&self.id) {
                    self.id = id;
                }
                return Ok(());
            }
            "type" => &mut self.kind,
            "text" => &mut self.text,
            "message" => &mut self.message,
            "command" => &mut self.command,
            "aggregated_output" => &mut self.aggregated_output,
            "status" => &mut self.status,
            "server" => &mut self.server,
            "tool" => &mut self.tool,
            "query" => &mut self.query,
            "prompt" => &mut self.prompt,
            "sender_thread_id" => &mut self.sender_thread_id,
            _ => {
                if VALUES.contains(&key) {
                    let value = map.next_value()?;
                    self.values.insert(key.to_owned(), value);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
                return Ok(());
            }
        };
        *text = map.next_value::<Text>()?.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_id_is_the_one_of_the_item() {
        for line in [
            r#"{"type":"x","item":{"id":"item_0","type":"web_search","id":"ws_1","query":"q"}}"#,
            r#"{"type":"x","item":{"id":"ws_1","id":"item_0","query":"q","type":"web_search"}}"#,
        ] {
            let item = read(line.as_bytes()).unwrap().item.unwrap();
            assert_eq!(item.id.as_deref(), Some("item_0"));
            assert_eq!(item.query.as_deref(), Some("q"));
            assert_eq!(item.kind.as_deref(), Some("web_search"));
        }
    }

    #[test]
    fn members_of_other_types_and_unknown_members_do_no_harm() {
        let line = br#"{"new":[1,{"a":2}],"type":"item.completed","message":{"x":1},"thread_id":7,
            "item":{"text":["no"],"status":true,"command":null,"later":{"deep":[]},"type":"x",
            "prompt":-1,"tool":1.5}}"#;
        let event = read(line).unwrap();
        assert_eq!(event.kind.as_deref(), Some("item.completed"));
        assert_eq!((event.message, event.thread_id), (None, None));
        let item = event.item.unwrap();
        assert_eq!((item.text, item.status, item.command), (None, None, None));
        assert!(item.values.is_empty());
        assert!(read(br#"{"type":"x","item":null}"#).unwrap().item.is_none());
    }

    #[test]
    fn what_is_not_an_object_is_not_read() {
        for line in [
            &b""[..],
            b"[]",
            b"7",
            b"null",
            b"{",
            b"{\"type\":\"\xff\"}",
            b"hello",
        ] {
            assert!(read(line).is_none(), "{line:?}");
        }
    }
}
