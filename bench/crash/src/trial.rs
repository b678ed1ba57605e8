//! One run: rounds of starting, resuming, resting, working and killing in one home.
//!
//! The invariant here: the home and the model outlive every server of the run, and a lane is only
//! given up after it has been compared. What happens within a round is in `rest.rs` and `work.rs`.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use tokio::time::Instant;
use turnlane_testkit::{Random, TempHome};

use crate::ledger::{Ledger, Seen, Way};
use crate::model::{Hurry, Model};
use crate::report::Report;
use crate::server::{Answer, Contender, Server};
use crate::work::Trigger;
use crate::{Options, Sabotage};

/// How many threads there are at a time.
const LANES: usize = 3;
/// After so many kills the threads are new ones, so that histories stay short.
const KILLS_OF_A_LANE: usize = 20;
/// One round in so many has no rest, and kills what has just been killed.
const RESTLESS_ONE_IN: usize = 4;
/// One round in so many waits until a command runs.
const COMMAND_ONE_IN: usize = 4;
/// One round in so many begins with a server that is killed before anybody has spoken to it, within so
/// many microseconds: in the middle of its recovery.
const STILLBORN_ONE_IN: usize = 4;
const STILLBORN_US: usize = 100_000;
/// How long a server may refuse to resume a thread: whoever ends the processes of a dead one holds its
/// lanes until they are gone.
const RESUME_LIMIT: Duration = Duration::from_secs(30);
/// How often it is asked again.
const RESUME_AGAIN: Duration = Duration::from_millis(20);

/// What is known about a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    Off,
    /// Acknowledged, and nobody has asked for its end.
    On,
    /// A call was under way when the server was killed.
    Unknown,
}

/// A thread and what is known about it.
pub(crate) struct Lane {
    pub(crate) thread: String,
    pub(crate) ledger: Ledger,
    pub(crate) pause: Pause,
    /// Whether it was at rest and nothing has been asked of it since.
    pub(crate) idle: bool,
    /// Why it could not be resumed.
    pub(crate) refused: Option<String>,
    /// What it showed last.
    pub(crate) seen: Seen,
}

/// A run under way.
pub(crate) struct Trial {
    pub(crate) contender: Contender,
    pub(crate) home: TempHome,
    pub(crate) model: Model,
    pub(crate) random: Random,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) report: Report,
    /// How many messages were made up.
    said: usize,
    sabotage: Option<Sabotage>,
}

/// Whether the server still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Runs,
    Gone,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<Report> {
    let began = Instant::now();
    let kills = options.kills;
    let mut trial = Trial::new(options).await?;
    let mut lived = 0;
    for kill in 0..kills {
        let round = trial.round(&mut lived).await;
        round.with_context(|| format!("round {kill}"))?;
        trial.report.kills += 1;
    }
    trial.model.hurry(Hurry::Yes);
    let mut server = Server::start(&trial.contender, &trial.home).await?;
    trial.resume(&mut server).await?;
    trial.rest(&mut server).await.context("the last rest")?;
    trial.retire();
    trial.report.took = began.elapsed();
    server.killer().kill();
    server.gone().await?;
    Ok(trial.report)
}

impl Trial {
    async fn new(options: Options) -> anyhow::Result<Self> {
        let home = TempHome::new()?;
        let model = Model::start(home.path().join("marks")).await?;
        home.use_model(&model.base_url())?;
        let report = Report::new(options.contender.kind, options.seed);
        Ok(Self {
            contender: options.contender,
            home,
            model,
            random: Random::new(options.seed),
            lanes: Vec::new(),
            report,
            said: 0,
            sabotage: options.sabotage,
        })
    }

