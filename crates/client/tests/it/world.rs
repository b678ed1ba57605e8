//! An embedded Turnlane server whose agent plays a script.
//!
//! The invariant here: everything is in this process and in memory, and the gates of the script are
//! the test's to open, so nothing depends on how fast anybody is.

use std::sync::Arc;

use turnlane::{Client, Duplex, Endpoint};
use turnlane_engine::scripted::{AbortSteps, Gates, Script, Scripted};
use turnlane_server::{Embedded, EmbeddedConfig};

/// The server.
pub(crate) struct World {
    server: Embedded,
    /// Where its turns stand and wait.
    pub(crate) gates: Gates,
}

impl World {
    /// A server that plays this script.
    pub(crate) async fn start(script: &str) -> Self {
        let script = Script::parse("test.yaml", script, AbortSteps::Refused).unwrap();
        let engine = Scripted::new(script, Arc::new(|| 0));
        let gates = engine.gates();
        let server = Embedded::start(EmbeddedConfig::new(Arc::new(engine)));
        let server = server.await.unwrap();
        Self { server, gates }
    }

    /// The client's end of a new connection.
    pub(crate) fn connect(&self) -> Duplex {
        self.server.connect()
    }

    /// A client with the defaults.
    pub(crate) async fn client(&self) -> Client {
        let endpoint = Endpoint::io(self.connect());
        Client::connect(endpoint).await.unwrap()
    }
}
