//! Counts, and the text they are scraped as.
//!
//! Plain atomics, read one by one: no two numbers of a scrape belong to the same moment. What the
//! runtime and the connections know is asked of them at the scrape. Labels are fixed words of the
//! tables of methods and errors, and names of models, whose number is bounded; no other text of a
//! client ever becomes one.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use turnlane_protocol::ids::ThreadId;
use turnlane_protocol::thread::ThreadStatus;
use turnlane_protocol::turn_error::ErrorKind;
use turnlane_protocol::usage::TokenCounts;
use turnlane_runtime::fanout::jobs::spec::state_word;
use turnlane_runtime::store::fanout::JobRow;
use turnlane_runtime::store::{Census, Times};

/// Upper bounds of the buckets of `turnlane_turn_seconds`, in milliseconds.
const TURN_BUCKETS_MS: [u64; 10] = [
    50, 100, 250, 500, 1_000, 5_000, 15_000, 60_000, 300_000, 1_800_000,
];

/// What a server counts itself.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    connections: AtomicU64,
    requests: AtomicU64,
    requests_unknown: AtomicU64,
    panics: AtomicU64,
    approvals_asked: AtomicU64,
    approvals_decided: AtomicU64,
    turns_ended: AtomicU64,
    turns_failed: AtomicU64,
    turn_buckets: [AtomicU64; TURN_BUCKETS_MS.len()],
    turn_ms: AtomicU64,
    /// When the turns that run began.
    running: Mutex<HashMap<ThreadId, i64>>,
}

/// What others know at the moment of a scrape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Others {
    pub(crate) connections: usize,
    pub(crate) lanes: usize,
    pub(crate) unanswered: usize,
    pub(crate) store_writes: bool,
    /// None when the store could not tell.
    pub(crate) census: Option<Census>,
    pub(crate) syncs: Times,
    pub(crate) failures: Vec<(String, u64)>,
    /// The tokens that ended turns used, by model.
    pub(crate) tokens: Vec<(String, TokenCounts)>,
    /// Approvals that wait for a decision; none when the store could not tell.
    pub(crate) approvals_open: Option<OpenApprovals>,
    /// The fan-out jobs and their items by state; none when the store could not tell.
    pub(crate) jobs: Option<JobCensus>,
    /// The files of the database that there are, with their sizes in bytes.
    pub(crate) database: Vec<(&'static str, u64)>,
}

/// Fan-out jobs and their items by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobCensus {
    jobs: BTreeMap<&'static str, u64>,
    items: BTreeMap<&'static str, u64>,
}

impl JobCensus {
    /// Counts one more job.
    pub(crate) fn add(&mut self, job: &JobRow) {
        *self.jobs.entry(state_word(job.state)).or_default() += 1;
        let counts = &job.counts;
        for (state, count) in [
            ("pending", job.pending()),
            ("running", counts.running),
            ("succeeded", counts.succeeded),
            ("failed", counts.failed),
            ("skipped", counts.skipped),
            ("cancelled", counts.cancelled),
        ] {
            *self.items.entry(state).or_default() += u64::try_from(count).unwrap_or(0);
        }
    }
}

/// Approvals that wait for a decision.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenApprovals {
    pub(crate) count: usize,
    /// How many lanes wait for them.
    pub(crate) lanes: usize,
}

