//! `fanout/items/list` and `fanout/items/read`.

use std::sync::Arc;

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::method::fanout::{ITEMS_LIST, ITEMS_READ};
use turnlane_protocol::method::{
    FanoutItemsListAnswer, FanoutItemsListParams, FanoutItemsReadAnswer, FanoutItemsReadParams,
};
use turnlane_runtime::fanout::jobs::{JobError, Jobs};
use turnlane_runtime::store::fanout::FanoutItem;

use super::{refusal, view};
use crate::connection::Connection;
use crate::cursors;

/// The items of a page whose caller says nothing.
const LIMIT: u32 = 100;
/// The most items of a page.
const LIMIT_MAX: u32 = 1_000;

/// `fanout/items/list`: items in input order, without rows and results.
pub(crate) async fn list(
    cx: Arc<Connection>,
    params: FanoutItemsListParams,
) -> Result<FanoutItemsListAnswer, ErrorObject> {
    let jobs = cx.shared().options.runtime.jobs();
    let refused = |error: JobError| refusal(ITEMS_LIST, &error);
    let states = view::stored_item_states(params.states.as_deref());
    let limit = params.limit.unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
    let from = params
        .cursor
        .as_deref()
        .map(cursors::in_items)
        .transpose()?;
    let mut from = from.unwrap_or(0);
    let job = jobs.read(&params.job_id).await.map_err(refused)?;
    let id_column = job.options.id_column.as_deref();
    let mut data = Vec::new();
    loop {
        let page = jobs
            .items(&params.job_id, from, states.clone(), limit)
            .await;
        let page = page.map_err(refused)?;
        for item in &page.items {
            let dup_of = duplicated(&jobs, &params.job_id, item).await;
            let source_id = source_id(&jobs, &params.job_id, item, id_column).await;
            let source_id = source_id.map_err(refused)?;
            data.push(view::item(item, source_id, dup_of.map_err(refused)?));
        }
        match page.next_seq {
            // An empty page would look like the end of the list.
            Some(next) if data.is_empty() => from = next,
            next => {
                return Ok(FanoutItemsListAnswer {
                    data,
                    next_cursor: next.map(cursors::of_items),
                });
            }
        }
    }
}

/// `fanout/items/read`: one item with its row, result and attempts.
pub(crate) async fn read(
    cx: Arc<Connection>,
    params: FanoutItemsReadParams,
) -> Result<FanoutItemsReadAnswer, ErrorObject> {
    let jobs = cx.shared().options.runtime.jobs();
    let refused = |error: JobError| refusal(ITEMS_READ, &error);
    let job = jobs.read(&params.job_id).await.map_err(refused)?;
    let item = jobs.item(&params.job_id, &params.item_id).await;
    let item = item.map_err(refused)?;
    let dup_of = duplicated(&jobs, &params.job_id, &item.detail.item).await;
    let dup_of = dup_of.map_err(refused)?;
    let shown = view::detail(&item, job.options.id_column.as_deref(), dup_of);
    let unreadable = || ErrorObject::internal("the stored row cannot be read");
    Ok(FanoutItemsReadAnswer {
        item: shown.ok_or_else(unreadable)?,
    })
}

/// The cell of the id column as it was in the input; none without such a column.
async fn source_id(
    jobs: &Jobs,
    job: &str,
    item: &FanoutItem,
    id_column: Option<&str>,
) -> Result<Option<String>, JobError> {
    let Some(column) = id_column else {
        return Ok(None);
    };
    let stored = jobs.item(job, &item.item_id).await?;
    Ok(view::source_id(&stored, column))
}

/// The id of the item whose result counts for this one.
async fn duplicated(jobs: &Jobs, job: &str, item: &FanoutItem) -> Result<Option<String>, JobError> {
    let Some(seq) = item.dup_of else {
        return Ok(None);
    };
    let page = jobs.items(job, seq, Vec::new(), 1).await?;
    let original = page.items.into_iter().find(|item| item.seq == seq);
    Ok(original.map(|item| item.item_id))
}
