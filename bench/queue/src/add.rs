//! One add after the other, each beside bare writes with fdatasync: one of 4 KiB, and one of as many
//! bytes as our add brings into the log.
//!
//! The invariant here: while adds to a busy lane are measured, its turn waits for the model and the
//! server has nothing else to do. On an idle lane the row's turn is run to its end before the next
//! add, so that an add meets an idle lane indeed.

use turnlane_benchkit::{Disk, Figures, now};

use crate::contender::{Contender, Kind};
use crate::scaled;

/// Rows of a busy lane in one round; Codex holds 100.
const ROWS: usize = 50;
/// Adds to an idle lane in one round.
const ONES: usize = 20;

/// What our add brings into the log: a frame for the page of each table and index that it changes.
static LOGGED: [u8; 6 * (4_096 + 24)] = [3; 6 * (4_096 + 24)];

/// What one contender took, and the disk beside it.
#[derive(Clone, Default)]
struct Taken {
    add: Figures,
    disk: Figures,
    log: Figures,
}

#[derive(Clone, Copy)]
enum Lane {
    /// Its turn runs; the client hears of every change.
    Busy,
    /// The same, and the client hears of nothing but the answer.
    BusyUnheard,
    /// Nothing runs, so the row is taken at once.
    Idle,
}

impl Lane {
    fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy, subscribed",
            Self::BusyUnheard => "busy, not subscribed",
            Self::Idle => "idle, subscribed",
        }
    }
}

pub(crate) async fn run() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let mut disk = Disk::in_folder(folder.path())?;
    turnlane_benchkit::println(
        "| lane | who | p50 ms | p99 ms | fdatasync p50 | fdatasync p99 | p50 ÷ fdatasync | p99 ÷ fdatasync | fdatasync of as many bytes p50 | p50 ÷ it | p99 ÷ it |",
    );
    turnlane_benchkit::println(
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    );
    for lane in [Lane::Busy, Lane::BusyUnheard, Lane::Idle] {
        let mut contenders = Contender::all(&Kind::ALL).await?;
        let mut taken = vec![Taken::default(); contenders.len()];
        for round in 0..=scaled(20, 1) {
            for (contender, taken) in contenders.iter_mut().zip(&mut taken) {
                let mut warm_up = Taken::default();
                // The first round finds new files, which grow.
                let taken = if round == 0 { &mut warm_up } else { taken };
                adds(contender, lane, &mut disk, taken).await?;
            }
        }
        for (contender, taken) in contenders.iter().zip(&taken) {
            shown(lane, contender.kind, taken);
        }
    }
    Ok(())
}

async fn adds(
    contender: &mut Contender,
    lane: Lane,
    disk: &mut Disk,
    taken: &mut Taken,
) -> anyhow::Result<()> {
    let rows = match lane {
        Lane::Busy | Lane::BusyUnheard => ROWS,
        Lane::Idle => ONES,
    };
    let thread = match lane {
        Lane::Busy | Lane::BusyUnheard => contender.busy_thread().await?,
        Lane::Idle => contender.thread().await?,
    };
    if let Lane::BusyUnheard = lane {
        contender.about("thread/unsubscribe", &thread).await?;
    }
    for _ in 0..rows {
        taken.disk.add_time(disk.once()?);
        taken.log.add_time(disk.once_with(&LOGGED)?);
        let began = now();
        contender.add(&thread).await?;
        taken.add.add_time(began.elapsed());
        if let Lane::Idle = lane {
            contender.wire.until("turn/completed").await?;
        }
    }
    Ok(())
}

fn shown(lane: Lane, kind: Kind, taken: &Taken) {
    let figures = [&taken.add, &taken.disk, &taken.log];
    let [[p50, p99], [disk_p50, disk_p99], [log_p50, log_p99]] =
        figures.map(|of| [of.percentile(50), of.percentile(99)]);
    turnlane_benchkit::println(&format!(
        "| {} | {} | {p50:.2} | {p99:.2} | {disk_p50:.2} | {disk_p99:.2} | {:.2} | {:.2} | {log_p50:.2} | {:.2} | {:.2} |",
        lane.name(),
        kind.name(),
        p50 / disk_p50,
        p99 / disk_p99,
        p50 / log_p50,
        p99 / log_p99,
    ));
}
