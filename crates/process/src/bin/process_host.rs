//! A host of a process service, for tests that kill it.
//!
//! `process_host KIND COUNT IO MARK` starts a service with the containment `KIND` and `COUNT` trees
//! in pipes or terminals (`pipe`, `pty`). Every process of a tree has `TL_MARK=MARK` in its
//! environment, so that a test finds it whatever became of its parents. It then says `ready` and does
//! what the lines on its standard input say:
//!
//! - `end`: ends all trees, forced, and says how each leader ended;
//! - `statuses`: waits for the leaders and says how each ended;
//! - `one`: starts a program that exits with 5 and says how it ended;
//! - `loop LIMIT`: starts a fork loop under a limit of processes and says `looping`;
//! - `tree SCRIPT`: starts one more tree and says `started`;
//! - `unkillable`: waits until a member could not be killed and says who is left;
//! - `confined POLICY SCRIPT`: starts one more tree, in `bash`, under `read-only` with network,
//!   `workspace-write` with network or no policy (`open`), and says what its first line is;
//! - `bounded LIMIT SCRIPT`: the same under `workspace-write` and a limit of processes;
//! - `peer PID`: says whether the process counts as a confined client;
//! - `tcp-peer PEER OURS`: the same for the ends of a TCP connection;
//! - `tcp POLICY`: the same for a TCP client that is a daemon of such a tree.
//!
//! Without the containment it says `unavailable` and why. It stops at the end of its input.

#![expect(clippy::print_stdout, reason = "tests read what it says")]

use std::error::Error;
use std::fmt::Write;
use std::io::BufRead;
use std::time::Duration;

use turnlane_process::{
    ContainmentKind, Delivery, End, Io, Limits, Options, Process, ProcessService, Sandbox,
    SocketPeer, Spec, Stdin, TerminalSize, Until,
};

/// A member that left the session, a daemon that left its parent, one that left nothing.
const TREE: &str = "setsid sleep 1000 & (setsid sleep 1000 &) ; sleep 1000";

/// Forks two of itself for ever.
const LOOP: &str = ":(){ :|:& };: ; sleep 1000";

/// How long a leader may take to end.
const LIMIT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    turnlane_process::keeper_hook();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(host())
}

async fn host() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, count, io, mark] = arguments.as_slice() else {
        return Err("process_host KIND COUNT IO MARK".into());
    };
    let service = match ProcessService::start(options(kind)?) {
        Ok(service) => service,
        Err(error) => {
            println!("unavailable: {error}");
            return Ok(());
        }
    };
    let mut trees = Vec::new();
    for _ in 0..count.parse()? {
        trees.push(service.spawn(spec("sh", TREE, io, mark)).await?);
    }
    println!("ready");
    let mut lines = lines();
    while let Some(line) = lines.recv().await {
        match line.split_once(' ') {
            None if line == "end" => {
                for tree in &trees {
                    tree.end(End::Force);
                }
                say_ends(&trees).await?;
            }
            None if line == "statuses" => say_ends(&trees).await?,
            None if line == "one" => {
                let one = service.spawn(spec("sh", "exit 5", io, mark)).await?;
                say_ends(&[one]).await?;
            }
            Some(("loop", limit)) => {
                let mut spec = spec("bash", LOOP, io, mark);
                spec.limits = Limits {
                    processes: Some(limit.parse()?),
                    ..Limits::default()
                };
                trees.push(service.spawn(spec).await?);
                println!("looping");
            }
            Some(("tree", script)) => {
                trees.push(service.spawn(spec("sh", script, io, mark)).await?);
                println!("started");
            }
            None if line == "unkillable" => {
                let left: Vec<_> = trees.iter().map(|tree| tree.snapshot().survivors).collect();
                println!("{} left {left:?}", service.counters().unkillable);
            }
            Some((command, rest)) => {
                let said = about_confinement(&service, &mut trees, command, rest, mark).await?;
                println!("{said}");
            }
            None => return Err(format!("no such command: {line}").into()),
        }
    }
    service.stop().await;
    Ok(())
}

