//! What the attacker was given: variables, descriptors, rights.

use crate::scene::Scene;
use crate::tries::{Tries, Verdict};

/// `CAP_CHOWN`, `CAP_DAC_OVERRIDE` and `CAP_FOWNER`, which root keeps.
const KEPT_OF_ROOT: u64 = 0b1011;

pub(super) fn environment(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let secrets = scene
        .text("secrets")
        .split(',')
        .filter(|secret| !secret.is_empty());
    for secret in secrets {
        for (name, value) in std::env::vars_os() {
            let found = value.to_string_lossy().contains(secret);
            tries.must_not(format!("a secret in {}", name.to_string_lossy()), found);
        }
    }
    tries.verdict()
}

pub(super) fn umask(scene: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let Ok(wanted) = u32::from_str_radix(scene.text("umask"), 8) else {
        return Verdict::Skipped("the server's umask is not known".to_owned());
    };
    // SAFETY: takes a number.
    let found = unsafe { libc::umask(0o077) };
    let lax = wanted & !found;
    tries.must_not(
        format!("umask {found:03o} where the server has {wanted:03o}"),
        lax != 0,
    );
    tries.verdict()
}

pub(super) fn rights(_: &Scene) -> Verdict {
    let mut tries = Tries::default();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|line| line.trim_start_matches(':').trim().to_owned())
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        let found = value(set).and_then(|text| u64::from_str_radix(&text, 16).ok());
        let more = found.unwrap_or(u64::MAX) & !KEPT_OF_ROOT;
        tries.must_not(format!("{set} has {more:#x} besides"), more != 0);
    }
    let no_new = value("NoNewPrivs").is_some_and(|text| text == "1");
    tries.must_not("new privileges are possible", !no_new);
    let filtered = value("Seccomp").is_some_and(|text| text == "2");
    tries.must_not("no filter is in force", !filtered);
    for entry in std::fs::read_dir("/proc/self/fd")
        .into_iter()
        .flatten()
        .flatten()
    {
        let number: i32 = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let target = target.to_string_lossy();
        // The pipe to the parent and the list itself are the attacker's own.
        let own = number <= 2 || target.starts_with("pipe:") || target.starts_with("/proc/");
        tries.must_not(format!("inherited descriptor {number}: {target}"), !own);
    }
    tries.verdict()
}
