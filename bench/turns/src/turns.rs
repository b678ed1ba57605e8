//! Threads, turns and lists: how long they take and what they cost.

use serde_json::{Value, json};
use turnlane_benchkit::{Figures, Whose, float, median, table};
use turnlane_testkit::mock_model::{At, Gate, MockModel, Reply};

use crate::server::Server;

const ROUNDS: usize = 5;
const TURNS_PER_ROUND: usize = 30;
const THREADS_PER_ROUND: usize = 60;
const THREADS_AT_ONCE: usize = 8;
const TURNS_PER_THREAD: usize = 10;
const LISTED: usize = 200;
/// Created, in progress, item added, part added.
const BEFORE_FIRST_DELTA: usize = 4;

/// Both servers, with a model that answers at once.
async fn both(mock: &MockModel) -> anyhow::Result<[Option<Server>; 2]> {
    mock.choose_with(|_| Some(Reply::text("hello from the model")));
    let [codex, ours] = Whose::BOTH;
    Ok([
        Server::start(codex, mock).await?,
        Server::start(ours, mock).await?,
    ])
}

fn percentiles(what: &str, times: &[Figures; 2]) {
    for percent in [50, 99] {
        let figures = [times[0].percentile(percent), times[1].percentile(percent)];
        table::row(&format!("{what}, p{percent} ms"), figures);
    }
}

/// `thread/start`.
pub(crate) async fn threads() -> anyhow::Result<()> {
    let mock = MockModel::start().await?;
    let mut servers = both(&mock).await?;
    let mut times = [Figures::default(), Figures::default()];
    for _ in 0..ROUNDS {
        for (at, server) in servers.iter_mut().enumerate() {
            let Some(server) = server else { continue };
            for _ in 0..THREADS_PER_ROUND {
                let began = turnlane_benchkit::now();
                server.thread().await?;
                times[at].add_time(began.elapsed());
            }
        }
    }
    table::head();
    percentiles("thread/start", &times);
    Ok(())
}

/// `turn/start` to its answer and to `turn/completed`, and the server's processor time.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mock = MockModel::start().await?;
    let mut servers = both(&mock).await?;
    let mut answers = [Figures::default(), Figures::default()];
    let mut ends = answers.clone();
    let mut cpu = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (at, server) in servers.iter_mut().enumerate() {
            let Some(server) = server else { continue };
            let thread = server.thread().await?;
            let before = server.program.cpu_seconds()?;
            for _ in 0..TURNS_PER_ROUND {
                let began = turnlane_benchkit::now();
                let turn = server.begin(&thread).await?;
                answers[at].add_time(began.elapsed());
                server.completed(&turn).await?;
                ends[at].add_time(began.elapsed());
            }
            let used = server.program.cpu_seconds()? - before;
            cpu[at].push(used * 1e3 / float(TURNS_PER_ROUND));
        }
    }
    table::head();
    percentiles("turn/start to its answer", &answers);
    percentiles("turn/start to turn/completed", &ends);
    table::row("server CPU per turn, ms", cpu.map(median));
    Ok(())
}

/// Turns per second with eight threads at once.
pub(crate) async fn many() -> anyhow::Result<()> {
    let mock = MockModel::start().await?;
    let mut servers = both(&mock).await?;
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        for (at, server) in servers.iter_mut().enumerate() {
            let Some(server) = server else { continue };
            let mut threads = Vec::new();
            for _ in 0..THREADS_AT_ONCE {
                threads.push(server.thread().await?);
            }
            let began = turnlane_benchkit::now();
            for _ in 0..TURNS_PER_THREAD {
                for turn in server.begin_all(&threads).await? {
                    server.completed(&turn).await?;
                }
            }
            let turns = float(THREADS_AT_ONCE * TURNS_PER_THREAD);
            rates[at].push(turns / began.elapsed().as_secs_f64());
        }
    }
    table::head();
    let [codex, ours] = rates.map(median);
    table::row("8 threads at once, turns/s", [codex, ours]);
    table::row("ms of wall time per turn", [1e3 / codex, 1e3 / ours]);
    Ok(())
}

/// From the moment the model may send its first delta to the client having it.
pub(crate) async fn delta() -> anyhow::Result<()> {
    let mock = MockModel::start().await?;
    let mut servers = both(&mock).await?;
    let mut times = [Figures::default(), Figures::default()];
    for _ in 0..100 {
        for (at, server) in servers.iter_mut().enumerate() {
            let Some(server) = server else { continue };
            let gate = Gate::new();
            let reply = Reply::streamed(["one", "two"])
                .gated_by(At::AfterEvents(BEFORE_FIRST_DELTA), &gate);
            mock.push(reply);
            let thread = server.thread().await?;
            let turn = server.begin(&thread).await?;
            gate.reached().await;
            let began = turnlane_benchkit::now();
            gate.release();
            let of_this = move |message: &Value| {
                message["method"] == "item/agentMessage/delta"
                    && message["params"]["threadId"] == thread.as_str()
            };
            server.client.find("the first delta", of_this).await?;
            times[at].add_time(began.elapsed());
            server.completed(&turn).await?;
        }
    }
    table::head();
    percentiles("first delta, model to client", &times);
    Ok(())
}

/// A page of 25 of 200 threads.
pub(crate) async fn list() -> anyhow::Result<()> {
    let mock = MockModel::start().await?;
    let mut servers = both(&mock).await?;
    let mut times = [Figures::default(), Figures::default()];
    for (at, server) in servers.iter_mut().enumerate() {
        let Some(server) = server else { continue };
        for _ in 0..LISTED {
            let thread = server.thread().await?;
            let turn = server.begin(&thread).await?;
            server.completed(&turn).await?;
        }
        for _ in 0..40 {
            let began = turnlane_benchkit::now();
            let page = server.call("thread/list", json!({"limit": 25})).await?;
            times[at].add_time(began.elapsed());
            let len = page["data"].as_array().map_or(0, Vec::len);
            anyhow::ensure!(len == 25, "a page of {len}");
        }
    }
    table::head();
    percentiles("thread/list, 25 of 200", &times);
    Ok(())
}
