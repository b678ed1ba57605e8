//! Output of one loud process: bare, over a websocket, and in one program.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use turnlane_process::{Event, Io, Options, ProcessService, Spec, TerminalSize};
use turnlane_protocol::exec_server::Blob;
use turnlane_rpc::Inbound;
use turnlane_rpc::auth::WsAuth;
use turnlane_rpc::connect::{self, connect_ws};
use turnlane_rpc::listen::{self, Listener};

use crate::sample::{Figures, float, head, shown};
use crate::servers::{Server, Whose};
use crate::wire::{Process, Wire};
use crate::{bare, cpu_time, now, runtime};

const ROUNDS: usize = 5;
const PIPE_MB: usize = 512;
const TERMINAL_MB: usize = 24;
const MB: usize = 1_000_000;

/// One round.
fn add(figures: &mut Figures, megabytes: usize, elapsed: Duration, cpu: f64) {
    let rate = float(megabytes) / elapsed.as_secs_f64();
    figures.rate.value(rate);
    figures.cpu.value(cpu * 1e3 / float(megabytes));
}

pub(crate) fn pipes() -> anyhow::Result<()> {
    let bytes = (PIPE_MB * MB).to_string();
    let argv = ["/usr/bin/head", "-c", &bytes, "/dev/zero"];
    let (mut pipe, mut socket) = (Figures::default(), Figures::default());
    let figures = contenders(
        &argv,
        PIPE_MB,
        Io::Pipe {
            stdin: turnlane_process::Stdin::Closed,
        },
        |_| {
            let (begun, before) = (now(), cpu_time());
            anyhow::ensure!(bare::drain_pipe(&argv)? == PIPE_MB * MB, "a short read");
            add(&mut pipe, PIPE_MB, begun.elapsed(), cpu_time() - before);
            Ok(())
        },
        &mut socket,
    )?;
    head(&[
        "output of a pipe",
        "MB/s",
        "÷ websocket",
        "CPU ms per MB",
        "÷ websocket",
    ]);
    pipe.line("a bare pipe", &socket);
    socket.line("a bare loopback websocket with base64, both ends", &socket);
    for (whose, figures) in Whose::ALL.iter().zip(&figures) {
        figures.line(&format!("{}, both ends", whose.name()), &socket);
    }
    figures[2].line("ours, in process", &socket);
    crate::println(&format!(
        "\nIn process ÷ bare pipe: {}",
        shown(figures[2].rate.median() / pipe.rate.median())
    ));
    Ok(())
}

pub(crate) fn terminals() -> anyhow::Result<()> {
    let bytes = (TERMINAL_MB * MB).to_string();
    let argv = ["/usr/bin/head", "-c", &bytes, "/dev/zero"];
    let mut terminal = Figures::default();
    let io = Io::Pty(TerminalSize::default());
    let figures = contenders(
        &argv,
        TERMINAL_MB,
        io,
        |_| {
            let (begun, before) = (now(), cpu_time());
            anyhow::ensure!(
                bare::drain_terminal(&argv)? == TERMINAL_MB * MB,
                "a short read"
            );
            add(
                &mut terminal,
                TERMINAL_MB,
                begun.elapsed(),
                cpu_time() - before,
            );
            Ok(())
        },
        &mut Figures::default(),
    )?;
    head(&[
        "output of a terminal",
        "MB/s",
        "÷ limit",
        "CPU ms per MB",
        "÷ limit",
    ]);
    terminal.line("a bare terminal", &terminal);
    for (whose, figures) in Whose::ALL.iter().zip(&figures) {
        figures.line(&format!("{}, both ends", whose.name()), &terminal);
    }
    figures[2].line("ours, in process", &terminal);
    Ok(())
}

