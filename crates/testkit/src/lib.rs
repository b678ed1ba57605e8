//! What Turnlane's tests and its demo need and no user should: a model that says what a test
//! tells it to, homes that vanish, processes that may be killed.
//!
//! Owned here: [`MockModel`], a scripted Responses API on a loopback port; [`TempHome`], a
//! `TURNLANE_HOME` and a `CODEX_HOME` with nothing of the host in them; [`TestProcess`], a child
//! with its process group; [`TestClient`], a JSON-RPC client that sees everything in wire order;
//! [`SmallDisk`], a disk that can be full; [`wait`], the only way a test waits. The invariant: whatever a value of this crate started or
//! wrote is gone when the value is dropped, also when the test panics.
//!
//! Nothing here knows a lane, a store or an engine, and nothing here is linked into the product
//! except by `turnlane demo`. The rules about the source tree itself are in `tests/tidy.rs`.
//!
//! ```no_run
//! use turnlane_testkit::{MockModel, Reply, TempHome, wait};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), turnlane_testkit::Error> {
//! let model = MockModel::start().await?;
//! model.push(Reply::streamed(["he", "llo"]));
//!
//! let home = TempHome::new()?;
//! home.use_model(&model.base_url())?;
//! // ... start a program with home.env(), let it run a turn, then:
//! model.wait_for_requests(1, wait::DEADLINE).await?;
//! assert!(model.unscripted_requests().is_empty());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod client;
mod error;
mod home;
pub mod mock_model;
mod process;
mod random;
mod skip;
pub mod small_disk;
pub mod wait;

pub use client::{Ending, TestClient};
pub use error::Error;
pub use home::{MOCK_KEY, MOCK_KEY_VARIABLE, Provider, TempHome};
pub use mock_model::{MockModel, Reply};
pub use process::{Output, ProcessSpec, TestProcess};
pub use random::Random;
pub use skip::skipped;
pub use small_disk::SmallDisk;
