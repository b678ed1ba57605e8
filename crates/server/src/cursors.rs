//! Cursors: places in lists, opaque to those who send them back.
//!
//! The invariant here: a cursor says which list, order and direction it belongs to, and is refused
//! everywhere else. It names a place by value and id, never by a count, so what comes or goes between
//! two pages hides nothing and repeats nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::method::{SortDirection, ThreadSortKey};
use turnlane_runtime::store::fanout::JobPlace;
use turnlane_runtime::store::queue::QueueFrom;
use turnlane_runtime::store::thread::{Direction, ThreadPlace};

/// How many a page has when nobody says.
const LIMIT: u32 = 25;
/// How many it has at most.
const LIMIT_MAX: u32 = 100;

/// How many a page has.
pub(crate) fn limit(asked: Option<u32>) -> u32 {
    asked.unwrap_or(LIMIT).clamp(1, LIMIT_MAX)
}

/// A cursor of `thread/queue/list`: behind the row at this position.
pub(crate) fn of_queue(position: i64) -> String {
    format!("p{position}")
}

/// Where a page of a queue begins; a plain number is an offset, as Codex has it.
pub(crate) fn read_queue(cursor: &str) -> Result<QueueFrom, ErrorObject> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let from = match cursor.strip_prefix('p') {
        Some(position) => position.parse().ok().map(QueueFrom::After),
        // Beyond the end is the end, however far.
        None if !cursor.is_empty() && digits(cursor) => {
            Some(QueueFrom::Offset(cursor.parse().unwrap_or(u32::MAX)))
        }
        None => None,
    };
    from.ok_or_else(|| ErrorObject::invalid_cursor(cursor))
}

/// A cursor of `fanout/items/list`: from the item with this number on.
pub(crate) fn of_items(seq: i64) -> String {
    format!("i{seq}")
}

/// Reads a cursor of `fanout/items/list`.
pub(crate) fn in_items(cursor: &str) -> Result<i64, ErrorObject> {
    let seq = cursor.strip_prefix('i').and_then(|seq| seq.parse().ok());
    let seq = seq.filter(|seq| *seq >= 0);
    seq.ok_or_else(|| ErrorObject::invalid_cursor(cursor))
}

/// A cursor of `fanout/list`: behind this job.
pub(crate) fn of_jobs(place: &JobPlace) -> String {
    written(&["j", &place.created_ms.to_string(), &place.id])
}

/// Reads a cursor of `fanout/list`.
pub(crate) fn in_jobs(cursor: &str) -> Result<JobPlace, ErrorObject> {
    let read = || {
        let [kind, created_ms, id] = <[String; 3]>::try_from(parts(cursor)?).ok()?;
        let created_ms = created_ms.parse().ok()?;
        (kind == "j").then_some(JobPlace { created_ms, id })
    };
    read().ok_or_else(|| ErrorObject::invalid_cursor(cursor))
}

/// Whether a page begins at its place or behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    At,
    After,
}

impl From {
    fn word(self) -> &'static str {
        match self {
            Self::At => "at",
            Self::After => "after",
        }
    }

    fn read(word: &str) -> Option<Self> {
        [Self::At, Self::After]
            .into_iter()
            .find(|from| from.word() == word)
    }
}

fn direction_word(direction: Direction) -> &'static str {
    match direction {
        Direction::Ascending => "asc",
        Direction::Descending => "desc",
    }
}

/// The other way.
pub(crate) fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Ascending => Direction::Descending,
        Direction::Descending => Direction::Ascending,
    }
}

/// The direction that was asked for, or the list's own.
pub(crate) fn direction(asked: Option<SortDirection>, own: Direction) -> Direction {
    match asked {
        Some(SortDirection::Asc) => Direction::Ascending,
        Some(SortDirection::Desc) => Direction::Descending,
        None => own,
    }
}

fn key_word(key: ThreadSortKey) -> &'static str {
    match key {
        // Without sections, their order is that of creation.
        ThreadSortKey::CreatedAt | ThreadSortKey::SectionPosition => "created",
        ThreadSortKey::UpdatedAt => "updated",
        ThreadSortKey::RecencyAt => "recency",
    }
}

