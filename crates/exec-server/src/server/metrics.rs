//! Counts, and the text they are scraped as.
//!
//! Plain atomics, read one by one: no two numbers of a scrape belong to the same moment. What the
//! process service counts is asked of it at the scrape. Labels are fixed words; nothing a client
//! sent ever becomes one.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use turnlane_process::{ProcessService, ProcessState, SpawnErrorKind};
use turnlane_protocol::exec_server::environment::{DISCOVER_V1, INFO, STATUS};
use turnlane_protocol::exec_server::{INITIALIZE, NOT_FOUND, SESSION_END, fs, process, v0};

use super::dialect::Dialect;
use super::sessions::SessionCounts;
use crate::failure;

/// Methods that are counted by name; all others are `unknown`.
const METHODS: [&str; 30] = [
    INITIALIZE,
    v0::EXEC,
    v0::WRITE,
    v0::TERMINATE,
    process::START,
    process::READ,
    process::WRITE,
    process::SIGNAL,
    process::TERMINATE,
    process::CLOSE_STDIN,
    process::RESIZE,
    process::WAIT,
    process::SNAPSHOT,
    process::LIST,
    SESSION_END,
    INFO,
    STATUS,
    DISCOVER_V1,
    fs::GET_METADATA,
    fs::READ_FILE,
    fs::WRITE_FILE,
    fs::CREATE_DIRECTORY,
    fs::READ_DIRECTORY,
    fs::CANONICALIZE,
    fs::REMOVE,
    fs::COPY,
    fs::WALK,
    fs::OPEN,
    fs::READ_BLOCK,
    fs::CLOSE,
];

/// Codes that are counted by number; all others are `other`.
const CODES: [i64; 7] = [
    -32600,
    failure::METHOD_NOT_FOUND,
    -32602,
    -32603,
    -32001,
    NOT_FOUND,
    turnlane_protocol::exec_server::ALREADY_ATTACHED,
];

const SPAWN_ERRORS: [SpawnErrorKind; 12] = [
    SpawnErrorKind::EmptyArgv,
    SpawnErrorKind::NulByte,
    SpawnErrorKind::ProgramNotFound,
    SpawnErrorKind::NotExecutable,
    SpawnErrorKind::CwdNotFound,
    SpawnErrorKind::CwdDenied,
    SpawnErrorKind::TooManyProcesses,
    SpawnErrorKind::ResourceLimit,
    SpawnErrorKind::SandboxUnavailable,
    SpawnErrorKind::SandboxRefused,
    SpawnErrorKind::ContainmentUnavailable,
    SpawnErrorKind::Other,
];

/// Upper bounds of the buckets of `spawn_seconds`, in microseconds.
const SPAWN_BUCKETS_US: [u64; 10] = [
    250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 64_000, 250_000, 1_000_000,
];

const STREAMS: [&str; 3] = ["stdout", "stderr", "pty"];
const REASONS: [&str; 5] = ["exited", "signaled", "terminated", "timeout", "lost"];

/// What a server counts itself.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    handshaking: AtomicI64,
    v0: AtomicI64,
    process_v1: AtomicI64,
    requests: [AtomicU64; METHODS.len()],
    requests_unknown: AtomicU64,
    errors: [AtomicU64; CODES.len()],
    errors_other: AtomicU64,
    spawn_errors: [AtomicU64; SPAWN_ERRORS.len()],
    spawn_buckets: [AtomicU64; SPAWN_BUCKETS_US.len()],
    spawn_count: AtomicU64,
    spawn_us: AtomicU64,
}

/// What others count, at the moment of a scrape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others<'a> {
    pub(crate) service: &'a ProcessService,
    pub(crate) sessions: SessionCounts,
    pub(crate) auth_failures: u64,
}

