//! Markers before deltas of items whose beginning was not seen.

use serde_json::json;

use super::{delta, event};
use crate::event::Event;
use crate::feed::Announced;

fn item(method: &str, id: &str) -> Event {
    let item = json!({"type": "agentMessage", "id": id, "text": "t"});
    event(
        method,
        &json!({"threadId": "t", "turnId": "u", "item": item}),
    )
}

#[test]
fn the_first_delta_of_an_item_that_was_not_announced_gets_one_marker() {
    let mut announced = Announced::default();
    let delta = delta("t", "u", "x").body;
    assert!(announced.gap_before(&delta));
    assert!(!announced.gap_before(&delta));
    assert!(!announced.gap_before(&item("item/completed", "i").body));
    assert!(
        announced.gap_before(&delta),
        "the same id again is another item"
    );
}

#[test]
fn an_announced_item_gets_none() {
    let mut announced = Announced::default();
    assert!(!announced.gap_before(&item("item/started", "i").body));
    assert!(!announced.gap_before(&delta("t", "u", "x").body));
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut announced = Announced::default();
    for id in 0..10_000 {
        assert!(!announced.gap_before(&item("item/started", &id.to_string()).body));
    }
    assert!(announced.remembered() <= 4_096);
    assert!(!announced.gap_before(&item("item/started", "i").body));
    assert!(!announced.gap_before(&delta("t", "u", "x").body));
}
