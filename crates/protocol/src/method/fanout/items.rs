//! Params and answers of `fanout/items/*`, `fanout/preview` and `fanout/export`.

use serde::{Deserialize, Serialize};

use crate::fanout::{ExportFormat, JobItem, JobItemDetail, JobItemState, RawJson};
use crate::method::thread_resume::is_false;

/// Params of [`ITEMS_ADD`](super::ITEMS_ADD).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutItemsAddParams {
    /// The job.
    pub job_id: String,
    /// The number of the first row.
    pub seq: u64,
    /// The rows, objects.
    pub rows: Vec<RawJson>,
}

/// The answer to [`ITEMS_ADD`](super::ITEMS_ADD).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutItemsAddAnswer {
    /// The number of the row that is wanted next.
    pub next_seq: u64,
}

/// Params of [`PREVIEW`](super::PREVIEW).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutPreviewParams {
    /// The job.
    pub job_id: String,
    /// The number of prompts, at most 20; 3 unless it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// The answer to [`PREVIEW`](super::PREVIEW).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutPreviewAnswer {
    /// The number of items.
    pub total: u64,
    /// The prompts of the first items.
    pub prompts: Vec<FanoutPrompt>,
    /// The tokens of all prompts together, estimated by their characters.
    pub estimated_tokens: u64,
}

/// The prompt of an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutPrompt {
    /// The item.
    pub item_id: String,
    /// The text that its worker is sent.
    pub text: String,
}

/// Params of [`ITEMS_LIST`](super::ITEMS_LIST).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutItemsListParams {
    /// The job.
    pub job_id: String,
    /// Where the page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// The most items, from 1 to 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Only items in one of these states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<Vec<JobItemState>>,
}

/// The answer to [`ITEMS_LIST`](super::ITEMS_LIST).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutItemsListAnswer {
    /// The items.
    pub data: Vec<JobItem>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// Params of [`ITEMS_READ`](super::ITEMS_READ).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FanoutItemsReadParams {
    /// The job.
    pub job_id: String,
    /// The item.
    pub item_id: String,
}

/// The answer to [`ITEMS_READ`](super::ITEMS_READ).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FanoutItemsReadAnswer {
    /// The item.
    pub item: JobItemDetail,
}

/// Params of [`EXPORT`](super::EXPORT).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent switches of the protocol"
)]
pub struct FanoutExportParams {
    /// The job.
    pub job_id: String,
    /// The format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<ExportFormat>,
    /// The file of the server; without it the answer holds a part of the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Replace a file that exists.
    #[serde(default, skip_serializing_if = "is_false")]
    pub overwrite: bool,
    /// Add the columns about threads, tokens and times.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wide: bool,
    /// Add a column for each top-level member of the results.
    #[serde(default, skip_serializing_if = "is_false")]
    pub flatten: bool,
    /// Do not guard cells that a spreadsheet would read as formulas.
    #[serde(default, skip_serializing_if = "is_false")]
    pub raw: bool,
    /// The part of the text, as the part before named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The answer to [`EXPORT`](super::EXPORT).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum FanoutExportAnswer {
    /// The results are in a file.
    #[serde(rename_all = "camelCase")]
    File {
        /// The file.
        path: String,
        /// The number of rows in it.
        rows: u64,
    },
    /// A part of the text, which ends with a whole row.
    #[serde(rename_all = "camelCase")]
    Part {
        /// The text.
        data: String,
        /// The next part; null behind the last one.
        next_cursor: Option<String>,
    },
}