impl Metrics {
    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(crate) fn unknown_request(&self) {
        self.requests_unknown.fetch_add(1, Relaxed);
    }

    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Relaxed);
    }

    pub(crate) fn approval_asked(&self) {
        self.approvals_asked.fetch_add(1, Relaxed);
    }

    pub(crate) fn approval_decided(&self) {
        self.approvals_decided.fetch_add(1, Relaxed);
    }

    /// A thread does something else than before; a turn is what lies between active and not.
    pub(crate) fn status(&self, thread: ThreadId, status: &ThreadStatus, at_ms: i64) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let ThreadStatus::Active { .. } = status {
            running.entry(thread).or_insert(at_ms);
            return;
        }
        let Some(began_ms) = running.remove(&thread) else {
            return;
        };
        drop(running);
        self.turns_ended.fetch_add(1, Relaxed);
        if *status == ThreadStatus::SystemError {
            self.turns_failed.fetch_add(1, Relaxed);
        }
        let took_ms = u64::try_from(at_ms - began_ms).unwrap_or(0);
        if let Some(at) = TURN_BUCKETS_MS.iter().position(|bound| took_ms <= *bound) {
            self.turn_buckets[at].fetch_add(1, Relaxed);
        }
        self.turn_ms.fetch_add(took_ms, Relaxed);
    }

    /// The text of a scrape.
    pub(crate) fn text(&self, others: &Others) -> String {
        let turns_running = self.turns_running();
        let count = |value: &AtomicU64| value.load(Relaxed);
        let size = |value: usize| value as u64;
        let gauges = [
            (
                "connections",
                "Initialised connections.",
                size(others.connections),
            ),
            ("lanes_loaded", "Loaded threads.", size(others.lanes)),
            (
                "requests_unanswered",
                "Requests under way.",
                size(others.unanswered),
            ),
            ("turns_running", "Turns that run.", turns_running),
            (
                "store_writable",
                "Whether the store takes writes.",
                u64::from(others.store_writes),
            ),
        ];
        let counters = [
            (
                "connections_total",
                "Connections served.",
                count(&self.connections),
            ),
            ("requests_total", "Requests taken.", count(&self.requests)),
            (
                "requests_unknown_total",
                "Requests of unknown methods.",
                count(&self.requests_unknown),
            ),
            (
                "handler_panics_total",
                "Handlers that panicked.",
                count(&self.panics),
            ),
            (
                "approvals_asked_total",
                "Approvals asked.",
                count(&self.approvals_asked),
            ),
            (
                "approvals_decided_total",
                "Approvals decided.",
                count(&self.approvals_decided),
            ),
            (
                "turns_ended_total",
                "Turns that ended.",
                count(&self.turns_ended),
            ),
            (
                "turns_failed_total",
                "Turns that failed.",
                count(&self.turns_failed),
            ),
        ];
        let mut text = String::new();
        let gauges = gauges.into_iter().map(|row| ("gauge", row));
        let counters = counters.into_iter().map(|row| ("counter", row));
        for (kind, (name, help, value)) in gauges.chain(counters) {
            head(name, help, kind, &mut text);
            let _ = writeln!(text, "turnlane_{name} {value}");
        }
        build(&mut text);
        tokens(&others.tokens, &mut text);
        stored(others, &mut text);
        if let Some(census) = &others.census {
            lanes(census, others.approvals_open, &mut text);
        }
        failures(&others.failures, &mut text);
        let help = "How long turns took.";
        histogram("turn_seconds", help, &self.turn_times(), &mut text);
        let help = "How long commits took that waited for the disk.";
        histogram("fsync_seconds", help, &others.syncs, &mut text);
        text
    }

    fn turns_running(&self) -> u64 {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.len() as u64
    }

    fn turn_times(&self) -> Times {
        let bounds = TURN_BUCKETS_MS.iter().copied().map(Duration::from_millis);
        let counts = self.turn_buckets.iter().map(|count| count.load(Relaxed));
        Times {
            buckets: bounds.zip(counts).collect(),
            count: self.turns_ended.load(Relaxed),
            sum: Duration::from_millis(self.turn_ms.load(Relaxed)),
        }
    }
}

/// What the store holds, where it could be asked.
fn stored(others: &Others, text: &mut String) {
    if let Some(open) = others.approvals_open {
        let help = "Approvals that wait for a decision.";
        head("approvals_open", help, "gauge", text);
        let count = open.count;
        let _ = writeln!(text, "turnlane_approvals_open {count}");
    }
    if let Some(census) = &others.jobs {
        let help = "Fan-out jobs by state; the newest 1,000 are counted.";
        let jobs = census.jobs.iter().map(|(state, count)| (*state, *count));
        labelled("fanout_jobs", help, "gauge", "state", jobs, text);
        let help = "Items of these jobs by state.";
        let items = census.items.iter().map(|(state, count)| (*state, *count));
        labelled("fanout_items", help, "gauge", "state", items, text);
    }
    if !others.database.is_empty() {
        let help = "Size of the files of the database.";
        let files = others.database.iter().copied();
        labelled("database_bytes", help, "gauge", "file", files, text);
    }
}

