//! What a loaded thread holds, with and without a turn.

use turnlane_benchkit::{Whose, float, table};
use turnlane_testkit::mock_model::{MockModel, Reply};

use crate::server::Server;

/// How many threads are loaded when the memory is read.
const STEPS: [usize; 3] = [50, 200, 1000];

/// Kilobytes per loaded thread.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mock = MockModel::start().await?;
    mock.choose_with(|_| Some(Reply::text("hello")));
    let mut figures = [[f64::NAN; 2]; 4];
    for (at, whose) in Whose::BOTH.into_iter().enumerate() {
        let Some(mut server) = Server::start(whose, &mock).await? else {
            continue;
        };
        server.thread().await?;
        let empty = server.program.resident_mb()?;
        let mut threads = Vec::new();
        for (step, count) in STEPS.into_iter().enumerate() {
            while threads.len() < count {
                threads.push(server.thread().await?);
            }
            figures[step][at] = (server.program.resident_mb()? - empty) * 1e3 / float(count);
        }
        let before = server.program.resident_mb()?;
        for thread in &threads[..100] {
            let turn = server.begin(thread).await?;
            server.completed(&turn).await?;
        }
        figures[3][at] = (server.program.resident_mb()? - before) * 1e3 / 100.0;
        server.end().await?;
    }
    table::head();
    for (step, count) in STEPS.into_iter().enumerate() {
        table::row(&format!("KB per thread, {count} loaded"), figures[step]);
    }
    table::row("KB more per thread after one turn", figures[3]);
    Ok(())
}
