//! `fanout/create`: from what a client says to a job that can be stored.
//!
//! The invariant here: settings, limits and options are complete when the job is stored, so that a
//! later change of the configuration does not change a job.

use std::sync::Arc;

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::fanout::{
    ExportFormat, JobLimits, JobOwner, JobSettings, KeepThreads, MaxFailures, OnDuplicate,
    OnItemLoss, ResultChannel, Worktree,
};
use turnlane_protocol::method::fanout::CREATE;
use turnlane_protocol::method::{FanoutCreateParams, FanoutJobAnswer, Overrides};
use turnlane_protocol::policy::ApprovalPolicy;
use turnlane_runtime::Settings;
use turnlane_runtime::fanout::jobs::spec::{self, ChannelChoice, JobOptions, WorktreeChoice};
use turnlane_runtime::fanout::jobs::{JobSpec, Owner};
use turnlane_runtime::fanout::prompt;
use turnlane_runtime::fanout::{export, ids};

use super::{answer, refusal, server_path};
use crate::connection::Connection;
use crate::errors::invalid;
use crate::handlers::thread_start::NATIVE;
use crate::job_feed::{self, Interest};
use crate::settings;

/// `fanout/create`: makes a job without rows, or finds the one with the same `clientJobId`; the client
/// is subscribed to it.
pub(crate) async fn create(
    cx: Arc<Connection>,
    params: FanoutCreateParams,
) -> Result<FanoutJobAnswer, ErrorObject> {
    let spec = spec(&cx, params)?;
    let job = cx.shared().options.runtime.jobs().create(spec).await;
    let job = job.map_err(|error| refusal(CREATE, &error))?;
    job_feed::subscribe(&cx, Some(&job.row.made.id), Interest::Job);
    Ok(answer(&cx, &job))
}

fn spec(cx: &Connection, params: FanoutCreateParams) -> Result<JobSpec, ErrorObject> {
    let wanted = params.settings.unwrap_or_default();
    refuse_unbuilt(&wanted)?;
    let options = &cx.shared().options;
    let engine = wanted
        .engine
        .clone()
        .unwrap_or_else(|| options.defaults.engine());
    if !options.runtime.engines().contains(&engine) {
        return Err(invalid(format!("unknown engine: {engine}")));
    }
    let model_column = wanted.model_column.clone();
    let effort_column = wanted.effort_column.clone();
    let worktree = match wanted.worktree.unwrap_or_default() {
        Worktree::None => WorktreeChoice::None,
        Worktree::Item => WorktreeChoice::Item,
    };
    let settings = thread_settings(cx, &engine, wanted)?;
    let owner = match params.owner {
        None => options.fanout.owner,
        Some(JobOwner::Detached) => Owner::Detached,
        Some(JobOwner::Connection) => Owner::Connection,
        Some(JobOwner::Turn) => return Err(invalid("owner may be detached or connection")),
    };
    let mut spec = JobSpec::new(params.instruction, engine, settings);
    spec.name = params.name;
    spec.worktree = worktree;
    spec.client_job_id = params.client_job_id;
    spec.output_schema = params.output_schema;
    spec.channel = match params.result_channel.unwrap_or_default() {
        ResultChannel::Auto => ChannelChoice::Auto,
        ResultChannel::Tool => ChannelChoice::Only(prompt::ResultChannel::Tool),
        ResultChannel::Message => ChannelChoice::Only(prompt::ResultChannel::Message),
        ResultChannel::Text => ChannelChoice::Only(prompt::ResultChannel::Text),
    };
    spec.owner = owner;
    set_limits(&mut spec.limits, params.limits.unwrap_or_default())?;
    spec.options = JobOptions {
        id_column: params.id_column,
        on_duplicate: match params.on_duplicate.unwrap_or_default() {
            OnDuplicate::Error => ids::OnDuplicate::Error,
            OnDuplicate::Skip => ids::OnDuplicate::Skip,
            OnDuplicate::Suffix => ids::OnDuplicate::Suffix,
        },
        allow_missing: params.allow_missing.unwrap_or_default(),
        on_crash: match params.on_crash.unwrap_or_default() {
            OnItemLoss::Continue => spec::OnCrash::Continue,
            OnItemLoss::Restart => spec::OnCrash::Restart,
            OnItemLoss::Fail => spec::OnCrash::Fail,
        },
        keep_threads: params.keep_threads.map(|keep| match keep {
            KeepThreads::All => spec::KeepThreads::All,
            KeepThreads::Failed => spec::KeepThreads::Failed,
            KeepThreads::None => spec::KeepThreads::None,
        }),
        end_on_report: params.end_on_report.unwrap_or(true),
        repair_turns: limit32("repairTurns", params.repair_turns)?.unwrap_or(1),
        dedupe: params.dedupe.unwrap_or_default(),
        model_column,
        effort_column,
        ..JobOptions::default()
    };
    if let Some(target) = params.export {
        spec.options.export_format = match target.format.unwrap_or_default() {
            ExportFormat::Csv => export::ExportFormat::Csv,
            ExportFormat::Jsonl => export::ExportFormat::Jsonl,
        };
        spec.options.export_overwrite = target.overwrite;
        spec.export_path = Some(server_path(cx, CREATE, &target.path)?);
    }
    Ok(spec)
}

