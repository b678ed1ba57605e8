//! Where the suite runs.

use std::path::{Path, PathBuf};
use std::pin::Pin;

use turnlane_exec_server::client::{ClientOptions, ExecClient, StartSpec};
use turnlane_process::{Options, ProcessService};
use turnlane_testkit::wait::{DEADLINE, within};

/// A connected client and whatever serves it.
pub(super) struct Place {
    pub(super) client: ExecClient,
    pub(super) folder: tempfile::TempDir,
    service: Option<ProcessService>,
    again: Again,
}

/// Makes another client of the same server.
type Again = Box<dyn Fn() -> Pin<Box<dyn Future<Output = ExecClient>>> + Send + Sync>;

impl Place {
    /// A shell script in the place's folder, with just enough of an environment.
    pub(super) fn script(&self, script: &str) -> StartSpec {
        StartSpec::new(["/bin/sh", "-c", script], self.folder.path()).env("PATH", path())
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Another client of whatever serves this one.
    pub(super) async fn another(&self) -> ExecClient {
        (self.again)().await
    }

    /// Ends what serves the client.
    pub(super) async fn leave(self) {
        drop(self.client);
        if let Some(service) = self.service {
            let stopped = within("the service to stop", DEADLINE, service.stop());
            stopped.await.unwrap();
        }
    }
}

fn path() -> String {
    std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned())
}

/// A service of this program, with a keeper if there is one.
fn service() -> ProcessService {
    let keeper = option_env!("CARGO_BIN_EXE_exec_host")
        .map(|host| vec![PathBuf::from(host).into(), "__keeper".into()]);
    ProcessService::start(Options {
        keeper,
        ..Options::default()
    })
    .unwrap()
}

pub(super) async fn in_process() -> Option<Place> {
    let service = service();
    let again: Again = {
        let service = service.clone();
        Box::new(move || {
            let client = ExecClient::in_process(&service, ClientOptions::new("a test"));
            Box::pin(std::future::ready(client))
        })
    };
    Some(Place {
        client: again().await,
        folder: tempfile::tempdir().unwrap(),
        service: Some(service),
        again,
    })
}
