//! What the machine is: the `environmentInfo` of the handshake.
//!
//! Looked up once, at the start of the server. It names only what we do: a capability that is absent
//! is one we do not have, and clients then do without.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use turnlane_process::Report;
use turnlane_protocol::exec_server::environment::{
    EXTENSIONS, EnvironmentInfo, Shell, TurnlaneInfo,
};
use turnlane_protocol::exec_server::file_uri;

/// What is used where neither the environment nor the user database names a shell.
const FALLBACK_SHELL: &str = "/bin/sh";

/// The machine this server runs on.
pub(crate) fn look(report: &Report, cwd: &Path) -> EnvironmentInfo {
    let user = User::of_this_process();
    let shell = variable("SHELL")
        .or(user.shell)
        .unwrap_or_else(|| FALLBACK_SHELL.into());
    let home = variable("HOME").or(user.home);
    EnvironmentInfo {
        shell: Shell {
            name: shell_name(&shell),
            path: shell.to_string_lossy().into_owned(),
        },
        cwd: Some(file_uri::from_path(cwd)),
        user_home_dir: home.as_deref().map(file_uri::from_path),
        platform_os: Some(std::env::consts::OS.to_owned()),
        temporary_directories: variable("TMPDIR")
            .as_deref()
            .map(file_uri::from_path)
            .into_iter()
            .collect(),
        temp_dir: Some(file_uri::from_path(&std::env::temp_dir())),
        capabilities: BTreeMap::from([("sandboxedFileStreaming".to_owned(), Value::Bool(true))]),
        turnlane: Some(TurnlaneInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            containment: report.containment.name().to_owned(),
            landlock_abi: report.landlock.as_ref().ok().copied(),
            mount_sandbox: report.mounts.is_ok() && report.landlock.is_ok(),
            network_sandbox: report.seccomp.is_ok(),
            extensions: EXTENSIONS.map(str::to_owned).to_vec(),
        }),
        others: BTreeMap::new(),
    }
}

/// An absolute path from the environment.
fn variable(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(name)?);
    path.is_absolute().then_some(path)
}

fn shell_name(shell: &Path) -> String {
    let name = shell.file_name().unwrap_or(shell.as_os_str());
    name.to_string_lossy().into_owned()
}

/// What the user database says.
#[derive(Debug, Default, PartialEq, Eq)]
struct User {
    home: Option<PathBuf>,
    shell: Option<PathBuf>,
}

impl User {
    fn of_this_process() -> Self {
        let uid = rustix::process::getuid().as_raw();
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self::find(&users, uid).unwrap_or_default()
    }

    fn find(users: &str, uid: u32) -> Option<Self> {
        users.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [_, _, id, _, _, home, shell] = fields[..] else {
                return None;
            };
            let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
            (id.parse() == Ok(uid)).then(|| Self {
                home: path(home),
                shell: path(shell),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_database_knows_home_and_shell() {
        let users = "root:x:0:0:root:/root:/bin/bash\nbroken\na:x:1000:1000::/home/a:\n";
        let root = User::find(users, 0).unwrap();
        assert_eq!(root.shell, Some("/bin/bash".into()));
        let user = User::find(users, 1000).unwrap();
        assert_eq!((user.home, user.shell), (Some("/home/a".into()), None));
        assert_eq!(User::find(users, 7), None);
    }

    #[test]
    fn a_shell_is_called_by_its_file_name() {
        assert_eq!(shell_name(Path::new("/usr/bin/zsh")), "zsh");
    }
}