impl Metrics {
    pub(crate) fn request(&self, method: &str) {
        let known = METHODS.iter().position(|name| *name == method);
        let count = known.map_or(&self.requests_unknown, |at| &self.requests[at]);
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn error(&self, code: i64) {
        let known = CODES.iter().position(|known| *known == code);
        let count = known.map_or(&self.errors_other, |at| &self.errors[at]);
        count.fetch_add(1, Relaxed);
    }

    pub(crate) fn spawned(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = SPAWN_BUCKETS_US.iter().position(|bound| micros <= *bound);
        if let Some(at) = bucket {
            self.spawn_buckets[at].fetch_add(1, Relaxed);
        }
        self.spawn_count.fetch_add(1, Relaxed);
        self.spawn_us.fetch_add(micros, Relaxed);
    }

    pub(crate) fn spawn_failed(&self, kind: SpawnErrorKind) {
        if let Some(at) = SPAWN_ERRORS.iter().position(|known| *known == kind) {
            self.spawn_errors[at].fetch_add(1, Relaxed);
        }
    }

    /// A connection opened; it counts until the value is dropped.
    pub(crate) fn connected(self: &std::sync::Arc<Self>) -> Connected {
        self.handshaking.fetch_add(1, Relaxed);
        Connected {
            metrics: std::sync::Arc::clone(self),
            dialect: None,
        }
    }

    fn connections(&self, dialect: Option<Dialect>) -> &AtomicI64 {
        match dialect {
            None => &self.handshaking,
            Some(Dialect::V0) => &self.v0,
            Some(Dialect::ProcessV1) => &self.process_v1,
        }
    }

    /// The text of `/metrics`.
    pub(crate) fn text(&self, others: &Others<'_>) -> String {
        let mut page = Page::default();
        page.family("connections", "gauge");
        for (dialect, name) in [
            (None, "none"),
            (Some(Dialect::V0), "exec-server.v0"),
            (Some(Dialect::ProcessV1), "process.v1"),
        ] {
            let open = self.connections(dialect).load(Relaxed);
            page.labelled("connections", "dialect", name, open);
        }
        page.family("sessions", "gauge");
        page.labelled("sessions", "state", "attached", others.sessions.attached);
        page.labelled("sessions", "state", "detached", others.sessions.detached);
        self.requests_and_errors(&mut page);
        self.spawns(&mut page);
        page.family("auth_failures_total", "counter");
        page.plain("auth_failures_total", others.auth_failures);
        of_service(&mut page, others.service);
        page.0
    }

    fn requests_and_errors(&self, page: &mut Page) {
        page.family("requests_total", "counter");
        for (name, count) in METHODS.iter().zip(&self.requests) {
            page.labelled("requests_total", "method", name, count.load(Relaxed));
        }
        let unknown = self.requests_unknown.load(Relaxed);
        page.labelled("requests_total", "method", "unknown", unknown);
        page.family("errors_total", "counter");
        for (code, count) in CODES.iter().zip(&self.errors) {
            page.labelled("errors_total", "code", code, count.load(Relaxed));
        }
        let other = self.errors_other.load(Relaxed);
        page.labelled("errors_total", "code", "other", other);
    }

    fn spawns(&self, page: &mut Page) {
        page.family("spawn_errors_total", "counter");
        for (kind, count) in SPAWN_ERRORS.iter().zip(&self.spawn_errors) {
            page.labelled(
                "spawn_errors_total",
                "kind",
                kind.name(),
                count.load(Relaxed),
            );
        }
        page.family("spawn_seconds", "histogram");
        let mut below = 0;
        for (bound, count) in SPAWN_BUCKETS_US.iter().zip(&self.spawn_buckets) {
            below += count.load(Relaxed);
            let bound = Duration::from_micros(*bound).as_secs_f64();
            page.labelled("spawn_seconds_bucket", "le", bound, below);
        }
        let count = self.spawn_count.load(Relaxed);
        page.labelled("spawn_seconds_bucket", "le", "+Inf", count);
        let sum = Duration::from_micros(self.spawn_us.load(Relaxed)).as_secs_f64();
        page.plain("spawn_seconds_sum", sum);
        page.plain("spawn_seconds_count", count);
    }
}

fn of_service(page: &mut Page, service: &ProcessService) {
    let (mut running, mut exited, mut closed, mut survivors) = (0, 0, 0, 0);
    for listed in service.list() {
        survivors += listed.survivors;
        match listed.state {
            ProcessState::Running => running += 1,
            ProcessState::Exited => exited += 1,
            ProcessState::Closed => closed += 1,
        }
    }
    page.family("processes", "gauge");
    for (state, count) in [("running", running), ("exited", exited), ("closed", closed)] {
        page.labelled::<u64>("processes", "state", state, count);
    }
    page.family("survivors", "gauge");
    page.plain("survivors", survivors);
    let counters = service.counters();
    page.family("output_bytes_total", "counter");
    for (stream, bytes) in STREAMS.iter().zip(counters.output_bytes) {
        page.labelled("output_bytes_total", "stream", stream, bytes);
    }
    page.family("stalled_processes", "gauge");
    page.plain("stalled_processes", counters.stalled);
    page.family("retained_bytes", "gauge");
    page.plain("retained_bytes", counters.retained_bytes);
    page.family("ends_total", "counter");
    for (reason, count) in REASONS.iter().zip(counters.ends) {
        page.labelled("ends_total", "reason", reason, count);
    }
    page.family("unkillable_total", "counter");
    page.plain("unkillable_total", counters.unkillable);
    let report = service.report();
    page.family("containment_info", "gauge");
    page.labelled("containment_info", "kind", report.containment.name(), 1);
    page.family("sandbox_info", "gauge");
    let abi = report.landlock.as_ref().copied().unwrap_or(0);
    let (seccomp, mounts) = (report.seccomp.is_ok(), report.mounts.is_ok());
    page.line(format_args!(
        "sandbox_info{{landlock_abi=\"{abi}\",seccomp=\"{seccomp}\",mounts=\"{mounts}\"}} 1"
    ));
}

/// A page of metrics under our prefix.
#[derive(Debug, Default)]
struct Page(String);

impl Page {
    const PREFIX: &str = "turnlane_exec_";

