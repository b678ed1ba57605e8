//! What the tests of the service have in common: a service, a shell, an ear, a process of one's own.

use std::time::Duration;

use turnlane_process::{
    Containment, ContainmentKind, Event, ExitStatus, Io, Options, Process, ProcessService, Spec,
    Stdin, StreamName, TerminalSize, Until,
};
use turnlane_testkit::wait::{DEADLINE, within};

pub(crate) const PIPE: Io = Io::Pipe {
    stdin: Stdin::Closed,
};
pub(crate) const OPEN_PIPE: Io = Io::Pipe { stdin: Stdin::Open };
pub(crate) const PTY: Io = Io::Pty(TerminalSize { rows: 24, cols: 80 });

/// A service with the best containment there is.
pub(crate) fn service() -> ProcessService {
    ProcessService::start(Options::default()).unwrap()
}

pub(crate) const KINDS: [ContainmentKind; 3] = [
    ContainmentKind::Cgroup,
    ContainmentKind::Reaper,
    ContainmentKind::Group,
];

/// A service of each kind that this machine has.
pub(crate) fn services() -> Vec<ProcessService> {
    KINDS.into_iter().filter_map(service_of).collect()
}

/// A service of one kind, or a word about why not.
pub(crate) fn service_of(kind: ContainmentKind) -> Option<ProcessService> {
    let options = Options {
        containment: Some(kind),
        ..Options::default()
    };
    match ProcessService::start(options) {
        Ok(service) => Some(service),
        Err(error) => {
            say(&format!("SKIPPED: {} containment: {error}", kind.name()));
            None
        }
    }
}

/// `script` in a shell, with the usual `PATH`.
pub(crate) fn sh(script: &str) -> Spec {
    let mut spec = Spec::new(["/bin/sh", "-c", script], "/");
    let path = std::env::var_os("PATH").unwrap_or_default();
    spec.env.vars.insert("PATH".into(), path);
    spec
}

pub(crate) fn sh_with(script: &str, io: Io) -> Spec {
    Spec { io, ..sh(script) }
}

/// What a service can give: the group where that is all there is.
pub(crate) fn containment(service: &ProcessService) -> Containment {
    match service.report().containment {
        ContainmentKind::Cgroup | ContainmentKind::Reaper => Containment::Tree,
        ContainmentKind::Group => Containment::Group,
    }
}

/// Starts a process in what the service can give.
pub(crate) async fn start(service: &ProcessService, spec: Spec) -> Process {
    let containment = containment(service);
    let spec = Spec {
        containment,
        ..spec
    };
    service.spawn(spec).await.unwrap()
}

/// Everything a process tells until it closes.
pub(crate) async fn listen(process: &Process) -> Vec<Event> {
    let mut output = process.output().unwrap();
    let mut events = Vec::new();
    let all = async {
        while let Some(event) = output.next().await {
            events.push(event);
        }
    };
    within("the close", DEADLINE, all).await.unwrap();
    let dense: Vec<u64> = (1..=events.len() as u64).collect();
    let told: Vec<u64> = events.iter().map(Event::seq).collect();
    assert_eq!(told, dense, "numbers have no gaps");
    events
}

/// What events say, one word each: output as text, `exited N`, `closed`.
pub(crate) fn words(events: &[Event]) -> Vec<String> {
    let word = |event: &Event| match event {
        Event::Output { bytes, .. } => String::from_utf8_lossy(bytes).trim().to_owned(),
        Event::Exited { status, .. } => format!("exited {}", status.code),
        Event::Closed { .. } => "closed".to_owned(),
    };
    events.iter().map(word).collect()
}

/// The text of one stream.
pub(crate) fn text(events: &[Event], of: StreamName) -> String {
    let mut text = Vec::new();
    for event in events {
        if let Event::Output { stream, bytes, .. } = event
            && *stream == of
        {
            text.extend_from_slice(bytes);
        }
    }
    String::from_utf8(text).unwrap()
}

/// The end of a process, which must come.
pub(crate) async fn end_of(process: &Process, until: Until) -> ExitStatus {
    let status = process.wait(until, Some(DEADLINE)).await;
    status.unwrap()
}

/// Until the process has written `word`, without taking it.
pub(crate) async fn until_it_says(process: &Process, word: &str) {
    let said = async {
        let mut after = 0;
        loop {
            let snapshot = process.snapshot();
            let streams = [&snapshot.stdout, &snapshot.stderr, &snapshot.terminal];
            if streams.iter().any(|stream| stream.text().contains(word)) {
                return;
            }
            assert!(snapshot.running, "it ended without saying {word}");
            process.readable(after).await;
            let page = process.read(after, None);
            after = page.chunks.last().map_or(after, |(seq, ..)| *seq);
        }
    };
    within(word, DEADLINE, said).await.unwrap();
}

/// Whether a process is there and not merely waiting to be reaped.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// Set in the process that [`alone`] starts.
const ALONE: &str = "TURNLANE_PROCESS_ALONE";

/// Whether this is the process that the test named `test` has for itself, where nobody else's memory
/// and descriptors are counted. If not, starts it, with these variables in its environment, and waits
/// for it to succeed.
pub(crate) async fn alone(test: &str, vars: &[(&str, &str)]) -> bool {
    if std::env::var(ALONE).is_ok_and(|name| name == test) {
        return true;
    }
    let service = service();
    let me = std::env::current_exe().unwrap();
    let args = ["--exact", test, "--nocapture", "--test-threads=1"];
    let argv = std::iter::once(me.into_os_string()).chain(args.map(Into::into));
    let mut spec = Spec::new(argv, "/");
    spec.env.vars = std::env::vars_os().collect();
    for (name, value) in vars.iter().chain(&[(ALONE, test)]) {
        spec.env.vars.insert(name.into(), value.into());
    }
    let process = start(&service, spec).await;
    let limit = Some(Duration::from_mins(5));
    let done = process
        .communicate(bytes::Bytes::new(), limit)
        .await
        .unwrap();
    let (out, err) = (done.snapshot.stdout.text(), done.snapshot.stderr.text());
    say(&format!("{out}{err}"));
    assert_eq!(done.status.code, 0, "{test} failed on its own");
    assert!(out.contains("1 passed"), "{test} ran");
    service.stop().await;
    false
}

/// A line for whoever looks at the output of a test.
#[expect(clippy::print_stderr, reason = "figures and skips are to be seen")]
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}

/// A number from the environment, for more runs than by default.
pub(crate) fn count_from(name: &str, default: usize) -> usize {
    let given = std::env::var(name).ok();
    given
        .and_then(|given| given.parse().ok())
        .unwrap_or(default)
}

/// A line of `/proc/self/status`, in kilobytes.
pub(crate) fn resident_kb() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Descriptors this process has open.
pub(crate) fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