/// A cursor of `thread/list`.
pub(crate) fn of_threads(
    key: ThreadSortKey,
    direction: Direction,
    from: From,
    place: ThreadPlace,
) -> String {
    written(&[
        "t",
        key_word(key),
        direction_word(direction),
        from.word(),
        &place.key_ms.to_string(),
        &place.thread.to_string(),
    ])
}

/// Reads a cursor of `thread/list` with this order.
pub(crate) fn in_threads(
    cursor: &str,
    key: ThreadSortKey,
    direction: Direction,
) -> Result<(From, ThreadPlace), ErrorObject> {
    let read = || {
        let parts = parts(cursor)?;
        let [kind, sort, way, from, key_ms, thread] = <[String; 6]>::try_from(parts).ok()?;
        let fits = kind == "t" && sort == key_word(key) && way == direction_word(direction);
        let place = ThreadPlace {
            key_ms: key_ms.parse().ok()?,
            thread: uuid::Uuid::parse_str(&thread).ok()?.into(),
        };
        fits.then_some((From::read(&from)?, place))
    };
    read().ok_or_else(|| ErrorObject::invalid_cursor(cursor))
}

/// Which list of numbered things a cursor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbered {
    Turns,
    Items,
}

impl Numbered {
    fn word(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Items => "items",
        }
    }
}

/// A cursor of a list of turns or items.
pub(crate) fn of_numbered(list: Numbered, direction: Direction, from: From, ord: i64) -> String {
    written(&[
        list.word(),
        direction_word(direction),
        from.word(),
        &ord.to_string(),
    ])
}

/// Reads a cursor of a list of turns or items: the number to go on behind.
pub(crate) fn in_numbered(
    cursor: &str,
    list: Numbered,
    direction: Direction,
) -> Result<i64, ErrorObject> {
    let read = || {
        let [kind, way, from, ord] = <[String; 4]>::try_from(parts(cursor)?).ok()?;
        let fits = kind == list.word() && way == direction_word(direction);
        let ord = ord.parse().ok()?;
        fits.then_some(match From::read(&from)? {
            From::After => ord,
            From::At => before(ord, direction),
        })
    };
    read().ok_or_else(|| ErrorObject::invalid_cursor(cursor))
}

/// The number behind which a page begins that has `ord` first.
pub(crate) fn before(ord: i64, direction: Direction) -> i64 {
    match direction {
        Direction::Ascending => ord.saturating_sub(1),
        Direction::Descending => ord.saturating_add(1),
    }
}

fn written(parts: &[&str]) -> String {
    URL_SAFE_NO_PAD.encode(parts.join(" "))
}

fn parts(cursor: &str) -> Option<Vec<String>> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(text.split(' ').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> ThreadPlace {
        ThreadPlace {
            key_ms: 1_767_225_600_123,
            thread: uuid::Uuid::from_u128(7).into(),
        }
    }

    #[test]
    fn a_cursor_is_read_where_it_belongs_and_refused_elsewhere() {
        let (key, down) = (ThreadSortKey::UpdatedAt, Direction::Descending);
        let cursor = of_threads(key, down, From::After, place());
        assert_eq!(in_threads(&cursor, key, down), Ok((From::After, place())));
        assert!(in_threads(&cursor, key, Direction::Ascending).is_err());
        assert!(in_threads(&cursor, ThreadSortKey::CreatedAt, down).is_err());
        assert!(in_numbered(&cursor, Numbered::Turns, down).is_err());
        let turns = of_numbered(Numbered::Turns, down, From::At, 4);
        assert_eq!(in_numbered(&turns, Numbered::Turns, down), Ok(5));
        assert!(in_numbered(&turns, Numbered::Items, down).is_err());
    }

    #[test]
    fn a_text_that_is_no_cursor_is_named() {
        for text in ["", "nope", "é", "dA"] {
            let error = in_threads(text, ThreadSortKey::CreatedAt, Direction::Ascending);
            let error = error.unwrap_err();
            assert_eq!(error.message, format!("invalid cursor: {text}"));
            assert_eq!(
                error.reason(),
                Some(turnlane_protocol::error::Reason::InvalidCursor)
            );
        }
    }

    #[test]
    fn a_page_has_one_to_a_hundred() {
        let limits = [None, Some(0), Some(1), Some(100), Some(u32::MAX)].map(limit);
        assert_eq!(limits, [25, 1, 1, 100, 100]);
    }
}
