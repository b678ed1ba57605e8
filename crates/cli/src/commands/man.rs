//! `turnlane man`: manual pages, one per command.
//!
//! The invariant here: they are made from the arguments that are parsed; the same version writes the
//! same bytes.

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::args::{Args, ManArgs};
use crate::shown::note;

pub(crate) fn run(args: &ManArgs) -> anyhow::Result<()> {
    let out = &args.out;
    let wrong = || format!("cannot write manual pages to {}", out.display());
    std::fs::create_dir_all(out).with_context(wrong)?;
    clap_mangen::generate_to(Args::command(), out).with_context(wrong)?;
    note(&format!(
        "manual pages are in {0}; read one with `man {0}/turnlane.1`",
        out.display()
    ));
    Ok(())
}
