//! A server that reads every request and says what chaos tells it to.
//!
//! The invariant here: it reads and writes in two tasks, so it never keeps a client from writing,
//! and while it is mad it speaks every tenth of a second though nobody asks.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use turnlane::Endpoint;
use turnlane_rpc::Duplex;
use turnlane_testkit::wait::{DEADLINE, within};

use super::chaos::Chaos;
use crate::double::{Kind, initialized};

const PIPE_BYTES: usize = 64 << 10;
const WAITING_MAX: usize = 64;

/// How much it says by itself before it falls silent.
const OUTBURSTS_MAX: usize = 2_000;

/// The server's end.
#[derive(Debug)]
pub(crate) struct Wild {
    calm: Arc<AtomicBool>,
    out: mpsc::Sender<String>,
    reading: JoinHandle<()>,
    writing: JoinHandle<()>,
}

impl Wild {
    /// A server that initialises in order and is mad from then on.
    pub(crate) fn start(kind: Kind, chaos: Chaos) -> (Self, Endpoint) {
        Self::with(Some(kind), chaos)
    }

    /// A server that is mad from the beginning.
    pub(crate) fn start_mad(chaos: Chaos) -> (Self, Endpoint) {
        Self::with(None, chaos)
    }

    fn with(kind: Option<Kind>, chaos: Chaos) -> (Self, Endpoint) {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let (read, write) = tokio::io::split(theirs);
        let endpoint = Endpoint::io(Duplex::lines(read, write));
        let (read, write) = tokio::io::split(ours);
        let calm = Arc::new(AtomicBool::new(false));
        let (out, lines) = mpsc::channel(WAITING_MAX);
        let reading = read_requests(read, out.clone(), Arc::clone(&calm), kind, chaos);
        let wild = Self {
            calm,
            out,
            reading: tokio::spawn(reading),
            writing: tokio::spawn(write_lines(write, lines)),
        };
        (wild, endpoint)
    }

    /// From now on it only answers, and sensibly.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    /// Tells the client something.
    pub(crate) async fn tell(&self, method: &str, params: &Value) {
        self.say(&json!({"method": method, "params": params})).await;
    }

    /// Sends a message as it is.
    pub(crate) async fn say(&self, message: &Value) {
        self.out.send(message.to_string()).await.unwrap();
    }

    /// Waits until the client is gone.
    pub(crate) async fn ended(self) {
        drop(self.out);
        let end = async {
            self.reading.await.unwrap();
            self.writing.await.unwrap();
        };
        within("the end of the client", DEADLINE, end)
            .await
            .unwrap();
    }
}

async fn read_requests(
    read: ReadHalf<DuplexStream>,
    out: mpsc::Sender<String>,
    calm: Arc<AtomicBool>,
    kind: Option<Kind>,
    mut chaos: Chaos,
) {
    let mut lines = BufReader::new(read).lines();
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    let mut outbursts = 0;
    let mut initialised = kind.is_none();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => match line {
                Ok(Some(line)) => Some(line),
                Ok(None) | Err(_) => return,
            },
            _ = tick.tick(), if outbursts < OUTBURSTS_MAX => None,
        };
        let mut says = Vec::new();
        let is_calm = calm.load(Ordering::Relaxed) || !initialised;
        if let Some(line) = line {
            let request: Value = serde_json::from_str(&line).unwrap();
            says = answers(&request, kind, is_calm.then_some(()), &mut chaos);
            // What it said before could pass for the answer.
            initialised |= request["method"] == "initialized";
        }
        if !is_calm && outbursts < OUTBURSTS_MAX {
            for _ in 0..chaos.below(8) {
                outbursts += 1;
                let at = usize::try_from(chaos.below(8)).unwrap().min(says.len());
                says.insert(at, chaos.outburst());
            }
        }
        for message in says {
            // The client may be gone already.
            let _ = out.send(message.to_string()).await;
        }
    }
}

/// What a request is answered with; notifications and answers of the client need nothing.
fn answers(request: &Value, kind: Option<Kind>, calm: Option<()>, chaos: &mut Chaos) -> Vec<Value> {
    let (Some(id), Some(method)) = (request.get("id"), request["method"].as_str()) else {
        return Vec::new();
    };
    match (method, kind, calm) {
        ("initialize", Some(kind), _) => vec![json!({"id": id, "result": initialized(kind)})],
        (_, _, Some(())) => vec![json!({"id": id, "result": {"calm": true}})],
        (_, _, None) => chaos.answers(id, method),
    }
}

async fn write_lines(mut write: WriteHalf<DuplexStream>, mut lines: mpsc::Receiver<String>) {
    while let Some(line) = lines.recv().await {
        let line = line + "\n";
        // A client that is gone reads nothing; the reading half sees its end.
        if write.write_all(line.as_bytes()).await.is_err() {
            lines.close();
        }
    }
}

thread_local! {
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

/// Counts panics of this thread from now on, also those that a task keeps to itself.
pub(crate) fn count_panics() -> impl Fn() -> u32 {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.with(|panics| panics.set(panics.get() + 1));
            before(info);
        }));
    });
    let before = PANICS.with(Cell::get);
    move || PANICS.with(Cell::get) - before
}
