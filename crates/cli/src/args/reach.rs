//! Which server a command for people asks.
//!
//! The invariant here: the flags mean the same before and behind the last word of a command. A token
//! is never an argument, since arguments can be read by everybody on the machine.
//!
//! What becomes of them, and what is said when nobody answers, is in `session::reach`.

use std::path::PathBuf;

/// Which server is asked.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "A server elsewhere")]
pub(crate) struct Reach {
    /// Ask this server instead of that of our folder: `ws://HOST:PORT`, `wss://HOST`, `unix:PATH`
    /// [env: `TURNLANE_SERVER`]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,

    /// A file with the token of that server, readable by its owner only [env: `TURNLANE_TOKEN`, the
    /// token itself]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) token_file: Option<PathBuf>,
}