    /// From a start to a kill; `lived` counts the rounds of the present threads.
    async fn round(&mut self, lived: &mut usize) -> anyhow::Result<()> {
        let behind = self.behind_a_command();
        let rests =
            self.lanes.is_empty() || behind.is_some() || !self.random.one_in(RESTLESS_ONE_IN);
        self.model.hurry(if rests { Hurry::Yes } else { Hurry::No });
        if self.random.one_in(STILLBORN_ONE_IN) {
            let after = self.random.below(STILLBORN_US);
            let after = Duration::from_micros(u64::try_from(after)?);
            Server::killed_at_start(&self.contender, &self.home, after).await?;
            self.report.stillborn += 1;
        }
        let mut server = Server::start(&self.contender, &self.home).await?;
        let mut trigger = Trigger::choose(&mut self.random, server.killer());
        if !rests && self.random.one_in(2) {
            // In the middle of its recovery.
            trigger.pull();
        }
        let mut life = self.resume(&mut server).await?;
        if rests {
            self.rest(&mut server).await?;
            self.model.hurry(Hurry::No);
            *lived += 1;
            if *lived % KILLS_OF_A_LANE == 1 {
                self.retire();
            }
            self.begin(&mut server).await?;
        }
        if life == Life::Runs {
            life = match behind {
                Some(way) => {
                    let work = self.work_behind_a_command(&mut server, way, &mut trigger);
                    work.await?
                }
                None => self.work(&mut server, &mut trigger).await?,
            };
        }
        trigger.pulled(life).await?;
        server.gone().await?;
        match &mut self.sabotage {
            Some(sabotage) => sabotage(&self.home.turnlane()),
            None => Ok(()),
        }
    }

    /// Whether this round kills a command, and how its turn is begun. Only ours runs commands here.
    fn behind_a_command(&self) -> Option<Way> {
        let kills = self.report.kills;
        let is_one = self.contender.kind.is_ours() && kills % COMMAND_ONE_IN == 1;
        let ways = [Way::Row, Way::Direct];
        is_one.then(|| ways[kills / COMMAND_ONE_IN % ways.len()])
    }

    /// New threads in place of those that were given up.
    async fn begin(&mut self, server: &mut Server) -> anyhow::Result<()> {
        for at in self.lanes.len()..LANES {
            let params = json!({"cwd": self.home.workspace(), "approvalPolicy": "never",
                "sandbox": "danger-full-access"});
            let started = server.must("thread/start", params).await?;
            let thread = started["thread"]["id"].as_str().context("a thread's id")?;
            self.lanes.push(Lane {
                thread: thread.to_owned(),
                ledger: Ledger::default(),
                pause: Pause::Off,
                idle: true,
                refused: None,
                seen: Seen::default(),
            });
            if !self.contender.kind.is_ours() {
                // Codex writes nothing of a thread before its first turn, and promises nothing else.
                let failed = self.probe(server, at).await?;
                anyhow::ensure!(failed.is_none(), "a new thread does not work: {failed:?}");
            }
        }
        Ok(())
    }

    /// Counts what the present threads did, and leaves them alone from now on.
    pub(crate) fn retire(&mut self) {
        for lane in std::mem::take(&mut self.lanes) {
            self.report.rows += lane.ledger.count(Way::Row);
            self.report.turns += lane.ledger.count(Way::Direct);
            self.report.unanswered += lane.ledger.unanswered_but_there(&lane.seen);
        }
    }

    /// Resumes every thread that it can.
    async fn resume(&mut self, server: &mut Server) -> anyhow::Result<Life> {
        for lane in &mut self.lanes {
            lane.idle = false;
            lane.refused = None;
            let began = Instant::now();
            loop {
                let params = json!({"threadId": lane.thread});
                match server.call("thread/resume", params).await? {
                    Answer::Result(_) => break,
                    Answer::Gone => return Ok(Life::Gone),
                    Answer::Refused(error) if began.elapsed() > RESUME_LIMIT => {
                        lane.refused = Some(format!("it cannot be resumed: {error}"));
                        break;
                    }
                    Answer::Refused(_) => tokio::time::sleep(RESUME_AGAIN).await,
                }
            }
        }
        Ok(Life::Runs)
    }

    /// A new message of this kind, unlike any other.
    pub(crate) fn message(&mut self, word: &str) -> String {
        self.said += 1;
        format!("{word} {}", self.said)
    }
}
