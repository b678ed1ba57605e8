//! The physical limits: the same work with nothing of ours around it.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Context as _;

use crate::now;

/// The standard library starts plain children with `posix_spawn`.
#[expect(
    clippy::disallowed_types,
    reason = "the limit is measured without the process service"
)]
type Command = std::process::Command;

fn command(argv: &[&str]) -> anyhow::Result<Command> {
    let (program, arguments) = argv.split_first().context("a program")?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    Ok(command)
}

/// `posix_spawn` and wait.
pub(crate) fn spawn_and_wait(argv: &[&str]) -> anyhow::Result<Duration> {
    let begun = now();
    command(argv)?.spawn()?.wait()?;
    Ok(begun.elapsed())
}

/// `posix_spawn` of as many as are wanted, so many at a time.
pub(crate) fn spawn_many(
    argv: &[&str],
    count: usize,
    in_flight: usize,
) -> anyhow::Result<Duration> {
    let begun = now();
    let mut running = std::collections::VecDeque::with_capacity(in_flight);
    for _ in 0..count {
        if running.len() == in_flight
            && let Some(oldest) = running.pop_front()
        {
            wait(oldest)?;
        }
        running.push_back(command(argv)?.spawn()?);
    }
    running.into_iter().try_for_each(wait)?;
    Ok(begun.elapsed())
}

fn wait(mut child: std::process::Child) -> anyhow::Result<()> {
    child.wait()?;
    Ok(())
}

/// Reads all a child writes to a pipe, 64 KiB at a time.
pub(crate) fn drain_pipe(argv: &[&str]) -> anyhow::Result<usize> {
    let mut child = command(argv)?
        .stdout(std::process::Stdio::piped())
        .spawn()?;
    let mut pipe = child.stdout.take().context("a pipe")?;
    let bytes = read_all(|buffer| pipe.read(buffer))?;
    child.wait()?;
    Ok(bytes)
}

/// A terminal and a child on its other side.
pub(crate) fn on_terminal(argv: &[&str]) -> anyhow::Result<(OwnedFd, std::process::Child)> {
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let master = rustix::pty::openpt(flags | rustix::pty::OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let other = rustix::pty::ioctl_tiocgptpeer(&master, flags | rustix::pty::OpenptFlags::CLOEXEC)?;
    let child = command(argv)?
        .stdin(other.try_clone()?)
        .stdout(other.try_clone()?)
        .stderr(other)
        .spawn()?;
    Ok((master, child))
}

/// Reads all a child writes to a terminal.
pub(crate) fn drain_terminal(argv: &[&str]) -> anyhow::Result<usize> {
    let (master, mut child) = on_terminal(argv)?;
    let bytes = read_all(|buffer| match rustix::io::read(&master, buffer) {
        Err(rustix::io::Errno::IO) => Ok(0),
        other => Ok(other?),
    })?;
    child.wait()?;
    Ok(bytes)
}

fn read_all(mut read: impl FnMut(&mut [u8]) -> std::io::Result<usize>) -> anyhow::Result<usize> {
    let mut buffer = vec![0; 64 * 1024];
    let mut bytes = 0;
    loop {
        match read(&mut buffer)? {
            0 => return Ok(bytes),
            count => bytes += count,
        }
    }
}
