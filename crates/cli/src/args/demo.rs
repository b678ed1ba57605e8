//! The flags of `turnlane demo`.

use clap::ValueEnum;

use super::shared::Colours;

/// What `turnlane demo` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each flag that is given or not"
)]
pub(crate) struct Demo {
    /// The subject of the demo
    #[arg(value_enum, value_name = "SUBJECT", default_value = "queue")]
    pub(crate) subject: DemoSubject,

    /// Do not ask: the demo answers the agent's question itself, and says so
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// No pauses for reading; there are none without a terminal
    #[arg(long)]
    pub(crate) fast: bool,

    /// Keep the demo's folder and say where it is
    #[arg(long)]
    pub(crate) keep: bool,

    /// Run the demo's commands without a sandbox, as on a machine that offers none
    #[arg(long)]
    pub(crate) no_sandbox: bool,

    #[command(flatten)]
    pub(crate) colours: Colours,
}

/// The subject of a demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoSubject {
    /// A queue of turns that survives kill -9
    Queue,
    /// One task over a table, one agent per row, that survives kill -9
    Fanout,
}

const AFTER_HELP: &str = "\
Everything it needs it makes in a folder of its own, in $TMPDIR or /tmp, and removes at the end.
Your home is not touched, and nothing is sent anywhere. What an agent would say is played from a
script; the daemon, its queue, the commands, the sandbox, the kill and the recovery are real.

Exit codes: 0 all it claims was found to be so, 1 something was not, 2 wrong usage, 130 Ctrl-C.

Examples:
  turnlane demo
  turnlane demo fanout
  turnlane demo --keep     and look at what it left";