/// Codex, ours and ours in process, in rounds with the limits.
fn contenders(
    argv: &[&str],
    megabytes: usize,
    io: Io,
    mut limit: impl FnMut(usize) -> anyhow::Result<()>,
    socket: &mut Figures,
) -> anyhow::Result<[Figures; 3]> {
    let mut figures = [(); 3].map(|()| Figures::default());
    let terminal = matches!(io, Io::Pty(_));
    let mut servers = Vec::new();
    let runtime = runtime()?;
    for whose in Whose::ALL {
        servers.push(runtime.block_on(Server::start(whose))?);
    }
    let service = runtime.block_on(async { ProcessService::start(Options::default()) })?;
    for round in 0..ROUNDS {
        limit(round)?;
        if !terminal {
            bare_websocket(megabytes, socket)?;
        }
        for (server, figures) in servers.iter().zip(&mut figures) {
            let Some(server) = server else { continue };
            runtime.block_on(async {
                let mut wire = Wire::connect(&server.url).await?;
                let (begun, before) = (now(), cpu_time() + server.cpu_time()?);
                let process = Process {
                    argv,
                    tty: terminal,
                    ..Process::default()
                };
                wire.start(round + 1, &process);
                wire.flush().await?;
                anyhow::ensure!(wire.drain().await? == megabytes * MB, "lost output");
                let cpu = cpu_time() + server.cpu_time()? - before;
                add(figures, megabytes, begun.elapsed(), cpu);
                anyhow::Ok(())
            })?;
        }
        runtime.block_on(async {
            let (begun, before) = (now(), cpu_time());
            let spec = Spec {
                io,
                ..Spec::new(argv.iter().copied(), "/")
            };
            let process = service.spawn(spec).await?;
            let mut output = process.output()?;
            let mut bytes = 0;
            while let Some(event) = output.next().await {
                if let Event::Output { bytes: chunk, .. } = event {
                    bytes += chunk.len();
                }
            }
            anyhow::ensure!(bytes == megabytes * MB, "lost output");
            add(
                &mut figures[2],
                megabytes,
                begun.elapsed(),
                cpu_time() - before,
            );
            anyhow::Ok(())
        })?;
    }
    Ok(figures)
}

/// 64 KiB at a time as base64 in websocket messages, from one thread to another.
fn bare_websocket(megabytes: usize, figures: &mut Figures) -> anyhow::Result<()> {
    let chunk = vec![0_u8; 64 * 1024];
    let messages = megabytes * MB / chunk.len();
    let one = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
    };
    let addr = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let (told, url) = std::sync::mpsc::sync_channel(1);
    let server = std::thread::spawn(move || {
        one()?.block_on(async {
            let listener = Listener::bind_tcp(addr, WsAuth::None, listen::Options::default())?;
            told.send(listener.bound().to_string())?;
            let (accepted, mut arriving) = tokio::sync::mpsc::channel(1);
            let stop = CancellationToken::new();
            let serving = tokio::spawn(listener.run(stop.clone(), move |one| {
                // Only the first is waited for.
                let _ = accepted.try_send(one);
            }));
            let Some(first) = arriving.recv().await else {
                anyhow::bail!("nobody came");
            };
            let mut frames = first.duplex.into_frames();
            let writer = &mut frames.writer;
            for _ in 0..messages {
                let mut encoded = vec![0; Blob::encoded_bytes(chunk.len())];
                Blob::encode_to(&chunk, &mut encoded);
                writer.push(Bytes::from(encoded));
                writer.flush(Duration::from_secs(30)).await?;
            }
            stop.cancel();
            serving.await?;
            anyhow::Ok(())
        })
    });
    let url = url.recv()?;
    let (begun, before) = (now(), cpu_time());
    one()?.block_on(async {
        let duplex = connect_ws(&url, &connect::Options::default()).await?;
        let mut frames = duplex.into_frames();
        let mut decoded = vec![0; 70 * 1024];
        for _ in 0..messages {
            if let Some(Inbound::Message(frame)) = frames.reader.next().await? {
                STANDARD.decode_slice(&frame, &mut decoded)?;
            }
        }
        anyhow::Ok(())
    })?;
    add(figures, megabytes, begun.elapsed(), cpu_time() - before);
    match server.join() {
        Ok(ended) => ended,
        Err(_) => anyhow::bail!("the bare server panicked"),
    }
}
