//! From nothing to the first answer, and from the end of input to the exit.

use turnlane_benchkit::{Figures, Whose, table};
use turnlane_testkit::TempHome;
use turnlane_testkit::mock_model::MockModel;

use crate::server::Server;

/// How often each is started, in a new home and again in the same one.
const ROUNDS: usize = 15;

/// Cold start, idle memory, exit.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mock = MockModel::start().await?;
    let mut fresh = [Figures::default(), Figures::default()];
    let mut used = fresh.clone();
    let mut exits = fresh.clone();
    let mut idle = [f64::NAN; 2];
    for _ in 0..ROUNDS {
        for (at, whose) in Whose::BOTH.into_iter().enumerate() {
            let Some(server) = Server::start(whose, &mock).await? else {
                continue;
            };
            fresh[at].add_time(server.started_in);
            let home: TempHome = server.end().await?.1;
            if let Some(server) = Server::start_in(whose, home).await? {
                used[at].add_time(server.started_in);
                tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                idle[at] = server.program.resident_mb()?;
                exits[at].add_time(server.end().await?.0);
            }
        }
    }
    let p50 = |times: &[Figures; 2]| [times[0].percentile(50), times[1].percentile(50)];
    table::head();
    table::row("start to `initialize`, new home, p50 ms", p50(&fresh));
    table::row("start to `initialize`, used home, p50 ms", p50(&used));
    table::row("idle RSS, MB", idle);
    table::row("end of input to exit, p50 ms", p50(&exits));
    Ok(())
}
