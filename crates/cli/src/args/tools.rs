//! The flags of `turnlane completions` and `turnlane man`.
//!
//! The invariant here: both are made from the arguments themselves, so they never lag behind.

use std::path::PathBuf;

use clap::ValueEnum;

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: ShellArg,
}

const AFTER_HELP: &str = "\
Examples:
  turnlane completions bash > ~/.local/share/bash-completion/completions/turnlane
  turnlane completions zsh > ~/.zfunc/_turnlane      with ~/.zfunc in fpath
  turnlane completions fish > ~/.config/fish/completions/turnlane.fish";

/// The shells whose completions can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellArg {
    Bash,
    Zsh,
    Fish,
    Elvish,
    #[value(name = "powershell")]
    PowerShell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The folder to write to; made if it does not exist
    #[arg(long, short, value_name = "DIR")]
    pub(crate) out: PathBuf,
}
