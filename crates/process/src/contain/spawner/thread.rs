//! The spawning thread: clones one child after the other, and keeps a keeper in office.
//!
//! The invariant here: a child is cloned only under a keeper that was alive at the last look, and
//! everybody who was started under one that died is ended before its successor starts. So a status
//! is lost together with its keeper or not at all.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use tokio::io::Interest;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

use super::orphan_sweep::{self, OrphanSweep};
use super::shared::{Kept, LOOK_AFTER};
use super::{STOP_MAX, Shared};
use crate::contain::keeper::{self, KeeperLink};
use crate::contain::running::Place;
use crate::contain::wait::{self, Child, Zombie};
use crate::contain::{Found, Request, Running, adopted, cgroup, probe, watched};
use crate::default_limits::DefaultLimits;
use crate::error::StartError;
use crate::launch::{self, LaunchError, Slots};
use crate::mark::Mark;
use crate::report::ContainmentKind;

/// How often orphans of processes that go on running are looked after. Nothing announces their end.
const ORPHANS_EVERY: Duration = Duration::from_secs(10);

/// What the thread is asked for.
#[derive(Debug)]
pub(in crate::contain) enum Message {
    Start(Box<Job>),
    /// A keeper in office, or why there is none.
    Renew(oneshot::Sender<Result<Kept, String>>),
    /// There may be something to tidy.
    Look,
    /// The same, a while after a look.
    LookAgain,
}

/// One child to clone.
#[derive(Debug)]
pub(in crate::contain) struct Job {
    pub(super) request: Request,
    pub(super) entrance: Entrance,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// Where it is cloned into.
#[derive(Debug)]
pub(super) struct Entrance {
    pub(super) place: Place,
    /// The directory of its cgroup.
    pub(super) dir: Option<OwnedFd>,
    /// How often everybody in the tree had been ended. The kernel kills whoever enters a cgroup
    /// that was there at such an end.
    pub(super) kills: u32,
}

impl Default for Entrance {
    /// Outside of all cgroups of ours.
    fn default() -> Self {
        Self {
            place: Place::Group,
            dir: None,
            kills: 0,
        }
    }
}

/// What became of it, and everything that is to be closed.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) request: Request,
    pub(super) result: Result<Running, Failed>,
    pub(super) dir: Option<OwnedFd>,
}

/// Why no child was cloned.
#[derive(Debug)]
pub(super) enum Failed {
    /// With the place, which is free again.
    Launch(LaunchError, Place),
    /// There is no keeper.
    Keeper(String),
    /// Everybody was ended since the entrance was made.
    Shut,
}

/// What the thread is started with.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) containment: Option<ContainmentKind>,
    pub(super) cgroup_root: Option<PathBuf>,
    pub(super) keeper: Option<Vec<OsString>>,
    pub(super) hold: Vec<OwnedFd>,
    pub(super) handle: Handle,
    pub(super) mark: Mark,
    pub(super) default_limits: DefaultLimits,
    pub(super) nudge: mpsc::WeakSender<Message>,
}

type Started = Result<(Arc<Shared>, Found), StartError>;

/// The thread's whole life: trials, an answer about them, requests until the service stops.
pub(super) fn run(
    settings: Settings,
    mut requests: mpsc::Receiver<Message>,
    answer: &SyncSender<Started>,
) {
    let (mut thread, found) = match Thread::start(settings) {
        Ok(started) => started,
        Err(error) => {
            let _ = answer.send(Err(error));
            return;
        }
    };
    let _ = answer.send(Ok((Arc::clone(&thread.shared), found)));
    while let Some(message) = requests.blocking_recv() {
        if thread.shared.is_stopping() {
            break;
        }
        thread.serve(message);
    }
    requests.close();
    // Whoever still waits for an answer is told by its end that there is none.
    while requests.try_recv().is_ok() {}
    thread.stop();
}