/// Which version this is.
fn build(text: &mut String) {
    let help = "1, labelled with the version of this server.";
    head("build_info", help, "gauge", text);
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(text, "turnlane_build_info{{version=\"{version}\"}} 1");
}

/// One metric with one label, whose values are fixed words.
fn labelled(
    name: &str,
    help: &str,
    kind: &str,
    label: &str,
    values: impl Iterator<Item = (&'static str, u64)>,
    text: &mut String,
) {
    head(name, help, kind, text);
    for (word, value) in values {
        let _ = writeln!(text, "turnlane_{name}{{{label}=\"{word}\"}} {value}");
    }
}

/// The lanes of the store by what they do, and what waits in them.
fn lanes(census: &Census, approvals: Option<OpenApprovals>, text: &mut String) {
    let states = [
        ("running", census.running),
        ("queued", census.queued),
        ("waiting", census.waiting),
        ("paused", census.paused),
        ("held", census.held),
        ("idle", census.idle),
    ];
    let help = "Lanes of the store by what they do: held is behind a failed turn.";
    head("lanes", help, "gauge", text);
    for (state, count) in states {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "turnlane_lanes{{state=\"{state}\"}} {count}");
    }
    held(census, approvals, text);
    head(
        "queue_depth",
        "Turns that wait in all lanes.",
        "gauge",
        text,
    );
    let _ = writeln!(text, "turnlane_queue_depth {}", census.rows);
}

/// The lanes that do not go on by themselves, by what they wait for. With `approval` a turn is running
/// and waits for an answer; with the other reasons none runs.
fn held(census: &Census, approvals: Option<OpenApprovals>, text: &mut String) {
    let mut reasons = BTreeMap::from([
        ("failed".to_owned(), census.held),
        ("paused".to_owned(), census.paused),
    ]);
    if let Some(open) = approvals {
        reasons.insert("approval".to_owned(), open.lanes as u64);
    }
    for (kind, count) in &census.waiting_by_kind {
        *reasons.entry(wait_word(kind)).or_default() += count;
    }
    let help = "Lanes that are held, by reason: failed, paused, approval, or the error waited out.";
    head("lanes_held", help, "gauge", text);
    for (reason, count) in reasons {
        let _ = writeln!(text, "turnlane_lanes_held{{reason=\"{reason}\"}} {count}");
    }
}

/// The word of the protocol for what a lane waits out; only such words become labels.
fn wait_word(kind: &str) -> String {
    match serde_json::from_value(kind.into()) {
        Ok(ErrorKind::Unlisted(_)) | Err(_) => "other".to_owned(),
        Ok(_) => kind.to_owned(),
    }
}

/// The runtime bounds the names of models and makes them safe as labels.
fn tokens(models: &[(String, TokenCounts)], text: &mut String) {
    let help = "Tokens that ended turns used, by model and kind; cached input is part of input, \
                reasoning output of output.";
    head("model_tokens_total", help, "counter", text);
    for (model, counts) in models {
        for (kind, count) in [
            ("input", counts.input_tokens),
            ("cached_input", counts.cached_input_tokens),
            ("output", counts.output_tokens),
            ("reasoning_output", counts.reasoning_output_tokens),
        ] {
            let labels = format!("model=\"{model}\",kind=\"{kind}\"");
            let _ = writeln!(text, "turnlane_model_tokens_total{{{labels}}} {count}");
        }
    }
}

fn failures(failures: &[(String, u64)], text: &mut String) {
    let help = "Turns that failed, by why.";
    head("engine_errors_total", help, "counter", text);
    for (kind, count) in failures {
        let _ = writeln!(
            text,
            "turnlane_engine_errors_total{{kind=\"{kind}\"}} {count}"
        );
    }
}

