//! `[exec_server]`: how `turnlane exec-server` serves.

use std::path::PathBuf;
use std::time::Duration;

use turnlane_process::{ContainmentKind, LocalSockets};

use super::Section;
use super::server::LOCAL_SOCKETS;
use crate::args::DialectArg;

/// The section with its defaults.
#[derive(Clone, Debug)]
pub(crate) struct ExecServerConfig {
    pub(crate) listen: Option<String>,
    pub(crate) dialect: DialectArg,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) shutdown_grace_period: Duration,
    pub(crate) max_processes_per_connection: usize,
    pub(crate) retained_output_bytes_per_process: usize,
    pub(crate) allow_direct_exec: bool,
    pub(crate) allow_prepared_exec: bool,
    pub(crate) detached_session_ttl: Duration,
    pub(crate) max_connections: usize,
    pub(crate) max_message_bytes: usize,
    pub(crate) env_pass: Vec<String>,
    pub(crate) local_sockets: LocalSockets,
    /// The best there is if `None`.
    pub(crate) containment: Option<ContainmentKind>,
    pub(crate) cgroup_root: Option<PathBuf>,
}

impl Default for ExecServerConfig {
    fn default() -> Self {
        Self {
            listen: None,
            dialect: DialectArg::Auto,
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            shutdown_grace_period: Duration::from_secs(2),
            max_processes_per_connection: 4096,
            retained_output_bytes_per_process: 1024 * 1024,
            allow_direct_exec: true,
            allow_prepared_exec: true,
            detached_session_ttl: Duration::from_secs(30),
            max_connections: 256,
            max_message_bytes: 16 * 1024 * 1024,
            env_pass: Vec::new(),
            local_sockets: LocalSockets::Closed,
            containment: None,
            cgroup_root: None,
        }
    }
}

impl ExecServerConfig {
    /// Takes over what a table says.
    pub(super) fn apply(&mut self, section: Section<'_>) -> anyhow::Result<()> {
        if let Some(listen) = section.text("listen")? {
            self.listen = Some(listen);
        }
        set(&mut self.dialect, section.word("dialect", &DIALECTS)?);
        set(&mut self.allowed_origins, section.texts("allowed_origins")?);
        set(&mut self.allowed_hosts, section.texts("allowed_hosts")?);
        set(
            &mut self.shutdown_grace_period,
            section
                .number("shutdown_grace_period_ms", 0..=600_000)?
                .map(Duration::from_millis),
        );
        set(
            &mut self.max_processes_per_connection,
            count(&section, "max_processes_per_connection", 1, 16_384)?,
        );
        set(
            &mut self.retained_output_bytes_per_process,
            count(&section, "retained_output_bytes_per_process", 0, 67_108_864)?,
        );
        set(
            &mut self.allow_direct_exec,
            section.flag("allow_direct_exec")?,
        );
        set(
            &mut self.allow_prepared_exec,
            section.flag("allow_prepared_exec")?,
        );
        set(
            &mut self.detached_session_ttl,
            section
                .number("detached_session_ttl_ms", 0..=86_400_000)?
                .map(Duration::from_millis),
        );
        set(
            &mut self.max_connections,
            count(&section, "max_connections", 1, 65_536)?,
        );
        set(
            &mut self.max_message_bytes,
            count(&section, "max_message_bytes", 65_536, 67_108_864)?,
        );
        set(&mut self.env_pass, section.texts("env_pass")?);
        let sockets = section.word("local_sockets", &LOCAL_SOCKETS)?;
        set(&mut self.local_sockets, sockets);
        if let Some(containment) = section.word("containment", &CONTAINMENTS)? {
            self.containment = containment;
        }
        if let Some(root) = section.text("cgroup_root")? {
            self.cgroup_root = Some(root.into());
        }
        section.finish();
        Ok(())
    }
}

const DIALECTS: [(&str, DialectArg); 3] = [
    ("auto", DialectArg::Auto),
    ("v0", DialectArg::V0),
    ("process", DialectArg::Process),
];

const CONTAINMENTS: [(&str, Option<ContainmentKind>); 4] = [
    ("auto", None),
    ("cgroup", Some(ContainmentKind::Cgroup)),
    ("reaper", Some(ContainmentKind::Reaper)),
    ("group", Some(ContainmentKind::Group)),
];

pub(super) fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

pub(super) fn count(
    section: &Section<'_>,
    key: &'static str,
    min: u64,
    max: u64,
) -> anyhow::Result<Option<usize>> {
    let number = section.number(key, min..=max)?;
    Ok(number.and_then(|number| usize::try_from(number).ok()))
}
