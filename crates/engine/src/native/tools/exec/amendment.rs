//! The beginning of a command that a person could allow from now on.
//!
//! The invariant here: what is proposed is how this very command begins, and says what will be
//! done: nothing that only starts another program is proposed.
//!
//! Remembering what was allowed is the runtime's business.

use crate::native::words::simple_command;

/// Programs that do whatever their arguments or their input say.
const RUNNERS: [&str; 22] = [
    "awk", "bash", "csh", "dash", "doas", "env", "eval", "exec", "fish", "ksh", "lua", "node",
    "nohup", "perl", "php", "python", "ruby", "sh", "su", "tcsh", "xargs", "zsh",
];

/// The rule the model proposes, if it is one to be proposed.
pub(super) fn proposed(prefix: Vec<String>, cmd: &str) -> Option<Vec<String>> {
    let (program, arguments) = prefix.split_first()?;
    let name = program.rsplit('/').next().unwrap_or(program);
    // `python3.12` is `python`.
    let plain = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let says_nothing = arguments.iter().all(|word| word.starts_with('-'));
    if plain.is_empty() || name == "sudo" || (RUNNERS.contains(&plain) && says_nothing) {
        return None;
    }
    let words = simple_command(cmd)?;
    words.starts_with(&prefix).then_some(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposes(prefix: &[&str], cmd: &str) -> bool {
        let prefix: Vec<String> = prefix.iter().map(ToString::to_string).collect();
        let proposed = proposed(prefix.clone(), cmd);
        assert!(proposed.is_none() || proposed.as_ref() == Some(&prefix));
        proposed.is_some()
    }

    #[test]
    fn the_beginning_of_the_command_is_proposed() {
        assert!(proposes(&["npm", "install"], "npm install left-pad"));
        assert!(proposes(&["git", "commit"], "git commit -m 'a b'"));
        assert!(proposes(&["python3", "setup.py"], "python3 setup.py test"));
    }

    #[test]
    fn what_allows_everything_or_something_else_is_not() {
        for (prefix, cmd) in [
            (&[][..], "ls"),
            (&["bash"], "bash x.sh"),
            (&["/bin/bash", "-c"], "/bin/bash -c ls"),
            (&["python3.12"], "python3.12 x.py"),
            (&["python3", "-c"], "python3 -c 'x'"),
            (&["sudo", "apt"], "sudo apt update"),
            (&["ls"], "cat x"),
            (&["ls"], "ls; rm -rf /"),
            (&["ls"], "ls $(rm x)"),
        ] {
            assert!(!proposes(prefix, cmd), "{prefix:?} for {cmd}");
        }
    }
}
