//! `turnlane fanout export`: the results so far, to a file or to standard output.
//!
//! The invariant here: a file is whole or is not there. The server writes files of its own machine; what
//! comes over the network, and standard output, is written here part by part.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use turnlane::{ExportFormat, FanoutExportParams, Job};

use super::looking::find;
use super::refusal;
use super::run::format_of;
use crate::args::FanoutExport;
use crate::session::Session;
use crate::shown::{Form, Screen, out};

pub(super) async fn run(session: &Session, args: &FanoutExport) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.one.answer);
    let job = find(session, &args.one.job).await?;
    let format = args
        .format
        .map_or_else(|| format_of(&args.output), Into::into);
    let mut params = FanoutExportParams {
        format: Some(format),
        overwrite: args.force,
        wide: args.wide,
        flatten: args.flatten,
        raw: args.csv_raw,
        ..FanoutExportParams::default()
    };
    if args.output == Path::new("-") {
        loop {
            let part = job.export_part(params.clone()).await;
            let (text, next) = match part {
                Ok(part) => part,
                Err(error) => return refusal::told(&error),
            };
            out::print_bytes(text.as_bytes())?;
            match next {
                Some(next) => params.cursor = Some(next),
                None => return Ok(ExitCode::SUCCESS),
            }
        }
    }
    let rows = if session.shares_files() {
        params.path = Some(std::path::absolute(&args.output)?.display().to_string());
        match job.export(params).await {
            Ok(export) => Some(export.rows),
            Err(error) => return refusal::told(&error),
        }
    } else {
        write_here(&job, &args.output, format, args.force).await?;
        None
    };
    let path = args.output.display();
    match (screen.form, rows) {
        (Form::Json, rows) => {
            screen.json(&serde_json::json!({"path": path.to_string(), "rows": rows}))?;
        }
        (Form::People, Some(rows)) => screen.print(&format!("wrote {rows} rows to {path}\n"))?,
        (Form::People, None) => screen.print(&format!("wrote {path}\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the results of a job on another machine to a file here.
pub(super) async fn write_here(
    job: &Job,
    path: &Path,
    format: ExportFormat,
    force: bool,
) -> anyhow::Result<()> {
    let parent = std::path::absolute(path)?;
    let Some(parent) = parent.parent() else {
        bail!("cannot write {}: it is a directory", path.display());
    };
    let mut file = tempfile::NamedTempFile::new_in(parent)
        .with_context(|| format!("cannot write {}", path.display()))?;
    let mut params = FanoutExportParams {
        format: Some(format),
        ..FanoutExportParams::default()
    };
    loop {
        let part = job.export_part(params.clone()).await;
        let (text, next) = part.map_err(|error| anyhow::anyhow!("{}", refusal::words(&error)))?;
        file.write_all(text.as_bytes())?;
        match next {
            Some(next) => params.cursor = Some(next),
            None => break,
        }
    }
    file.as_file().sync_all()?;
    let written = if force {
        file.persist(path)
    } else {
        file.persist_noclobber(path)
    };
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}
