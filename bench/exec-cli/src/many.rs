//! Eight runs at once in one home: how long until the last one is done.

use anyhow::Context as _;
use tokio::task::JoinSet;

use std::sync::Arc;

use crate::program::{Contender, model};
use turnlane_benchkit::{Figures, Whose, both, table};

/// How many at once.
const AT_ONCE: usize = 8;
/// How often.
const ROUNDS: usize = 10;

pub(crate) async fn run() -> anyhow::Result<()> {
    let mock = model().await?;
    let mut last = [Figures::default(), Figures::default()];
    let mut contenders = Vec::new();
    for (at, whose) in Whose::BOTH.into_iter().enumerate() {
        if let Some(contender) = Contender::new(whose, &mock)? {
            contender.run(&[]).await?;
            contenders.push((at, Arc::new(contender)));
        }
    }
    for _ in 0..ROUNDS {
        for (at, contender) in &contenders {
            let began = turnlane_benchkit::now();
            let mut runs = JoinSet::new();
            for _ in 0..AT_ONCE {
                let contender = Arc::clone(contender);
                runs.spawn(async move { contender.run(&[]).await });
            }
            while let Some(run) = runs.join_next().await {
                run.context("a run was lost")??;
            }
            last[*at].add_time(began.elapsed());
        }
        mock.take_requests();
    }
    table::head();
    table::row("8 at once, last exit, p50 ms", both(&last, 50));
    Ok(())
}
