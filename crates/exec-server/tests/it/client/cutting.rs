//! Connections to our own server that are cut at any moment, by a proxy between.
//!
//! The moments are pseudo-random and the same in every run. `TURNLANE_RESUME_ROUNDS` asks for more of
//! them than the few that every test run can afford.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use turnlane_exec_server::client::{ClientOptions, Event, ExecClient, ProcessOutput, StartSpec};
use turnlane_process::Until;
use turnlane_testkit::wait::{DEADLINE, within};

use crate::support::Host;

/// Forwards connections, and cuts each of the first ones after so many bytes of the server.
struct Proxy {
    url: String,
    connections: Arc<AtomicUsize>,
    _forwarding: JoinSet<()>,
}

impl Proxy {
    fn start(server: &str, cuts: Vec<usize>) -> Self {
        let listener = small_socket();
        listener.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = listener.listen(16).unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let upstream = server.strip_prefix("ws://").unwrap();
        let upstream = upstream.trim_end_matches('/').parse().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let mut forwarding = JoinSet::new();
        forwarding.spawn(async move {
            let mut open = JoinSet::new();
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let number = counted.fetch_add(1, Ordering::Relaxed);
                let far = small_socket().connect(upstream).await.unwrap();
                for socket in [&near, &far] {
                    socket.set_nodelay(true).unwrap();
                }
                let cut = cuts.get(number).copied();
                open.spawn(async move { forward(near, far, cut.unwrap_or(usize::MAX)).await });
            }
        });
        Self {
            url,
            connections,
            _forwarding: forwarding,
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

/// What a proxy holds is lost with it, and a server promises 384 KiB of what it sent, not the
/// megabytes that buffers may grow to.
fn small_socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    socket.set_send_buffer_size(16 * 1024).unwrap();
    socket
}

/// Forwards both ways; `left` bytes of the server later both ends are closed, with whatever was on
/// its way lost.
async fn forward(near: TcpStream, far: TcpStream, mut left: usize) {
    let (mut near_reads, mut near_writes) = near.into_split();
    let (mut far_reads, mut far_writes) = far.into_split();
    let up = async { _ = tokio::io::copy(&mut near_reads, &mut far_writes).await };
    let down = async {
        let mut buffer = vec![0; 16 * 1024];
        while left > 0 {
            let Ok(count @ 1..) = far_reads.read(&mut buffer).await else {
                return;
            };
            let count = count.min(left);
            left -= count;
            if near_writes.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

/// The same numbers in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

fn rounds() -> u64 {
    let asked = std::env::var("TURNLANE_RESUME_ROUNDS").ok();
    asked.map_or(3, |rounds| rounds.parse().unwrap())
}

async fn client(proxy: &Proxy) -> ExecClient {
    let options = ClientOptions {
        resume: true,
        ..ClientOptions::new("a test")
    };
    ExecClient::connect_websocket(&proxy.url, options)
        .await
        .unwrap()
}

fn script(script: &str) -> StartSpec {
    let path = std::env::var("PATH").unwrap();
    StartSpec::new(["/bin/sh", "-c", script], "/").env("PATH", path)
}

async fn stop(host: &Host) {
    let stopping = within("the server to stop", DEADLINE, host.server.stop());
    stopping.await.unwrap();
}

/// Everything on standard output, with dense numbers, to the close.
async fn read_all(mut output: ProcessOutput) -> Vec<u8> {
    let mut pieces = Vec::new();
    let mut next_seq = 1;
    while let Some(event) = output.next().await.unwrap() {
        let seq = match event {
            Event::Output { seq, bytes, .. } => {
                pieces.push(bytes);
                seq
            }
            Event::Exited { seq, .. } | Event::Closed { seq, .. } => seq,
            other => panic!("{other:?}"),
        };
        assert_eq!(seq, next_seq, "numbers are dense");
        next_seq += 1;
    }
    pieces.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_is_whole_however_often_the_connection_is_cut() {
    // Below what the client queues for a reader that is slow: nothing here depends on its speed.
    const LINES: usize = 500_000;
    let mut expected = String::new();
    for line in 1..=LINES {
        writeln!(expected, "{line}").unwrap();
    }
    let host = Host::start();
    for round in 0..rounds() {
        let mut dice = Dice(round + 1);
        // A cut may come at any moment after the handshake, also before what was lost with the one
        // before is told again.
        let mut cut = || 3000 + dice.below(1_200_000);
        let proxy = Proxy::start(&host.url, vec![cut(), cut(), cut()]);
        let client = client(&proxy).await;
        let mut events = client.events();
        let process = client
            .start(script(&format!("seq 1 {LINES}")))
            .await
            .unwrap();
        let reading = read_all(process.output().unwrap());
        let got = within("the whole output", DEADLINE, reading).await.unwrap();
        assert_eq!(got.len(), expected.len(), "round {round}");
        assert!(got == expected.as_bytes(), "round {round}");
        // More when a new connection came before the server had missed the old one.
        assert!(proxy.connections() >= 4, "cut three times");
        let mut resumed = 0;
        while let Some(event) = events.try_next() {
            resumed += usize::from(event == Event::Resumed);
        }
        assert!(resumed <= 3, "{resumed}");
    }
    stop(&host).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn input_is_written_once_however_often_the_connection_is_cut() {
    let host = Host::start();
    for round in 0..rounds() {
        let mut dice = Dice(round + 100);
        let mut cut = || 2500 + dice.below(6000);
        let proxy = Proxy::start(&host.url, (0..5).map(|_| cut()).collect());
        let client = client(&proxy).await;
        let process = client.start(script("cat").with_stdin()).await.unwrap();
        let mut expected = String::new();
        let writing = async {
            for line in 0..300 {
                let line = format!("line {line}\n");
                expected.push_str(&line);
                process.write(line).await.unwrap();
            }
            // The one call that may meet a cut and is not repeated by itself.
            while process.close_stdin().await.is_err() {}
        };
        let reading = read_all(process.output().unwrap());
        let both = async { tokio::join!(writing, reading).1 };
        let got = within("the whole output", DEADLINE, both).await.unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), expected, "round {round}");
        assert!(proxy.connections() > 1, "it was cut at least once");
    }
    stop(&host).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exit_while_nobody_was_connected_is_told() {
    let host = Host::start();
    let proxy = Proxy::start(&host.url, vec![3000]);
    let client = client(&proxy).await;
    // Far more than the cut lets through, then the end.
    let spec = script("seq 1 20000; kill -TERM $$");
    let process = client.start(spec).await.unwrap();
    let exit = process.wait(Until::Closed, Some(DEADLINE)).await.unwrap();
    let exit = exit.unwrap();
    assert_eq!((exit.code, exit.signal), (143, Some(15)));
    assert!(proxy.connections() >= 2);
    drop(client);
    stop(&host).await;
}