/// Refuses members that a job would ignore: an ignored setting is worse than a refused one.
fn refuse_unbuilt(wanted: &JobSettings) -> Result<(), ErrorObject> {
    let unbuilt = [
        ("cwdColumn", wanted.cwd_column.is_some()),
        (
            "labels",
            wanted.labels.as_ref().is_some_and(|it| !it.is_empty()),
        ),
    ];
    match unbuilt.into_iter().find(|(_, is_set)| *is_set) {
        Some((member, _)) => Err(invalid(format!("{member} is not supported yet"))),
        None => Ok(()),
    }
}

/// The settings of the items' threads, complete.
fn thread_settings(
    cx: &Connection,
    engine: &str,
    wanted: JobSettings,
) -> Result<Settings, ErrorObject> {
    let overrides = Overrides {
        model: wanted.model,
        model_provider: wanted.model_provider,
        cwd: wanted.cwd,
        sandbox: wanted.sandbox,
        // Nobody watches the items of a job, so they ask only where the caller wants it.
        approval_policy: Some(wanted.approval_policy.unwrap_or(ApprovalPolicy::Never)),
        ..Overrides::default()
    };
    let mut made = settings::of_new_thread(cx, engine, &overrides)?;
    if wanted.effort.is_some() {
        made.effort = wanted.effort;
    }
    settings::check_sandbox(cx, &made.sandbox_policy)?;
    if engine == NATIVE {
        settings::check_rules(cx, Some(&made.cwd))?;
    }
    Ok(made)
}

fn set_limits(limits: &mut spec::JobLimits, wanted: JobLimits) -> Result<(), ErrorObject> {
    if let Some(concurrency) = limit32("concurrency", wanted.concurrency)? {
        limits.concurrency = concurrency;
    }
    if let Some(rate) = wanted.start_rate {
        limits.start_rate = Some(start_rate(rate)?);
    }
    if let Some(retries) = limit32("retries", wanted.retries)? {
        limits.retries = retries;
    }
    limits.timeout_ms = wanted.timeout_ms.unwrap_or(limits.timeout_ms);
    limits.idle_timeout_ms = wanted.idle_timeout_ms.unwrap_or(limits.idle_timeout_ms);
    limits.deadline_ms = wanted.deadline_ms.or(limits.deadline_ms);
    if let Some(max) = wanted.max_failures {
        limits.max_failures = Some(match max {
            MaxFailures::Count(count) => spec::MaxFailures::Count(signed("maxFailures", count)?),
            MaxFailures::Percent(percent) => spec::MaxFailures::Percent(percent),
        });
    }
    if let Some(tokens) = wanted.max_tokens {
        limits.max_tokens = Some(signed("maxTokens", tokens)?);
    }
    limits.max_cost_usd = wanted.max_cost_usd.or(limits.max_cost_usd);
    if let Some(attempts) = wanted.max_attempts {
        limits.max_attempts = Some(signed("maxAttempts", attempts)?);
    }
    limits.grace_ms = wanted.grace_ms.unwrap_or(limits.grace_ms);
    Ok(())
}

fn limit32(member: &str, value: Option<u64>) -> Result<Option<u32>, ErrorObject> {
    let too_large = |_| ErrorObject::bad_limit(&format!("{member} is too large"));
    value.map(u32::try_from).transpose().map_err(too_large)
}

fn signed(member: &str, value: u64) -> Result<i64, ErrorObject> {
    let too_large = |_| ErrorObject::bad_limit(&format!("{member} is too large"));
    i64::try_from(value).map_err(too_large)
}

/// Starts per second, a whole number from 1.
fn start_rate(rate: f64) -> Result<u32, ErrorObject> {
    let whole = format!("{rate}").parse::<u32>().ok();
    let whole = whole.filter(|rate| *rate >= 1);
    whole.ok_or_else(|| ErrorObject::bad_limit("startRate must be a whole number >= 1"))
}
