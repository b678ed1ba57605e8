//! The tokio runtime of commands that need one.

use std::future::Future;

use anyhow::Context as _;

/// Runs a command's future to its end on a new runtime.
pub(crate) fn block_on<F: Future>(future: F) -> anyhow::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let output = runtime.block_on(future);
    // A blocked read of standard input must not hold up the exit.
    runtime.shutdown_background();
    Ok(output)
}
