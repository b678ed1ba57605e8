//! `fanout/import`, `fanout/import/write`, `fanout/items/add`, `fanout/seal` and `fanout/preview`.

use std::path::Path;
use std::sync::Arc;

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::exec_server::Blob;
use turnlane_protocol::fanout::{ImportFormat, RawJson};
use turnlane_protocol::method::fanout::{
    CHUNK_BYTES_MAX, IMPORT, IMPORT_WRITE, ITEMS_ADD, ITEMS_ADD_MAX, PREVIEW, SEAL,
};
use turnlane_protocol::method::{
    FanoutImportAnswer, FanoutImportParams, FanoutImportWriteAnswer, FanoutImportWriteParams,
    FanoutItemsAddAnswer, FanoutItemsAddParams, FanoutJobAnswer, FanoutJobParams,
    FanoutPreviewAnswer, FanoutPreviewParams, FanoutPrompt, ImportSource,
};
use turnlane_runtime::fanout::import::{AddItems, SAMPLE_ROWS_MAX, StreamChunk};
use turnlane_runtime::fanout::input::{Encoding, Filters, Format, InputSpec, delimiter_from_word};
use turnlane_runtime::fanout::jobs::JobError;

use super::{answer, refusal, server_path};
use crate::connection::Connection;
use crate::errors::invalid;

/// The prompts of a preview whose caller says nothing.
const PROMPTS: u32 = 3;
/// The most prompts of a preview.
const PROMPTS_MAX: u32 = 20;

/// `fanout/import`: imports a file of the server and seals the job, or begins an import of bytes.
pub(crate) async fn import(
    cx: Arc<Connection>,
    params: FanoutImportParams,
) -> Result<FanoutImportAnswer, ErrorObject> {
    let jobs = cx.shared().options.runtime.jobs();
    let refused = |error: JobError| refusal(IMPORT, &error);
    let (job, next) = match &params.source {
        ImportSource::Path { path } => {
            let path = server_path(&cx, IMPORT, path)?;
            let path = Path::new(&path);
            let spec = spec(&params, Format::from_path(path))?;
            let imported = jobs.import_path(&params.job_id, path, spec).await;
            let job = imported.map_err(refused)?;
            let next = job.row.import.offset;
            (job, next)
        }
        ImportSource::Stream => {
            let spec = spec(&params, Format::default())?;
            let begun = jobs.import_begin(&params.job_id, spec).await;
            begun.map_err(refused)?
        }
    };
    Ok(FanoutImportAnswer {
        job: answer(&cx, &job).job,
        next_offset: unsigned(next),
    })
}

/// The rules by which an input is read.
fn spec(params: &FanoutImportParams, usual: Format) -> Result<InputSpec, ErrorObject> {
    let format = params.format.map_or(usual, |format| match format {
        ImportFormat::Csv => Format::Csv,
        ImportFormat::Tsv => Format::Tsv,
        ImportFormat::Jsonl => Format::Jsonl,
        ImportFormat::Lines => Format::Lines,
    });
    let delimiter = params.delimiter.as_deref().map(delimiter_from_word);
    let delimiter = delimiter.transpose();
    let encoding = params.encoding.as_deref().map(|name| {
        let found = Encoding::from_word(name);
        found.ok_or_else(|| invalid(format!("unknown encoding: {name}")))
    });
    if params
        .sample
        .is_some_and(|rows| !(1..=SAMPLE_ROWS_MAX).contains(&rows))
    {
        let range = format!("sample must be 1 to {SAMPLE_ROWS_MAX}");
        return Err(ErrorObject::bad_limit(&range));
    }
    if params.sample_key.is_some() && params.sample.is_none() {
        return Err(invalid("sampleKey has no effect without sample"));
    }
    Ok(InputSpec {
        format,
        delimiter: delimiter.map_err(|error| invalid(error.to_string()))?,
        encoding: encoding.transpose()?,
        filters: Filters {
            values: params.filters.clone().unwrap_or_default(),
            offset: params.offset.unwrap_or(0),
            limit: params.limit,
            sample: params.sample,
            sample_key: params.sample_key.clone(),
        },
    })
}