    fn family(&mut self, name: &str, kind: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# TYPE {}{name} {kind}", Self::PREFIX);
    }

    fn plain(&mut self, name: &str, value: impl fmt::Display) {
        self.line(format_args!("{name} {value}"));
    }

    fn labelled<V: fmt::Display>(
        &mut self,
        name: &str,
        label: &str,
        word: impl fmt::Display,
        value: V,
    ) {
        self.line(format_args!("{name}{{{label}=\"{word}\"}} {value}"));
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        let _ = writeln!(self.0, "{}{line}", Self::PREFIX);
    }
}

/// One open connection in the counts.
#[derive(Debug)]
pub(crate) struct Connected {
    metrics: std::sync::Arc<Metrics>,
    dialect: Option<Dialect>,
}

impl Connected {
    /// The connection speaks this dialect now.
    pub(crate) fn speaks(&mut self, dialect: Dialect) {
        self.metrics.connections(self.dialect).fetch_sub(1, Relaxed);
        self.dialect = Some(dialect);
        self.metrics.connections(self.dialect).fetch_add(1, Relaxed);
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.metrics.connections(self.dialect).fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn connections_are_counted_by_what_they_speak_and_only_while_they_are_open() {
        let metrics = Arc::new(Metrics::default());
        let mut one = metrics.connected();
        let two = metrics.connected();
        one.speaks(Dialect::V0);
        let open = |dialect| metrics.connections(dialect).load(Relaxed);
        assert_eq!((open(None), open(Some(Dialect::V0))), (1, 1));
        drop((one, two));
        assert_eq!((open(None), open(Some(Dialect::V0))), (0, 0));
    }

    #[test]
    fn buckets_of_a_histogram_hold_what_is_below_them_too() {
        let metrics = Metrics::default();
        metrics.spawned(Duration::from_micros(300));
        metrics.spawned(Duration::from_micros(900));
        metrics.spawned(Duration::from_secs(9));
        metrics.spawn_failed(SpawnErrorKind::CwdNotFound);
        metrics.request("process/start");
        metrics.request("what is this");
        metrics.error(-32600);
        let mut page = Page::default();
        metrics.spawns(&mut page);
        metrics.requests_and_errors(&mut page);
        for line in [
            "turnlane_exec_spawn_seconds_bucket{le=\"0.00025\"} 0",
            "turnlane_exec_spawn_seconds_bucket{le=\"0.0005\"} 1",
            "turnlane_exec_spawn_seconds_bucket{le=\"0.001\"} 2",
            "turnlane_exec_spawn_seconds_bucket{le=\"1\"} 2",
            "turnlane_exec_spawn_seconds_bucket{le=\"+Inf\"} 3",
            "turnlane_exec_spawn_seconds_count 3",
            "turnlane_exec_spawn_errors_total{kind=\"cwdNotFound\"} 1",
            "turnlane_exec_requests_total{method=\"process/start\"} 1",
            "turnlane_exec_requests_total{method=\"unknown\"} 1",
            "turnlane_exec_errors_total{code=\"-32600\"} 1",
        ] {
            assert!(page.0.lines().any(|found| found == line), "{line}");
        }
    }
}
