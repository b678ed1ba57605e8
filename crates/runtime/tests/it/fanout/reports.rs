//! Results: the answers of the report tool, one model call per item, repair turns, other channels.

use turnlane_store::fanout::{ItemState, JobState};

use super::support::{Floor, REPORTS};
use crate::support::Home;

#[tokio::test]
async fn with_end_on_report_every_item_costs_one_turn_and_nothing_else() {
    let home = Home::new();
    let floor = Floor::start(&home, REPORTS).await;
    let job = floor.run(100, |spec| spec.limits.concurrency = 64).await;
    let ended = floor.rests(&job, JobState::Succeeded).await;
    assert_eq!(ended.row.counts.succeeded, 100);
    assert_eq!(floor.asked().len(), 100);
    let items = floor.items(&job).await;
    assert!(items.iter().all(|item| item.state == ItemState::Succeeded));
    floor.assert_counts(&job).await;
    floor.stop().await;
}
