//! A line of `codex exec --json`, read leniently.
//!
//! The invariant: a line that is a JSON object is read, whatever its members are. Codex repeats keys
//! (`id` in `web_search`) and later versions add members and types, so no derived type is used: a
//! repeated key, an unknown member or a member of another type does not make a line unreadable. Only an
//! `item` that is no object does.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Members of an event that any type of event has. Texts without escapes are borrowed from the line.
#[derive(Debug, Default)]
pub(super) struct EventLine<'a> {
    pub(super) kind: Option<Cow<'a, str>>,
    pub(super) thread_id: Option<Cow<'a, str>>,
    pub(super) item: Option<ItemFields<'a>>,
    pub(super) usage: Option<Value>,
    pub(super) error: Option<Value>,
    pub(super) message: Option<Cow<'a, str>>,
}

/// Members of an item that any type of item has; all others are skipped without being built.
#[derive(Debug, Default)]
pub(super) struct ItemFields<'a> {
    /// The value that begins with `item_`, if `id` stands there more than once.
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) kind: Option<Cow<'a, str>>,
    pub(super) text: Option<Cow<'a, str>>,
    pub(super) message: Option<Cow<'a, str>>,
    pub(super) command: Option<Cow<'a, str>>,
    pub(super) aggregated_output: Option<Cow<'a, str>>,
    pub(super) status: Option<Cow<'a, str>>,
    pub(super) server: Option<Cow<'a, str>>,
    pub(super) tool: Option<Cow<'a, str>>,
    pub(super) query: Option<Cow<'a, str>>,
    pub(super) prompt: Option<Cow<'a, str>>,
    pub(super) sender_thread_id: Option<Cow<'a, str>>,
    pub(super) action: Option<Value>,
    pub(super) agents_states: Option<Value>,
    pub(super) arguments: Option<Value>,
    pub(super) changes: Option<Value>,
    pub(super) error: Option<Value>,
    pub(super) exit_code: Option<Value>,
    pub(super) items: Option<Value>,
    pub(super) receiver_thread_ids: Option<Value>,
    pub(super) result: Option<Value>,
}

/// Reads a line; none if it is not a JSON object.
pub(super) fn read(line: &[u8]) -> Option<EventLine<'_>> {
    match std::str::from_utf8(line) {
        // One check of the whole line costs less than one for each text in it.
        Ok(line) => serde_json::from_str(line).ok(),
        // The texts that are used may still be valid.
        Err(_) => serde_json::from_slice(line).ok(),
    }
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
struct Text<'a>(Option<Cow<'a, str>>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }

            fn visit_unit<E: Error>(self) -> Result<Text<'de>, E> {
                Ok(Text(None))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Text<'de>, E> {
                Ok(Text(None))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Text<'de>, E> {
                Ok(Text(None))
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Text<'de>, E> {
                Ok(Text(None))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Text<'de>, E> {
                Ok(Text(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Text<'de>, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }
        }

        deserializer.deserialize_any(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for EventLine<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LineVisitor;

        impl<'de> Visitor<'de> for LineVisitor {
            type Value = EventLine<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EventLine<'de>, A::Error> {
                let mut line = EventLine::default();
                while let Some(Key(key)) = map.next_key()? {
                    match key.as_ref() {
                        "type" => line.kind = map.next_value::<Text<'_>>()?.0,
                        "thread_id" => line.thread_id = map.next_value::<Text<'_>>()?.0,
                        "message" => line.message = map.next_value::<Text<'_>>()?.0,
                        "item" => line.item = map.next_value::<LenientItem<'_>>()?.0,
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
struct LenientItem<'a>(Option<ItemFields<'a>>);

impl<'de> Deserialize<'de> for LenientItem<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemVisitor;

        impl<'de> Visitor<'de> for ItemVisitor {
            type Value = LenientItem<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an item")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<LenientItem<'de>, A::Error> {
                let mut item = ItemFields::default();
                while let Some(Key(key)) = map.next_key()? {
                    item.read_member(&key, &mut map)?;
                }
                Ok(LenientItem(Some(item)))
            }

            fn visit_unit<E: Error>(self) -> Result<LenientItem<'de>, E> {
                Ok(LenientItem(None))
            }
        }

        deserializer.deserialize_any(ItemVisitor)
    }
}

impl<'de> ItemFields<'de> {
    fn read_member<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let text = match key {
            "id" => return self.read_id(map),
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
            _ => return self.read_structure(key, map),
        };
        *text = map.next_value::<Text<'_>>()?.0;
        Ok(())
    }

    fn read_id<A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        let id = map.next_value::<Text<'_>>()?.0;
        let is_of_item =
            |id: &Option<Cow<'_, str>>| id.as_deref().is_some_and(|id| id.starts_with("item_"));
        if is_of_item(&id) || !is_of_item(&self.id) {
            self.id = id;
        }
        Ok(())
    }

    fn read_structure<A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let value = match key {
            "action" => &mut self.action,
            "agents_states" => &mut self.agents_states,
            "arguments" => &mut self.arguments,
            "changes" => &mut self.changes,
            "error" => &mut self.error,
            "exit_code" => &mut self.exit_code,
            "items" => &mut self.items,
            "receiver_thread_ids" => &mut self.receiver_thread_ids,
            "result" => &mut self.result,
            _ => {
                map.next_value::<IgnoredAny>()?;
                return Ok(());
            }
        };
        *value = Some(map.next_value()?);
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
        assert!(item.changes.is_none() && item.result.is_none());
        assert!(read(br#"{"type":"x","item":null}"#).unwrap().item.is_none());
    }

    #[test]
    fn bytes_that_are_no_text_matter_only_in_members_that_are_used() {
        let line = b"{\"later\":\"\xff\",\"type\":\"x\"}";
        assert_eq!(read(line).unwrap().kind.as_deref(), Some("x"));
        assert!(read(b"{\"message\":\"\xff\",\"type\":\"x\"}").is_none());
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
