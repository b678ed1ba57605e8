//! A night without a person: what is typed in the evening, what runs, and what the log says.

mod adding;
mod logs;
mod outputs;
mod recipe;
mod serving;

use std::path::Path;

use turnlane_process::{
    Containment, ContainmentKind, Delivery, Io, Options, Process, ProcessService, Spec,
    TerminalSize,
};

/// A program at a terminal of its own, which is closed when this is dropped.
struct Terminal {
    process: Process,
    _service: ProcessService,
}

impl Terminal {
    async fn start(argv: &[&str], directory: &Path, env: Vec<(String, String)>) -> Self {
        let service = ProcessService::start(Options {
            containment: Some(ContainmentKind::Group),
            ..Options::default()
        })
        .unwrap();
        let mut spec = Spec::new(argv, directory);
        for (name, value) in env {
            spec.env.vars.insert(name.into(), value.into());
        }
        let process = service.spawn(Spec {
            io: Io::Pty(TerminalSize { rows: 24, cols: 80 }),
            delivery: Delivery::Retain,
            containment: Containment::Group,
            ..spec
        });
        Self {
            process: process.await.unwrap(),
            _service: service,
        }
    }
}
