//! Which server a run is a client of: the daemon of this home, or one inside this process.
//!
//! The invariant here: there is no other way to the store or to an engine. A daemon is used if it
//! answers; what only this process knows (keys in its environment, a script, a profile) is never
//! sent to one, so a run that needs it has a server of its own.

use turnlane::{ApprovalRequest, Client, ClientBuilder, Decision};

use super::refusal::Refused;
use super::setup::Setup;
use crate::args::ExecOptions;
use crate::assembly::{Assembly, Kind};
use crate::config::ConfigFiles;
use crate::home;
use crate::linked::Linked;

/// What runs are called that nobody gave another name.
const NAME: &str = "turnlane_exec";
/// Gives them another name.
const NAME_VARIABLE: &str = "CODEX_INTERNAL_ORIGINATOR_OVERRIDE";
/// Why nothing is approved.
const NO_REVIEWER: &str = "no reviewer in exec";

/// Finds or starts a server.
pub(super) async fn link(setup: &mut Setup, options: &ExecOptions) -> Result<Linked, Refused> {
    if !needs_own(setup, options)
        && let Some(linked) = Linked::daemon(&setup.home, builder()).await
    {
        return Ok(linked);
    }
    home::make(&setup.home)?;
    let files = std::mem::replace(&mut setup.files, ConfigFiles::none());
    let assembly = Assembly::start(
        Kind::Exec,
        options.script.as_deref(),
        &setup.home,
        setup.codex_home.as_deref(),
        files,
    )
    .await?;
    Ok(Linked::own(assembly, builder()).await?)
}

/// Whether a daemon could not do what is wanted.
fn needs_own(setup: &Setup, options: &ExecOptions) -> bool {
    options.script.is_some()
        || options.profile.is_some()
        || options.ignore_user_config
        || options.strict_config
        || options.ignore_rules
        || options.oss
        || options.local_provider.is_some()
        || setup.said.stays_here()
        || std::env::var_os("CODEX_API_KEY").is_some_and(|key| !key.is_empty())
}

pub(super) fn builder() -> ClientBuilder {
    let given = std::env::var(NAME_VARIABLE).ok();
    let given = given.filter(|name| !name.trim().is_empty());
    let name = given.as_deref().map_or(NAME, str::trim);
    Client::builder()
        .client_info(name, env!("CARGO_PKG_VERSION"))
        .reviewer(|_request: &ApprovalRequest| Decision::Decline {
            reason: Some(NO_REVIEWER.to_owned()),
        })
}