struct Thread {
    slots: Slots,
    shared: Arc<Shared>,
    keeper: Option<Vec<OsString>>,
    hold: Vec<OwnedFd>,
    /// Of the keeper in office.
    generation: u64,
    watch: Option<AbortHandle>,
    /// The look that follows the last one.
    again: Option<AbortHandle>,
    /// Set while holders of a keeper that died, and what they held, may still be ours to end.
    orphans: Option<OrphanSweep>,
    /// The keeper that died last, until the next one is in office: its second keeper still would end
    /// everything if we died.
    last: Option<Arc<KeeperLink>>,
    mark: Mark,
}

impl Thread {
    fn start(settings: Settings) -> Result<(Self, Found), StartError> {
        let mut slots = Slots::reserve()?;
        slots.raise_open_files()?;
        let trials = probe::Trials {
            wanted: settings.containment,
            cgroup_root: settings.cgroup_root.as_deref(),
            keeper: settings.keeper.as_deref(),
            hold: &settings.hold,
            default_limits: settings.default_limits,
        };
        let chosen = probe::choose(&mut slots, &trials)?;
        let shared = Shared::new(settings.handle, chosen.tree, settings.nudge);
        let mut thread = Self {
            slots,
            shared: Arc::new(shared),
            keeper: settings.keeper,
            hold: settings.hold,
            generation: 0,
            watch: None,
            again: None,
            orphans: None,
            last: None,
            mark: settings.mark,
        };
        if let Some(link) = chosen.link {
            // Orphans of processes in cgroups, and holders without a keeper, come to us.
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
                .map_err(std::io::Error::from)?;
            thread.install(link)?;
        }
        Ok((thread, chosen.found))
    }

    fn serve(&mut self, message: Message) {
        let renewed = self.renew();
        match message {
            Message::Start(job) => self.start_child(*job, renewed.err()),
            Message::Renew(reply) => {
                let link = renewed.and_then(|()| {
                    let link = self.shared.link();
                    link.ok_or_else(|| "the keeper died".to_owned())
                });
                let _ = reply.send(link);
            }
            Message::Look => {}
            Message::LookAgain => {
                self.tidy();
                // Those of a dead keeper end soon, or cannot be killed.
                if self.orphans.is_some() {
                    self.look_again();
                }
            }
        }
        if self.shared.take_look() {
            self.tidy();
            self.look_again();
        }
    }

    /// Once, however often it is asked for meanwhile.
    fn look_again(&mut self) {
        if let Some(again) = self.again.take() {
            again.abort();
        }
        let shared = Arc::clone(&self.shared);
        let again = async move {
            tokio::time::sleep(LOOK_AFTER).await;
            shared.look_again().await;
        };
        self.again = Some(self.shared.handle().spawn(again).abort_handle());
    }

    fn start_child(&mut self, job: Job, no_keeper: Option<String>) {
        // Whoever asked is gone; dropping the job gives everything back.
        if job.reply.is_closed() {
            return;
        }
        let Job {
            request,
            entrance: Entrance { place, dir, kills },
            reply,
        } = job;
        let shut = self.shared.tree().is_some_and(|tree| tree.kills() != kills);
        let result = if let Some(reason) = no_keeper {
            Err(Failed::Keeper(reason))
        } else if shut {
            Err(Failed::Shut)
        } else {
            let ruleset = request.ruleset.as_ref().map(AsFd::as_fd);
            let dir = dir.as_ref().map(AsFd::as_fd);
            match launch::launch(&mut self.slots, &request.plan, &request.ends, ruleset, dir) {
                Ok(launched) => {
                    let shared = Arc::clone(&self.shared);
                    Ok(Running::child(launched, place, self.generation, shared))
                }
                Err(error) => Err(Failed::Launch(error, place)),
            }
        };
        let answer = Answer {
            request,
            result,
            dir,
        };
        // If nobody is there any more, dropping the answer ends the child.
        drop(reply.send(answer));
    }