fn histogram(name: &str, help: &str, times: &Times, text: &mut String) {
    head(name, help, "histogram", text);
    let mut below = 0;
    for (bound, count) in &times.buckets {
        below += count;
        let bound = bound.as_secs_f64();
        let _ = writeln!(text, "turnlane_{name}_bucket{{le=\"{bound}\"}} {below}");
    }
    // The buckets and the count are read one by one; a scrape must still add up.
    let all = times.count.max(below);
    let sum = times.sum.as_secs_f64();
    let _ = writeln!(text, "turnlane_{name}_bucket{{le=\"+Inf\"}} {all}");
    let _ = writeln!(
        text,
        "turnlane_{name}_sum {sum}\nturnlane_{name}_count {all}"
    );
}

fn head(name: &str, help: &str, kind: &str, text: &mut String) {
    let _ = writeln!(
        text,
        "# HELP turnlane_{name} {help}\n# TYPE turnlane_{name} {kind}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_counted_from_active_to_its_end() {
        let metrics = Metrics::default();
        let thread = ThreadId::at(1, [1; 10]);
        let active = ThreadStatus::Active {
            active_flags: Vec::new(),
        };
        metrics.status(thread, &ThreadStatus::Idle, 5);
        metrics.status(thread, &active, 1_000);
        metrics.status(thread, &active, 1_050);
        metrics.status(thread, &ThreadStatus::SystemError, 1_200);
        let used = TokenCounts {
            input_tokens: 200,
            cached_input_tokens: 60,
            output_tokens: 14,
            ..TokenCounts::default()
        };
        let text = metrics.text(&Others {
            approvals_open: Some(OpenApprovals { count: 3, lanes: 2 }),
            tokens: vec![("m-1".to_owned(), used)],
            database: vec![("main", 4_096), ("wal", 32)],
            connections: 2,
            lanes: 3,
            store_writes: true,
            census: Some(Census {
                held: 4,
                rows: 17,
                waiting_by_kind: vec![
                    ("quota".to_owned(), 1),
                    ("x\"} 1".to_owned(), 2),
                    ("y".to_owned(), 3),
                ],
                ..Census::default()
            }),
            syncs: Times {
                buckets: vec![(Duration::from_micros(500), 7), (Duration::from_secs(2), 1)],
                count: 9,
                sum: Duration::from_millis(4_250),
            },
            failures: vec![("quota".to_owned(), 5)],
            ..Others::default()
        });
        for line in [
            "turnlane_connections 2",
            concat!(
                "turnlane_build_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"} 1"
            ),
            "turnlane_model_tokens_total{model=\"m-1\",kind=\"input\"} 200",
            "turnlane_model_tokens_total{model=\"m-1\",kind=\"cached_input\"} 60",
            "turnlane_model_tokens_total{model=\"m-1\",kind=\"output\"} 14",
            "turnlane_model_tokens_total{model=\"m-1\",kind=\"reasoning_output\"} 0",
            "turnlane_approvals_open 3",
            "turnlane_lanes_held{reason=\"approval\"} 2",
            "turnlane_lanes_held{reason=\"failed\"} 4",
            "turnlane_lanes_held{reason=\"paused\"} 0",
            "turnlane_lanes_held{reason=\"quota\"} 1",
            "turnlane_lanes_held{reason=\"other\"} 5",
            "turnlane_database_bytes{file=\"main\"} 4096",
            "turnlane_database_bytes{file=\"wal\"} 32",
            "turnlane_lanes_loaded 3",
            "turnlane_turns_ended_total 1",
            "turnlane_turns_failed_total 1",
            "turnlane_turns_running 0",
            "turnlane_turn_seconds_bucket{le=\"0.1\"} 0",
            "turnlane_turn_seconds_bucket{le=\"0.25\"} 1",
            "turnlane_turn_seconds_bucket{le=\"1800\"} 1",
            "turnlane_turn_seconds_sum 0.2",
            "turnlane_lanes{state=\"held\"} 4",
            "turnlane_queue_depth 17",
            "turnlane_engine_errors_total{kind=\"quota\"} 5",
            "turnlane_fsync_seconds_bucket{le=\"0.0005\"} 7",
            "turnlane_fsync_seconds_bucket{le=\"2\"} 8",
            "turnlane_fsync_seconds_bucket{le=\"+Inf\"} 9",
            "turnlane_fsync_seconds_sum 4.25",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
