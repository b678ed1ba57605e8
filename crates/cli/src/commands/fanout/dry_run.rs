//! `turnlane fanout run --dry-run`: what a job would be.
//!
//! The invariant here: nothing is stored, no server is started or asked, and no model is called.

use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use turnlane::ResultChannel;
use turnlane_runtime::fanout::import::{DryRun, DryRunReport, ImportError};
use turnlane_runtime::fanout::input::{Encoding, Filters, Format, InputSpec};
use turnlane_runtime::{Clock as _, SystemClock};
use turnlane_store::Json;
use turnlane_store::fanout::{JobOwner, NewJob};

use super::input::{Input, ReadInput};
use super::refusal;
use super::run::{instruction, schema};
use crate::args::{FanoutRun, InputArgs};
use crate::runtime;
use crate::shown::{Form, Screen, note};

/// The prompts that are shown.
const PROMPTS: u32 = 3;
/// The bytes that are read at once.
const CHUNK: usize = 64 * 1024;

pub(super) fn run(args: &FanoutRun) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(args.answer);
    let prepared = job(args).and_then(|job| Ok((job, spec(&args.input)?)));
    let (job, spec) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return refusal::usage(&format!("{error:#}")),
    };
    let input = match ReadInput::open(&args.input.path()) {
        Ok(read) => read.input,
        Err(error) => return refusal::usage(&format!("{error:#}")),
    };
    match runtime::block_on(read(job, spec, input))?? {
        Ok(report) => show(&screen, &report),
        Err(ImportError::Problems(problems)) => {
            let texts: Vec<_> = problems.into_iter().map(|it| it.message).collect();
            refusal::usage(&texts.join("\n  "))
        }
        Err(error) => refusal::usage(&error.to_string()),
    }
}

async fn read(
    job: NewJob,
    spec: InputSpec,
    input: Input,
) -> anyhow::Result<Result<DryRunReport, ImportError>> {
    let mut dry_run = match DryRun::begin(job, Arc::new(SystemClock), spec, PROMPTS).await {
        Ok(dry_run) => dry_run,
        Err(error) => return Ok(Err(error)),
    };
    let mut file = match input {
        Input::File(path) => return Ok(dry_run.read_path(&path).await),
        Input::Spooled(file) => file,
    };
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok(dry_run.finish().await);
        }
        if let Err(error) = dry_run.feed(&chunk[..count]).await {
            return Ok(Err(error));
        }
    }
}

/// The job that would be made, as far as its prompts depend on it.
fn job(args: &FanoutRun) -> anyhow::Result<NewJob> {
    let schema = args.schema.as_deref().map(schema).transpose()?;
    let engine = args.engine.as_deref();
    let is_own = engine.is_none_or(|engine| ["native", "scripted"].contains(&engine));
    let channel = match (args.result.map_or(ResultChannel::Auto, Into::into), &schema) {
        (ResultChannel::Tool, _) => "tool",
        (ResultChannel::Auto, _) if is_own => "tool",
        (ResultChannel::Message, _) | (ResultChannel::Auto, Some(_)) => "message",
        (ResultChannel::Text, _) | (ResultChannel::Auto, None) => "text",
    };
    let on_duplicate = args.on_duplicate.map(turnlane::OnDuplicate::from);
    let on_duplicate = on_duplicate.unwrap_or_default();
    let options = json!({"idColumn": args.id, "onDuplicate": on_duplicate,
        "allowMissing": args.allow_missing, "dedupe": args.dedupe,
        "modelColumn": args.model_col, "effortColumn": args.effort_col});
    Ok(NewJob {
        id: "dry-run".to_owned(),
        name: args.name.clone(),
        owner: JobOwner::Detached,
        owner_worker: None,
        parent_thread: None,
        parent_turn: None,
        client_job_id: None,
        instruction: instruction(args)?,
        schema: schema.map(|schema| Json::new(schema.to_string())),
        channel: channel.to_owned(),
        settings: Json::new("{}"),
        limits: Json::new("{}"),
        options: Json::new(options.to_string()),
        current_limit: 1,
        input_ref: None,
        export_path: None,
        at_ms: SystemClock.now_ms(),
    })
}

fn spec(args: &InputArgs) -> anyhow::Result<InputSpec> {
    let word = |name: &String| {
        Encoding::from_word(name).ok_or_else(|| anyhow::anyhow!("unknown encoding: {name}"))
    };
    let delimiter = args.delimiter.map(u8::try_from).transpose()?;
    Ok(InputSpec {
        format: match args.format.map(turnlane::ImportFormat::from) {
            Some(turnlane::ImportFormat::Csv) => Format::Csv,
            Some(turnlane::ImportFormat::Tsv) => Format::Tsv,
            Some(turnlane::ImportFormat::Jsonl) => Format::Jsonl,
            Some(turnlane::ImportFormat::Lines) => Format::Lines,
            None => Format::from_path(&args.path()),
        },
        delimiter,
        encoding: args.encoding.as_ref().map(word).transpose()?,
        filters: Filters {
            values: args.filters.clone(),
            offset: args.offset.unwrap_or(0),
            limit: args.limit,
            sample: args.sample,
            sample_key: args.sample_key.clone(),
        },
    })
}

fn show(screen: &Screen, report: &DryRunReport) -> anyhow::Result<ExitCode> {
    for warning in &report.warnings {
        note(&format!("warning: {warning}"));
    }
    let preview = &report.preview;
    if screen.form == Form::Json {
        let prompts = preview.prompts.iter();
        let prompts = prompts.map(|it| json!({"itemId": it.item_id, "text": it.text}));
        screen.json(&json!({"total": preview.total, "skipped": report.skipped,
            "blankRows": report.blank_rows, "prompts": prompts.collect::<Vec<_>>(),
            "estimatedTokens": preview.estimated_tokens}))?;
        return Ok(ExitCode::SUCCESS);
    }
    for prompt in &preview.prompts {
        screen.print(&format!("--- {}\n{}\n", prompt.item_id, prompt.text))?;
    }
    screen.print(&format!(
        "{} rows, about {} tokens of prompts; nothing was stored or run\n",
        preview.total, preview.estimated_tokens
    ))?;
    Ok(ExitCode::SUCCESS)
}