    /// Ends what a dead keeper kept and starts the next one. Nothing while it lives.
    fn renew(&mut self) -> Result<(), String> {
        let generation = self.shared.generation();
        if generation == self.generation {
            return Ok(());
        }
        tracing::error!("the keeper died; everything it kept is ended");
        if let Some(dead) = self.shared.set_link(self.generation, None) {
            self.last = Some(dead);
        }
        if let Some(tree) = self.shared.tree() {
            tree.kill_all();
        }
        self.orphans = Some(OrphanSweep::default());
        self.tidy();
        let started = self.start_keeper().and_then(|link| {
            self.generation = generation;
            self.install(link)
        });
        started.map_err(|error| {
            tracing::error!(%error, "no new keeper could be started");
            format!("the keeper died and no new one could be started: {error}")
        })
    }

    fn start_keeper(&mut self) -> std::io::Result<KeeperLink> {
        let job = match self.shared.tree() {
            Some(tree) => keeper::Job::EndCgroup(tree.path()),
            None => keeper::Job::Hold,
        };
        KeeperLink::start(&mut self.slots, self.keeper.as_deref(), &self.hold, job)
    }

    /// Puts a keeper in office and has it watched.
    fn install(&mut self, link: KeeperLink) -> std::io::Result<()> {
        let pidfd = link.pidfd().try_clone_to_owned()?;
        drop(self.shared.set_link(self.generation, Some(Arc::new(link))));
        // Only now: until here its second keeper was the only one left.
        self.last = None;
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
        let watch = watch(pidfd, self.generation, Arc::clone(&self.shared));
        self.watch = Some(self.shared.handle().spawn(watch).abort_handle());
        Ok(())
    }

    /// Reaps whoever nobody waits for and gives back what was put aside.
    fn tidy(&mut self) {
        let mut unreaped = self.shared.unreaped();
        unreaped.retain(|pidfd| wait::ended(Child::Pidfd(pidfd.as_fd()), Zombie::Reap).is_none());
        drop(unreaped);
        if let Some(orphans) = &mut self.orphans
            && orphans.is_done(&self.mark)
        {
            self.orphans = None;
        }
        if let Some(tree) = self.shared.tree() {
            adopted::reap(|pid| {
                let cgroups = std::fs::read_to_string(format!("/proc/{pid}/cgroup"));
                cgroups.is_ok_and(|cgroups| cgroups.lines().any(|line| tree.owns(line)))
            });
            tree.tidy();
        }
    }

    /// Ends and removes everything, the keeper last: until then it would do the same if we died.
    fn stop(&mut self) {
        for task in [self.watch.take(), self.again.take()].into_iter().flatten() {
            task.abort();
        }
        if let Some(tree) = self.shared.tree() {
            tree.kill_all();
            if let Ok(events) = tree.events() {
                cgroup::wait_until_empty(&events, STOP_MAX);
            }
        }
        self.tidy();
        if let Some(tree) = self.shared.tree()
            && !tree.remove()
        {
            tracing::error!(path = %tree.path().display(), "a cgroup is left with somebody in it");
        }
        let keeper = self.shared.set_link(self.generation, None);
        if keeper.is_some() || self.last.is_some() {
            drop((keeper, self.last.take()));
            orphan_sweep::end_all(&self.mark, STOP_MAX);
        }
    }
}

/// Tells when the keeper dies, and now and then that orphans may have died.
async fn watch(pidfd: OwnedFd, generation: u64, shared: Arc<Shared>) {
    let Ok(pidfd) = watched::watch(pidfd, Interest::READABLE) else {
        tracing::error!("the keeper cannot be watched");
        return;
    };
    let mut orphans = tokio::time::interval(ORPHANS_EVERY);
    orphans.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            died = pidfd.readable() => {
                if died.is_ok() {
                    shared.keeper_died(generation);
                }
                return;
            }
            _ = orphans.tick() => {
                if shared.tree().is_some() && shared.leaders_len() > 0 {
                    shared.look();
                }
            }
        }
    }
}
