//! `fanout/export`: the results so far, to a file of the server or in parts.

use std::path::Path;
use std::sync::Arc;

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::fanout as wire;
use turnlane_protocol::method::fanout::EXPORT;
use turnlane_protocol::method::{FanoutExportAnswer, FanoutExportParams};
use turnlane_runtime::fanout::export::{ExportFormat, ExportOptions, Overwrite};

use super::{refusal, server_path};
use crate::connection::Connection;

/// `fanout/export`: writes a file, whole or not at all; without a path it answers with a part of the
/// text that ends with a whole row.
pub(crate) async fn export(
    cx: Arc<Connection>,
    params: FanoutExportParams,
) -> Result<FanoutExportAnswer, ErrorObject> {
    let jobs = cx.shared().options.runtime.jobs();
    let options = ExportOptions {
        format: match params.format.unwrap_or_default() {
            wire::ExportFormat::Csv => ExportFormat::Csv,
            wire::ExportFormat::Jsonl => ExportFormat::Jsonl,
        },
        wide: params.wide,
        flatten: params.flatten,
        raw: params.raw,
    };
    let Some(path) = &params.path else {
        let cursor = params.cursor.as_deref();
        let part = jobs.export_chunk(&params.job_id, options, cursor).await;
        let part = part.map_err(|error| refusal(EXPORT, &error))?;
        return Ok(FanoutExportAnswer::Part {
            data: part.data,
            next_cursor: part.next_cursor,
        });
    };
    let path = server_path(&cx, EXPORT, path)?;
    let overwrite = if params.overwrite {
        Overwrite::Allowed
    } else {
        Overwrite::Refused
    };
    let written = jobs
        .export_to(&params.job_id, Path::new(&path), options, overwrite)
        .await;
    let written = written.map_err(|error| refusal(EXPORT, &error))?;
    Ok(FanoutExportAnswer::File {
        path: written.path.display().to_string(),
        rows: written.rows,
    })
}