/// `fanout/import/write`: takes bytes of an input. Bytes that were taken before change nothing.
pub(crate) async fn write(
    cx: Arc<Connection>,
    params: FanoutImportWriteParams,
) -> Result<FanoutImportWriteAnswer, ErrorObject> {
    let bytes = Blob::decode(&params.data_base64);
    let Blob(bytes) = bytes.map_err(|error| ErrorObject::invalid_base64(&error))?;
    if bytes.len() > CHUNK_BYTES_MAX {
        return Err(invalid(format!(
            "dataBase64 has {} bytes; at most {CHUNK_BYTES_MAX} are allowed",
            bytes.len()
        )));
    }
    let chunk = StreamChunk {
        offset: i64::try_from(params.offset).map_err(|_| ErrorObject::out_of_range("offset"))?,
        bytes: &bytes,
        end: params.end,
    };
    let jobs = cx.shared().options.runtime.jobs();
    let next = jobs.import_write(&params.job_id, chunk).await;
    let next = next.map_err(|error| refusal(IMPORT_WRITE, &error))?;
    Ok(FanoutImportWriteAnswer {
        next_offset: unsigned(next),
    })
}

/// `fanout/items/add`: adds rows. Rows that were added before change nothing.
pub(crate) async fn add_items(
    cx: Arc<Connection>,
    params: FanoutItemsAddParams,
) -> Result<FanoutItemsAddAnswer, ErrorObject> {
    if params.rows.len() > ITEMS_ADD_MAX {
        let count = params.rows.len();
        return Err(invalid(format!(
            "rows has {count} elements; at most {ITEMS_ADD_MAX} are allowed"
        )));
    }
    let rows: Vec<&str> = params.rows.iter().map(RawJson::as_str).collect();
    let items = AddItems {
        seq: i64::try_from(params.seq).map_err(|_| ErrorObject::out_of_range("seq"))?,
        rows: &rows,
    };
    let jobs = cx.shared().options.runtime.jobs();
    let next = jobs.add_items(&params.job_id, items).await;
    let next = next.map_err(|error| refusal(ITEMS_ADD, &error))?;
    Ok(FanoutItemsAddAnswer {
        next_seq: unsigned(next),
    })
}

/// `fanout/seal`: ends an import after the checks of template and ids.
pub(crate) async fn seal(
    cx: Arc<Connection>,
    params: FanoutJobParams,
) -> Result<FanoutJobAnswer, ErrorObject> {
    let jobs = cx.shared().options.runtime.jobs();
    let job = jobs.seal(&params.job_id).await;
    let job = job.map_err(|error| refusal(SEAL, &error))?;
    Ok(answer(&cx, &job))
}

/// `fanout/preview`: the prompts of the first items. Calls no model.
pub(crate) async fn preview(
    cx: Arc<Connection>,
    params: FanoutPreviewParams,
) -> Result<FanoutPreviewAnswer, ErrorObject> {
    let count = params.count.unwrap_or(PROMPTS);
    if count > PROMPTS_MAX {
        return Err(invalid(format!("count must be at most {PROMPTS_MAX}")));
    }
    let jobs = cx.shared().options.runtime.jobs();
    let shown = jobs.preview(&params.job_id, count).await;
    let shown = shown.map_err(|error| refusal(PREVIEW, &error))?;
    let prompts = shown.prompts.into_iter().map(|prompt| FanoutPrompt {
        item_id: prompt.item_id,
        text: prompt.text,
    });
    Ok(FanoutPreviewAnswer {
        total: unsigned(shown.total),
        prompts: prompts.collect(),
        estimated_tokens: shown.estimated_tokens,
    })
}

/// Offsets and counts of the store are never negative.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