/// Commands about processes under a policy; what is said to them.
async fn about_confinement(
    service: &ProcessService,
    trees: &mut Vec<Process>,
    command: &str,
    rest: &str,
    mark: &str,
) -> Result<String, Box<dyn Error>> {
    let two = || rest.split_once(' ').ok_or("two arguments are needed");
    let spec = match command {
        "confined" => {
            let (policy, script) = two()?;
            confined(policy, script, mark)?
        }
        "bounded" => {
            let (limit, script) = two()?;
            let mut spec = confined("workspace-write", script, mark)?;
            spec.limits.processes = Some(limit.parse()?);
            spec
        }
        "peer" => {
            let peer = SocketPeer::Pid(rest.parse()?);
            return Ok(service.is_confined_peer(peer).to_string());
        }
        "tcp-peer" => {
            let (peer, ours) = two()?;
            let (peer, ours) = (peer.parse()?, ours.parse()?);
            let peer = SocketPeer::Tcp { peer, ours };
            return Ok(service.is_confined_peer(peer).to_string());
        }
        "tcp" => {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
            let port = listener.local_addr()?.port();
            let client = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && sleep 1000");
            let script = format!("(setsid bash -c '{client}' &); echo started");
            trees.push(service.spawn(confined(rest, &script, mark)?).await?);
            let (accepted, peer) = listener.accept()?;
            let ours = accepted.local_addr()?;
            let peer = SocketPeer::Tcp { peer, ours };
            return Ok(service.is_confined_peer(peer).to_string());
        }
        _ => return Err(format!("no such command: {command}").into()),
    };
    let tree = service.spawn(spec).await?;
    let said = first_line(&tree).await?;
    trees.push(tree);
    Ok(said)
}

fn options(kind: &str) -> Result<Options, Box<dyn Error>> {
    let kinds = [
        ContainmentKind::Cgroup,
        ContainmentKind::Reaper,
        ContainmentKind::Group,
    ];
    let kind = kinds.into_iter().find(|known| known.name() == kind);
    Ok(Options {
        containment: Some(kind.ok_or("no such containment")?),
        ..Options::default()
    })
}

fn spec(shell: &str, script: &str, io: &str, mark: &str) -> Spec {
    let mut spec = Spec::new([shell, "-c", script], "/");
    let path = std::env::var_os("PATH").unwrap_or_default();
    spec.env.vars.insert("PATH".into(), path);
    spec.env.vars.insert("TL_MARK".into(), mark.into());
    spec.delivery = Delivery::Retain;
    spec.io = match io {
        "pty" => Io::Pty(TerminalSize::default()),
        _ => Io::Pipe {
            stdin: Stdin::Closed,
        },
    };
    spec
}

fn confined(policy: &str, script: &str, mark: &str) -> Result<Spec, Box<dyn Error>> {
    let sandbox = match policy {
        "read-only" => Sandbox::ReadOnly { network: true },
        "workspace-write" => Sandbox::WorkspaceWrite {
            roots: Vec::new(),
            network: true,
            exclude_tmpdir: false,
            exclude_slash_tmp: false,
        },
        "open" => Sandbox::DangerFullAccess,
        _ => return Err(format!("no such policy: {policy}").into()),
    };
    Ok(Spec {
        sandbox,
        ..spec("bash", script, "pipe", mark)
    })
}

/// The first line of a process's output, without taking it.
async fn first_line(process: &Process) -> Result<String, Box<dyn Error>> {
    let said = async {
        let mut after = 0;
        loop {
            if let Some((line, _)) = process.snapshot().stdout.text().split_once('\n') {
                return line.to_owned();
            }
            process.readable(after).await;
            let page = process.read(after, None);
            after = page.chunks.last().map_or(after, |(seq, ..)| *seq);
        }
    };
    Ok(tokio::time::timeout(LIMIT, said).await?)
}

/// One line: `ended CODE:REASON ...`.
async fn say_ends(processes: &[Process]) -> Result<(), Box<dyn Error>> {
    let mut line = String::from("ended");
    for process in processes {
        let status = process.wait(Until::Exited, Some(LIMIT)).await;
        let status = status.ok_or("a leader did not end")?;
        write!(line, " {}:{:?}", status.code, status.reason)?;
    }
    println!("{line}");
    Ok(())
}

/// Lines of standard input. The thread ends with the input, or with the program.
fn lines() -> tokio::sync::mpsc::Receiver<String> {
    // A test waits for each answer, so more than one line hardly ever waits.
    let (sender, receiver) = tokio::sync::mpsc::channel(8);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
