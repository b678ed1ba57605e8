//! Processor time and memory of a process and of everything it started, its own program apart.
//!
//! The invariant here: a process that has ended is counted by the one that waited for it, and every
//! process that lives by itself; so none is counted twice, and none is lost as long as its parent is one
//! of the tree.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::figures::float;
use anyhow::Context as _;

/// Processor time of a tree of processes.
#[derive(Clone, Copy, Debug)]
pub struct CpuSeconds {
    /// Of the living processes that run the same program as the root: our server with its keeper.
    pub own: f64,
    /// Of all, those that have ended included.
    pub all: f64,
}

/// The parts of a `stat` line that are of interest.
struct Process {
    parent: usize,
    own_ticks: usize,
    /// Ticks of its children that it waited for.
    waited_ticks: usize,
}

/// Seconds that a process and its descendants have computed so far.
pub fn cpu_seconds(root: i32) -> anyhow::Result<CpuSeconds> {
    let below = below(root)?;
    let program = program(usize::try_from(root)?);
    let own = below
        .iter()
        .filter(|(pid, _)| self::program(**pid) == program);
    let own: usize = own.map(|(_, process)| process.own_ticks).sum();
    let all = below.values();
    let all: usize = all
        .map(|process| process.own_ticks + process.waited_ticks)
        .sum();
    // Ticks of 10 ms.
    let seconds = |ticks| float(ticks) / 100.0;
    Ok(CpuSeconds {
        own: seconds(own),
        all: seconds(all),
    })
}

/// Seconds that the children of a process have computed which it waited for.
pub fn children_seconds(pid: i32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let process = parse(&stat).context("a stat line")?;
    Ok(float(process.waited_ticks) / 100.0)
}

/// Seconds that the threads of one process have computed, exact to nanoseconds.
pub fn thread_seconds(pid: i32) -> anyhow::Result<f64> {
    let mut seconds = 0.0;
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // One that has ended since is not counted.
        let Ok(line) = std::fs::read_to_string(entry?.path().join("schedstat")) else {
            continue;
        };
        let figure = line.split_whitespace().next().context("a schedstat line")?;
        seconds += figure.parse::<f64>()? / 1e9;
    }
    Ok(seconds)
}

/// The processes that a process started, and those that they started.
pub fn descendants(root: i32) -> anyhow::Result<Vec<i32>> {
    let mut pids = Vec::new();
    for pid in below(root)?.into_keys() {
        let pid = i32::try_from(pid)?;
        if pid != root {
            pids.push(pid);
        }
    }
    Ok(pids)
}

/// Megabytes of a process, with a part of each page that it shares with others.
pub fn proportional_mb(pid: i32) -> anyhow::Result<f64> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = maps.lines().find_map(|line| line.strip_prefix("Pss:"));
    let figure = line.and_then(|line| line.split_whitespace().next());
    Ok(figure.context("no Pss")?.parse::<f64>()? * 1024.0 / 1e6)
}

/// Megabytes that are not files, of a process and of those descendants that run the same program. Pages
/// that they share with each other count once.
pub fn own_memory_mb(root: i32) -> anyhow::Result<f64> {
    let program = program(usize::try_from(root)?);
    let mut kib = 0.0;
    for pid in below(root)?.into_keys() {
        if self::program(pid) != program {
            continue;
        }
        // One that has ended since holds nothing.
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else {
            continue;
        };
        let line = maps.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
        let figure = line.and_then(|line| line.split_whitespace().next());
        kib += figure.context("no Pss_Anon")?.parse::<f64>()?;
    }
    Ok(kib * 1024.0 / 1e6)
}

/// The file that a process runs; none for one that has ended.
fn program(pid: usize) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// A process and its descendants.
fn below(root: i32) -> anyhow::Result<HashMap<usize, Process>> {
    let processes = all()?;
    let root = usize::try_from(root)?;
    let is_below = |pid: usize| {
        let mut at = pid;
        // A process whose parents change meanwhile cannot lead in circles for longer than this.
        for _ in 0..processes.len() {
            if at == root {
                return true;
            }
            match processes.get(&at) {
                Some(process) => at = process.parent,
                None => return false,
            }
        }
        false
    };
    let pids: Vec<usize> = processes
        .keys()
        .copied()
        .filter(|pid| is_below(*pid))
        .collect();
    let mut processes = processes;
    processes.retain(|pid, _| pids.contains(pid));
    Ok(processes)
}

fn all() -> anyhow::Result<HashMap<usize, Process>> {
    let mut processes = HashMap::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // One that has ended since is counted by its parent.
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue;
        };
        if let Some(process) = parse(&stat) {
            processes.insert(pid, process);
        }
    }
    Ok(processes)
}

/// Reads a line of `stat`: field 4 is the parent, fields 14 to 17 are ticks.
fn parse(stat: &str) -> Option<Process> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = after_name.split(' ').collect();
    // Counted from the state, which is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<usize>().ok();
    Some(Process {
        parent: field(4)?,
        own_ticks: field(14)? + field(15)?,
        waited_ticks: field(16)? + field(17)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a ) b) S 3 7 7 0 -1 4194560 1 0 0 0 10 20 30 40 20 0 1 0 1 1 1";
        let process = parse(stat).unwrap();
        assert_eq!(process.parent, 3);
        assert_eq!((process.own_ticks, process.waited_ticks), (30, 70));
    }
}
