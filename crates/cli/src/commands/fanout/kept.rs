//! The flags of a repeated run that its job does not take over: it keeps what it was made with.
//!
//! The invariant here: a flag of a repeated run that differs from the stored job is named, unless it is
//! part of the run's key, which makes another job.

use serde_json::{Value, json};
use turnlane::{JobView, KeepThreads, OnDuplicate, OnItemLoss, ResultChannel, SandboxPolicy};

use super::run::limits;
use crate::args::FanoutRun;
use crate::args::exec::options::SandboxArg;

/// Names the flags that differ from the job that is continued; none where all fit.
pub(super) fn warning(args: &FanoutRun, job: &JobView) -> Option<String> {
    let mut kept = Vec::new();
    let stored = |value: Result<Value, _>| value.unwrap_or_default();
    let given = serde_json::to_value(limits(&args.limits)).unwrap_or_default();
    differing(
        &given,
        &stored(serde_json::to_value(job.status.limits)),
        &mut kept,
    );
    let channel = args.result.map(ResultChannel::from);
    let given = json!({
        "onDuplicate": args.on_duplicate.map(OnDuplicate::from),
        "allowMissing": args.allow_missing.then_some(true),
        "dedupe": args.dedupe.then_some(true),
        "onCrash": args.on_crash.map(OnItemLoss::from),
        "keepThreads": args.keep_threads.map(KeepThreads::from),
        // The stored channel is never `auto`.
        "resultChannel": channel.filter(|it| *it != ResultChannel::Auto),
    });
    let mut options = stored(serde_json::to_value(&job.options));
    options["resultChannel"] = json!(job.status.result_channel);
    differing(&given, &options, &mut kept);
    // The job's sandbox also has the directories of its time: compare the modes.
    let mode =
        |policy: Option<SandboxPolicy>| serde_json::to_value(policy).ok()?.get("type").cloned();
    let asked = args.sandbox.map(SandboxArg::word);
    let asked = asked.and_then(SandboxPolicy::from_mode);
    if asked.is_some() && mode(asked) != mode(job.settings.sandbox.clone()) {
        kept.push("its sandbox (not the one named now)".to_owned());
    }
    let kept = (!kept.is_empty()).then(|| kept.join(", "))?;
    Some(format!(
        "warning: the job keeps what it was made with: {kept}; --new makes a job with the new values"
    ))
}

/// Adds the members that are given and differ from the stored ones.
fn differing(given: &Value, stored: &Value, kept: &mut Vec<String>) {
    for (name, given) in given.as_object().into_iter().flatten() {
        let stored = stored.get(name).unwrap_or(&Value::Null);
        // A number may be written as `2` and as `2.0`.
        let is_equal =
            given == stored || given.as_f64().is_some_and(|it| stored.as_f64() == Some(it));
        if given.is_null() || is_equal {
            continue;
        }
        let stored = match name.as_str() {
            "keepThreads" if stored.is_null() => "by size".to_owned(),
            _ => word(stored),
        };
        kept.push(format!("{name} {stored} (not {})", word(given)));
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
