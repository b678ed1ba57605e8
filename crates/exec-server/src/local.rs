//! From the wire's words to the process service's own, for the server and the client in process.

use std::collections::BTreeMap;
use std::ffi::OsString;

use turnlane_process::{EnvPolicy, Inherit};
use turnlane_protocol::exec_server::process;

/// Names and values of variables.
pub(crate) fn variables(given: BTreeMap<String, String>) -> BTreeMap<OsString, OsString> {
    let pairs = given.into_iter();
    pairs
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// What of the service's environment a process gets.
pub(crate) fn env_policy(policy: process::EnvPolicy) -> EnvPolicy {
    EnvPolicy {
        inherit: match policy.inherit {
            process::Inherit::All => Inherit::All,
            process::Inherit::Core => Inherit::Core,
            process::Inherit::None => Inherit::None,
        },
        ignore_default_excludes: policy.ignore_default_excludes,
        exclude: policy.exclude,
        set: variables(policy.set),
        include_only: policy.include_only,
        by_operator: false,
    }
}
