//! Contenders that take turns one by one.
//!
//! The invariant here: in each round every contender runs one turn, and the order is turned round from
//! one round to the next, so that none always follows the same other.

use turnlane_benchkit::goal::shown;
use turnlane_benchkit::tree::CpuSeconds;
use turnlane_benchkit::{Figures, float, median, now, println};

use crate::bare_exec::BareExec;
use crate::server::Server;

/// A thread that can run a turn.
pub(crate) enum Contender {
    /// One `codex exec` per turn.
    Exec(BareExec),
    /// An app-server.
    Server(Box<Server>),
}

impl Contender {
    async fn turn(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Exec(exec) => exec.turn().await,
            Self::Server(server) => server.turn().await,
        }
    }

    fn cpu(&self) -> anyhow::Result<CpuSeconds> {
        match self {
            Self::Exec(_) => BareExec::cpu(),
            Self::Server(server) => server.cpu(),
        }
    }
}

impl From<BareExec> for Contender {
    fn from(exec: BareExec) -> Self {
        Self::Exec(exec)
    }
}

impl From<Server> for Contender {
    fn from(server: Server) -> Self {
        Self::Server(Box::new(server))
    }
}

/// One lane of the race, and what was measured of it.
pub(crate) struct Entrant {
    name: &'static str,
    contender: Option<Contender>,
    /// Milliseconds of each turn.
    wall: Vec<f64>,
    /// Milliseconds per turn of its own program; not a number where nothing was measured.
    pub(crate) own_cpu: f64,
    /// The same with everything that it started.
    pub(crate) all_cpu: f64,
}

impl Entrant {
    /// One that has not run; without a contender its figures stay empty.
    pub(crate) fn new(name: &'static str, contender: Option<impl Into<Contender>>) -> Self {
        Self {
            name,
            contender: contender.map(Into::into),
            wall: Vec::new(),
            own_cpu: f64::NAN,
            all_cpu: f64::NAN,
        }
    }

    /// The middle one of the turns, in milliseconds.
    pub(crate) fn p50(&self) -> f64 {
        median(self.wall.clone())
    }

    fn p99(&self) -> f64 {
        let mut figures = Figures::default();
        self.wall.iter().for_each(|time| figures.add(*time));
        figures.percentile(99)
    }

    /// The middle one of the differences to another's turn in the same round, in milliseconds.
    pub(crate) fn added_to(&self, other: &Self) -> f64 {
        let rounds = self.wall.iter().zip(&other.wall);
        median(rounds.map(|(own, other)| own - other).collect())
    }
}

/// Lets all run so many turns each.
pub(crate) async fn run(entrants: &mut [Entrant], rounds: usize) -> anyhow::Result<()> {
    // The first turn finds a new home and a child that is still to be started.
    for entrant in entrants.iter_mut() {
        if let Some(contender) = &mut entrant.contender {
            contender.turn().await?;
        }
    }
    let mut before = Vec::new();
    for entrant in entrants.iter() {
        before.push(entrant.contender.as_ref().map(Contender::cpu).transpose()?);
    }
    for _ in 0..rounds {
        for entrant in entrants.iter_mut() {
            if let Some(contender) = &mut entrant.contender {
                let began = now();
                contender.turn().await?;
                entrant.wall.push(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        entrants.reverse();
        before.reverse();
    }
    for (entrant, before) in entrants.iter_mut().zip(&before) {
        if let (Some(contender), Some(before)) = (&entrant.contender, before) {
            let after = contender.cpu()?;
            let per_turn = |seconds: f64| seconds * 1e3 / float(rounds);
            entrant.own_cpu = per_turn(after.own - before.own);
            entrant.all_cpu = per_turn(after.all - before.all);
        }
    }
    if !rounds.is_multiple_of(2) {
        entrants.reverse();
    }
    Ok(())
}

/// Writes the table; `base` is the row that the others are compared with.
pub(crate) fn print(entrants: &[Entrant], base: &Entrant) {
    println(
        "| turn | p50 ms | p99 ms | p50 ÷ base | own CPU ms | CPU ms with children | CPU ÷ base |",
    );
    println("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for entrant in entrants {
        let (p50, cpu) = (entrant.p50(), entrant.all_cpu);
        let [p50, p99, wall_ratio, own, all, cpu_ratio] = [
            p50,
            entrant.p99(),
            p50 / base.p50(),
            entrant.own_cpu,
            cpu,
            cpu / base.all_cpu,
        ]
        .map(shown);
        println(&format!(
            "| {} | {p50} | {p99} | {wall_ratio} | {own} | {all} | {cpu_ratio} |",
            entrant.name
        ));
    }
}
