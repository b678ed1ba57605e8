//! `turnlane exec-server`.
use crate::args::ExecServer;
pub(crate) fn run(options: ExecServer) -> anyhow::Result<()> {
    let _ = options;
    todo!()
}
