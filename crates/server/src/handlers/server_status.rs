//! `server/status`: which process serves, and whether a turn could run there.
//!
//! The invariant here: of a key only the names of its variables and whether one is set are told. A
//! directory that cannot be worked in, or settings that do not fit, are an answer and no error.

use std::sync::Arc;

use turnlane_protocol::error::ErrorObject;
use turnlane_protocol::method::thread_start::EngineStatus;
use turnlane_protocol::method::{KeyStatus, ServerStatusAnswer, ServerStatusParams};

use crate::Wanted;
use crate::answers::Key;
use crate::connection::Connection;
use crate::server::Server;

/// `server/status`
pub(crate) async fn read(
    cx: Arc<Connection>,
    params: ServerStatusParams,
) -> Result<ServerStatusAnswer, ErrorObject> {
    let shared = cx.shared();
    let options = &shared.options;
    let own = || options.cwd.to_string_lossy().into_owned();
    let cwd = params.cwd.unwrap_or_else(own);
    let engine = options.defaults.engine();
    let settings = options.defaults.settings(Wanted {
        cwd: &cwd,
        provider: None,
        model: None,
        engine: Some(&engine),
        config: None,
    });
    let engine_status = match settings {
        Ok(settings) => options.runtime.engine_status(&engine, &settings).await,
        Err(reason) => EngineStatus {
            ok: false,
            reason: Some(reason),
        },
    };
    let facts = options.defaults.facts(Some(&cwd));
    let server = Server {
        shared: Arc::clone(shared),
    };
    Ok(ServerStatusAnswer {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started_at_ms: shared.started_at_ms,
        trouble: server.trouble().map(str::to_owned),
        engines: options.runtime.engines(),
        engine,
        engine_status,
        provider: facts.provider,
        model: facts.model,
        key: match facts.key {
            Key::Present => KeyStatus::Set,
            Key::Absent => KeyStatus::Missing,
            Key::NotNeeded => KeyStatus::NotNeeded,
        },
        key_variables: facts.key_variables,
    })
}
