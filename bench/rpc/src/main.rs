//! How close the JSON-RPC peer comes to the physical limit of a loopback echo.
//!
//! Each link (memory, unix, websocket) carries echo requests of the same bytes as a bare TCP echo,
//! with 1, 64 and 1,024 requests in flight. Client and server have a thread each, ours as the bare
//! one. Everything is measured in rounds that take turns, so that a noisy moment of the machine
//! falls on all alike; what counts is the ratio to the bare echo of the same run.
//!
//! The last table shows what a client that has stopped reading costs its neighbour.

mod bare;
mod ours;

use std::time::Duration;

use ours::{Link, Server};

/// Rounds that take turns.
const ROUNDS: usize = 5;
/// Requests of one round, by how many are in flight.
const IN_FLIGHT: [(usize, usize); 3] = [(1, 4_000), (64, 40_000), (1_024, 80_000)];
/// The params of a request; with its envelope it is a frame of about 130 bytes.
const TEXT_BYTES: usize = 80;

/// What one or more rounds measured.
#[derive(Default)]
struct Sample {
    round_trips: Vec<Duration>,
    requests: usize,
    elapsed: Duration,
}

impl Sample {
    fn add(&mut self, mut other: Sample) {
        self.round_trips.append(&mut other.round_trips);
        self.requests += other.requests;
        self.elapsed += other.elapsed;
    }

    /// The given percentile in microseconds.
    fn percentile(&mut self, percent: usize) -> f64 {
        self.round_trips.sort_unstable();
        let at = self.round_trips.len() * percent / 100;
        self.round_trips
            .get(at)
            .map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn per_second(&self) -> f64 {
        self.requests as f64 / self.elapsed.as_secs_f64()
    }
}

fn main() -> anyhow::Result<()> {
    let bare = bare::Server::start()?;
    let server = Server::start()?;
    println("| in flight | link | p50 µs | p99 µs | requests/s | p50 ÷ bare | requests/s ÷ bare |");
    println("| ---: | --- | ---: | ---: | ---: | ---: | ---: |");
    for (in_flight, requests) in IN_FLIGHT {
        let mut limit = Sample::default();
        let mut samples = Link::ALL.map(|link| (link, Sample::default()));
        for _ in 0..ROUNDS {
            limit.add(bare.echo(in_flight, requests)?);
            for (link, sample) in &mut samples {
                sample.add(server.echo(*link, in_flight, requests)?);
            }
        }
        let (bare_p50, bare_rate) = (limit.percentile(50), limit.per_second());
        row(in_flight, "bare TCP", &mut limit, bare_p50, bare_rate);
        for (link, sample) in &mut samples {
            row(in_flight, link.name(), sample, bare_p50, bare_rate);
        }
    }
    println("");
    println("| a websocket client beside | p50 µs | p99 µs | p50 ÷ alone |");
    println("| --- | ---: | ---: | ---: |");
    let (mut alone, mut beside) = (Sample::default(), Sample::default());
    for _ in 0..ROUNDS {
        alone.add(server.echo(Link::WebSocket, 1, 4_000)?);
        beside.add(server.echo_beside_a_stalled_client(4_000)?);
    }
    let alone_p50 = alone.percentile(50);
    for (name, sample) in [
        ("nobody", &mut alone),
        ("one that has stopped reading", &mut beside),
    ] {
        let (p50, p99) = (sample.percentile(50), sample.percentile(99));
        println(&format!(
            "| {name} | {p50:.1} | {p99:.1} | {:.2} |",
            p50 / alone_p50
        ));
    }
    Ok(())
}

fn row(in_flight: usize, name: &str, sample: &mut Sample, bare_p50: f64, bare_rate: f64) {
    let (p50, p99, rate) = (
        sample.percentile(50),
        sample.percentile(99),
        sample.per_second(),
    );
    println(&format!(
        "| {in_flight} | {name} | {p50:.1} | {p99:.1} | {rate:.0} | {:.2} | {:.2} |",
        p50 / bare_p50,
        rate / bare_rate
    ));
}

#[expect(clippy::print_stdout, reason = "the result of a benchmark")]
fn println(line: &str) {
    println!("{line}");
}

/// The one clock of the benchmark.
#[expect(
    clippy::disallowed_methods,
    reason = "measuring is what this program is for"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
