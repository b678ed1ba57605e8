//! Which kind of containment this machine offers, found by starting a child in it.
//!
//! The best first. A kind counts as present when a trial child was cloned into it and the keeper that
//! ends it is in office; versions and permissions are not asked for, because they do not tell. The
//! trial child is told to execute what cannot exist, so that a trial needs no program: whoever got
//! as far as its exec has passed.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use super::Found;
use super::cgroup::{self, Bounds, Tree};
use super::keeper::{Job, KeeperLink};
use crate::default_limits::DefaultLimits;
use crate::error::StartError;
use crate::launch::{self, ChildEnds, LaunchError, Plan, Slots, Stage, Terminal};
use crate::report::ContainmentKind;
use crate::spec::{Delivery, Io, Stdin};

/// What there is to try with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trials<'a> {
    /// The only kind to try.
    pub(super) wanted: Option<ContainmentKind>,
    pub(super) cgroup_root: Option<&'a Path>,
    pub(super) keeper: Option<&'a [OsString]>,
    pub(super) hold: &'a [OwnedFd],
    pub(super) default_limits: DefaultLimits,
}

/// The kind in force and what it consists of.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) found: Found,
    pub(super) tree: Option<Arc<Tree>>,
    pub(super) link: Option<KeeperLink>,
}

/// Best first.
const KINDS: [ContainmentKind; 3] = [
    ContainmentKind::Cgroup,
    ContainmentKind::Reaper,
    ContainmentKind::Group,
];

/// Tries the kinds one after the other, or the one that is wanted.
pub(super) fn choose(slots: &mut Slots, trials: &Trials<'_>) -> Result<Chosen, StartError> {
    let mut absent = Vec::new();
    for kind in KINDS {
        if trials.wanted.is_some_and(|wanted| wanted != kind) {
            continue;
        }
        let tried = match kind {
            ContainmentKind::Cgroup => in_cgroup(slots, trials),
            ContainmentKind::Reaper => in_holder(slots, trials),
            ContainmentKind::Group => in_group(slots),
        };
        match tried {
            Ok((tree, link)) => return Ok(chosen(kind, absent, tree, link)),
            Err(reason) => {
                tracing::info!(kind = kind.name(), reason, "containment is absent");
                absent.push((kind, reason));
            }
        }
    }
    let (wanted, reason) = absent
        .pop()
        .unwrap_or((ContainmentKind::Group, String::new()));
    Err(StartError::Containment {
        wanted: wanted.name(),
        reason,
    })
}

fn chosen(
    kind: ContainmentKind,
    absent: Vec<(ContainmentKind, String)>,
    tree: Option<Arc<Tree>>,
    link: Option<KeeperLink>,
) -> Chosen {
    let defaults = tree.as_ref().map(|tree| tree.defaults());
    let defaults = defaults.unwrap_or_default();
    let controllers = tree.as_ref().map(|tree| tree.controllers().to_vec());
    let found = Found {
        kind,
        absent,
        cgroup_root: tree.as_ref().map(|tree| tree.path().to_owned()),
        controllers: controllers.unwrap_or_default(),
        default_controllers: defaults.controllers().collect(),
    };
    Chosen { found, tree, link }
}

type Tried = Result<(Option<Arc<Tree>>, Option<KeeperLink>), String>;

fn in_cgroup(slots: &mut Slots, trials: &Trials<'_>) -> Tried {
    let base = match trials.cgroup_root {
        Some(root) => root.to_owned(),
        None => cgroup::own()?,
    };
    let defaults = Bounds {
        memory_max: trials.default_limits.memory_max,
        pids_max: trials.default_limits.pids_max,
    };
    let tree = Arc::new(Tree::make(&base, defaults)?);
    let tried = try_cgroup(slots, &tree).and_then(|()| {
        let job = Job::EndCgroup(tree.path());
        KeeperLink::start(slots, trials.keeper, trials.hold, job).map_err(|error| no_keeper(&error))
    });
    match tried {
        Ok(link) => Ok((Some(tree), Some(link))),
        Err(reason) => {
            tree.remove();
            Err(reason)
        }
    }
}

fn try_cgroup(slots: &mut Slots, tree: &Arc<Tree>) -> Result<(), String> {
    let (_slot, dir) = tree
        .take(Bounds::default())
        .map_err(|error| error.to_string())?;
    let ends = ends()?;
    let launched = launch::launch(slots, &plan(), &ends, None, Some(dir.as_fd()));
    passed(launched.err(), "in a cgroup")
}

fn in_holder(slots: &mut Slots, trials: &Trials<'_>) -> Tried {
    let link = KeeperLink::start(slots, trials.keeper, trials.hold, Job::Hold)
        .map_err(|error| no_keeper(&error))?;
    let ends = ends()?;
    let held = link
        .spawn_held(&plan(), &ends, None)
        .map_err(|error| format!("the keeper starts no process: {error}"))?;
    passed(held.err(), "in a holder")?;
    Ok((None, Some(link)))
}

fn in_group(slots: &mut Slots) -> Tried {
    let ends = ends()?;
    let launched = launch::launch(slots, &plan(), &ends, None, None);
    passed(launched.err(), "at all")?;
    Ok((None, None))
}

fn no_keeper(error: &std::io::Error) -> String {
    format!("there is no keeper: {error}")
}

/// Only the exec may fail, because it has to.
fn passed(failed: Option<LaunchError>, place: &str) -> Result<(), String> {
    match failed {
        Some(error) if error.stage == Stage::Exec => Ok(()),
        Some(error) => {
            let reason = std::io::Error::from_raw_os_error(error.errno);
            Err(format!(
                "a trial process cannot be started {place}: {reason}"
            ))
        }
        None => Err("a trial process executed what cannot exist".to_owned()),
    }
}

/// A plan whose exec fails: nothing lies below a file.
fn plan() -> Plan {
    Plan {
        program: c"/dev/null/trial".to_owned(),
        programs: vec![c"/dev/null/trial".to_owned()],
        argv: vec![c"trial".to_owned()],
        envp: Vec::new(),
        cwd: c"/".to_owned(),
        terminal: Terminal::None,
        rlimits: Vec::new(),
        restrictions: None,
    }
}

fn ends() -> Result<ChildEnds, String> {
    let io = Io::Pipe {
        stdin: Stdin::Closed,
    };
    let (ends, _ours) =
        launch::open_ends(io, Delivery::Discard).map_err(|error| error.to_string())?;
    Ok(ends)
}
