//! Commands that are asked about before they run: those that destroy without a way back.
//!
//! The invariant here: the list is advice. It sees through what people and models put in front of a
//! command (`sudo`, `env`, `sh -c` and the like), but not through variables, files or programs; the
//! sandbox is the wall. A script too deep to be read counts as dangerous.
//!
//! What is done about a dangerous command is said by `policy`.

pub(in crate::native) mod wrappers;

#[cfg(test)]
mod tests;

use super::words::{self, Shape};

/// How many scripts may be wrapped in each other as words.
const DEPTH_MAX: usize = 8;

/// Shells, which take a script as an argument or read one.
const SHELLS: [&str; 8] = ["sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "su"];

/// What may be written to although it lies where devices do.
const HARMLESS_DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/fd/",
    "/dev/shm/",
];

/// Whether a script does something that cannot be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Danger {
    /// Not that its text shows it.
    No,
    /// It does.
    Yes,
}

/// Looks at a script.
pub(crate) fn is_dangerous(script: &str) -> Danger {
    if in_script(script, 0) {
        Danger::Yes
    } else {
        Danger::No
    }
}

fn in_script(script: &str, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return true;
    }
    let script = words::read(script);
    if script.shape == Shape::TooDeep {
        return true;
    }
    let mut commands = script.commands.iter();
    commands.any(|command| in_command(&command.words, command.here.as_deref(), depth))
}

/// `here`: what the command is given to read.
fn in_command(words: &[String], here: Option<&str>, depth: usize) -> bool {
    // Each round takes one word in front at least.
    let mut words = words;
    loop {
        words = wrappers::without_keywords(words);
        let Some((program, arguments)) = words.split_first() else {
            return false;
        };
        let program = program.rsplit('/').next().unwrap_or(program);
        if SHELLS.contains(&program) {
            let script = wrappers::script_of(arguments).or(here);
            return script.is_some_and(|script| in_script(script, depth + 1));
        }
        match program {
            "eval" => return in_script(&arguments.join(" "), depth + 1),
            "trap" => {
                return arguments
                    .first()
                    .is_some_and(|word| in_script(word, depth + 1));
            }
            "find" => return in_find(arguments, depth),
            _ => {}
        }
        if program == "env"
            && let Some(script) = wrappers::split_string(arguments)
        {
            return in_script(&script, depth + 1);
        }
        match wrappers::unwrapped(program, arguments) {
            Some(inner) => words = inner,
            None => return is_destructive(program, arguments),
        }
    }
}

/// What `find` runs for each file.
fn in_find(arguments: &[String], depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return true;
    }
    let runs = ["-exec", "-execdir", "-ok", "-okdir"];
    let mut rest = arguments;
    while let Some(at) = rest.iter().position(|word| runs.contains(&word.as_str())) {
        rest = &rest[at + 1..];
        let end = rest.iter().position(|word| word == ";" || word == "+");
        let (command, behind) = rest.split_at(end.unwrap_or(rest.len()));
        if in_command(command, None, depth + 1) {
            return true;
        }
        rest = behind;
    }
    false
}

/// The list itself.
fn is_destructive(program: &str, arguments: &[String]) -> bool {
    match program {
        "rm" => has_option(arguments, 'f', "--force"),
        "git" => is_destructive_git(arguments),
        "dd" => arguments.iter().any(|word| writes_device(word)),
        "shutdown" | "reboot" | "halt" | "poweroff" => true,
        "init" | "telinit" => arguments.iter().any(|word| word == "0" || word == "6"),
        "systemctl" => {
            let ends = ["poweroff", "reboot", "halt", "kexec", "soft-reboot"];
            arguments.iter().any(|word| ends.contains(&word.as_str()))
        }
        _ => program == "mkfs" || program.starts_with("mkfs."),
    }
}

fn writes_device(word: &str) -> bool {
    word.strip_prefix("of=").is_some_and(|path| {
        let is_harmless = |device: &&str| match device.strip_suffix('/') {
            Some(_) => path.starts_with(*device),
            None => path == *device,
        };
        path.starts_with("/dev/") && !HARMLESS_DEVICES.iter().any(is_harmless)
    })
}

fn is_destructive_git(arguments: &[String]) -> bool {
    let takes_value = [
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--super-prefix",
    ];
    let arguments = wrappers::behind_options(arguments, &takes_value);
    let Some((subcommand, arguments)) = arguments.split_first() else {
        return false;
    };
    match subcommand.as_str() {
        "reset" => has_long(arguments, "--hard", "--h"),
        "clean" => {
            let is_trial = has_option(arguments, 'n', "--dry-run");
            has_option(arguments, 'f', "--force") && !is_trial
        }
        "push" => {
            let forces = |word: &String| {
                word.starts_with("--force-with-lease")
                    || word == "--mirror"
                    || (word.starts_with('+') && word.len() > 1)
            };
            has_option(arguments, 'f', "--force") || arguments.iter().any(forces)
        }
        _ => false,
    }
}

/// Whether a short option, alone or among others, or its long form is given.
fn has_option(arguments: &[String], short: char, long: &str) -> bool {
    let is_short = |word: &str| {
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        letters.is_some_and(|letters| letters.contains(short))
    };
    options(arguments).any(is_short) || has_long(arguments, long, long.get(..3).unwrap_or(long))
}

/// Whether a long option is given, or a beginning of it that is at least as long as `least`.
fn has_long(arguments: &[String], long: &str, least: &str) -> bool {
    options(arguments).any(|word| word.starts_with(least) && long.starts_with(word))
}

fn options(arguments: &[String]) -> impl Iterator<Item = &str> {
    let words = arguments.iter().map(String::as_str);
    words
        .take_while(|word| *word != "--")
        .filter(|word| word.starts_with('-'))
}
