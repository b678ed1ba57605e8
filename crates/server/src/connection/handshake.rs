//! `initialize`: who the client is, and who we are.
//!
//! The invariant here: a connection is introduced at most once, and is told nothing before.

use std::sync::Arc;

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::handshake::{
    InitializeParams, InitializeResult, ServerInfo, TURNLANE_PROTOCOL, TurnlaneInfo, user_agent,
};
use turnlane_rpc::Params;

use super::{Client, Connection};

/// The method.
pub(super) const METHOD: &str = "initialize";

impl Connection {
    pub(super) fn initialize(
        self: &Arc<Self>,
        params: &Params,
    ) -> Result<InitializeResult, ErrorObject> {
        if self.client.get().is_some() {
            return Err(ErrorObject::already_initialized());
        }
        if params.is_absent() {
            return Err(ErrorObject::invalid_request("missing field `params`"));
        }
        let InitializeParams {
            client_info,
            capabilities,
        } = params.parse_bounded()?;
        let options = &self.shared.options;
        let answer = InitializeResult {
            user_agent: user_agent(&system(), std::env::consts::ARCH, &client_info),
            server_info: Some(ServerInfo::turnlane()),
            codex_home: options.home.display().to_string(),
            platform_family: std::env::consts::FAMILY.to_owned(),
            platform_os: std::env::consts::OS.to_owned(),
            turnlane: Some(TurnlaneInfo {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                protocol: TURNLANE_PROTOCOL,
                worker_id: options.worker_id,
                features: options.features.clone(),
            }),
        };
        let client = Client {
            info: client_info,
            capabilities: capabilities.unwrap_or_default(),
        };
        // Only this connection's own task introduces, so nobody was faster.
        let _ = self.client.set(client);
        self.shared.hub.add(self);
        Ok(answer)
    }
}

/// Name and release of the system, as in `Linux 6.1.0`.
fn system() -> String {
    let name = rustix::system::uname();
    format!(
        "{} {}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy()
    )
}
