//! The commands that a script runs, as far as its text tells.
//!
//! The invariant here: the list is never too short for `forbidden` and `prompt`. Each command is in it
//! as written and again behind each program that runs its arguments (`env`, `sudo`, `xargs`, `sh -c`).
//! A script with a part that only a shell can know is [`Split::Opaque`], and then every word of it counts as
//! a command. For `allow` the opposite holds: [`Split::plain`] has the commands only if they are all
//! that runs.
//!
//! Quotes, substitutions and here-documents are read by `words`.

use std::collections::HashSet;

use super::PATTERN_WORDS_MAX;
use super::wildcard::Wildcard;
use crate::native::danger::wrappers;
use crate::native::words::{self, Joint, Shape, Simple};

/// How many scripts may be wrapped in each other as words.
const DEPTH_MAX: usize = 8;
/// How many commands a script may hold to be compared with rules.
pub(super) const COMMANDS_MAX: usize = 4_096;
/// How many of them may have a name that is not known: each is compared with every rule.
const UNKNOWN_MAX: usize = 256;

/// Programs that read a script from an argument or from their input.
const SHELLS: [&str; 9] = [
    "sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "su", "rbash",
];
/// Shells whose `-c` may be looked through for `allow`.
const PLAIN_SHELLS: [&str; 3] = ["sh", "bash", "zsh"];
/// Words after which the text of a script does not tell what runs.
const OPAQUE: [&str; 10] = [
    "eval", "source", ".", "trap", "alias", "function", "coproc", "hash", "enable", "fc",
];
/// Programs whose arguments name another one, in forms too many to be read option by option.
const LAUNCHERS: [&str; 42] = [
    "at",
    "batch",
    "catchsegv",
    "chroot",
    "chrt",
    "coreutils",
    "dbus-run-session",
    "entr",
    "expect",
    "fakeroot",
    "fd",
    "fdfind",
    "flock",
    "gdb",
    "ltrace",
    "nsenter",
    "numactl",
    "parallel",
    "perf",
    "pkexec",
    "prlimit",
    "proot",
    "rlwrap",
    "runcon",
    "runuser",
    "screen",
    "script",
    "setarch",
    "setpriv",
    "ssh",
    "ssh-agent",
    "start-stop-daemon",
    "strace",
    "systemd-run",
    "taskset",
    "tmux",
    "unshare",
    "valgrind",
    "watch",
    "xvfb-run",
    "linux32",
    "linux64",
];
/// Wrappers that `danger` does not know: modifiers of zsh, and another program of many names.
const MORE_WRAPPERS: [&str; 4] = ["noglob", "nocorrect", "-", "toybox"];

/// The commands of a script.
#[derive(Debug)]
pub(super) struct Split {
    /// Every command, and every command that it runs.
    pub(super) commands: Vec<Vec<String>>,
    /// The commands when they are all that the script does.
    pub(super) plain: Option<Vec<Vec<String>>>,
    pub(super) reading: Reading,
    /// The script as words, however it is quoted; one list as written and one for each command.
    pub(super) tokens: Vec<Vec<String>>,
}

/// How much of a script is in its list of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reading {
    /// Every command is listed.
    Complete,
    /// A part is known to the shell only.
    Opaque,
    /// There are more than [`COMMANDS_MAX`].
    TooLong,
}

/// Lists the commands of a script.
pub(super) fn split(script: &str) -> Split {
    let mut splitter = Splitter {
        commands: Vec::new(),
        unknown: 0,
        reading: Reading::Complete,
        tokens: vec![tokens(script)],
    };
    splitter.script(script, 0);
    Split {
        plain: match splitter.reading {
            Reading::Complete => plain(script, 0),
            Reading::Opaque | Reading::TooLong => None,
        },
        commands: splitter.commands,
        reading: splitter.reading,
        tokens: splitter.tokens,
    }
}

impl Split {
    /// Every word of the script by its own name and by its base name.
    pub(super) fn words(&self) -> HashSet<&str> {
        let all = self
            .tokens
            .iter()
            .flatten()
            .chain(self.commands.iter().flatten());
        all.flat_map(|word| [word.as_str(), super::base_name(word)])
            .collect()
    }
}

struct Splitter {
    commands: Vec<Vec<String>>,
    /// How many commands have a name that is not known.
    unknown: usize,
    reading: Reading,
    tokens: Vec<Vec<String>>,
}

impl Splitter {
    fn is_at_least(&mut self, reading: Reading) {
        self.reading = self.reading.max(reading);
    }

    /// Adds a command; no pattern looks further than [`PATTERN_WORDS_MAX`].
    fn push(&mut self, words: &[String], appended: Appended) {
        let Some(first) = words.first() else {
            return;
        };
        self.unknown += usize::from(Wildcard::of(first).is_some());
        if self.commands.len() >= COMMANDS_MAX || self.unknown > UNKNOWN_MAX {
            return self.is_at_least(Reading::TooLong);
        }
        let known = words.iter().take(PATTERN_WORDS_MAX).cloned();
        let unknown = (appended == Appended::Unknown).then(|| "$".to_owned());
        self.commands.push(known.chain(unknown).collect());
    }

    fn script(&mut self, text: &str, depth: usize) {
        if depth > DEPTH_MAX {
            return self.is_at_least(Reading::Opaque);
        }
        let script = words::read(text);
        if script.shape == Shape::TooDeep || defines_function(text) {
            self.is_at_least(Reading::Opaque);
        }
        for command in &script.commands {
            let flat = command.words.iter().flat_map(|word| tokens(word));
            self.tokens.push(flat.collect());
            self.simple(command, depth);
        }
    }

    fn simple(&mut self, command: &Simple, depth: usize) {
        if let Some(first) = command.words.first() {
            let has_keyword = |word: &String| matches!(word.as_str(), "function" | "coproc");
            if command.words.iter().take(4).any(has_keyword) || OPAQUE.contains(&first.as_str()) {
                self.is_at_least(Reading::Opaque);
            }
        }
        self.words(&command.words, command.here.as_deref(), depth);
    }

    /// A command, and behind it whatever it runs; `here` is the document that it reads.
    fn words(&mut self, words: &[String], here: Option<&str>, depth: usize) {
        if depth > DEPTH_MAX {
            return self.is_at_least(Reading::Opaque);
        }
        let mut words = words;
        let mut appended = Appended::Nothing;
        loop {
            words = wrappers::without_keywords(words);
            // Options of the keyword `time`.
            while words.len() > 1 && words[0].starts_with('-') && words[0] != "-" {
                words = &words[1..];
            }
            let Some((first, arguments)) = words.split_first() else {
                return;
            };
            self.push(words, appended);
            // zsh replaces `=name` by the path of the program.
            let program = super::base_name(first).trim_start_matches('=');
            if program.contains('$') || OPAQUE.contains(&program) {
                self.is_at_least(Reading::Opaque);
            }
            if SHELLS.contains(&program) {
                return self.shell(arguments, here, depth);
            }
            match program {
                "eval" => return self.script(&arguments.join(" "), depth + 1),
                "trap" => {
                    for word in arguments {
                        self.script(word, depth + 1);
                    }
                    return;
                }
                "find" => return self.find(arguments, depth),
                _ => {}
            }
            if program == "env"
                && let Some(script) = wrappers::split_string(arguments)
            {
                self.script(&script, depth + 1);
            }
            if LAUNCHERS.contains(&program) || program.starts_with("ld-") || program == "ld.so" {
                return self.launcher(arguments, depth);
            }
            let behind = if MORE_WRAPPERS.contains(&program) {
                Some(wrappers::behind_options(arguments, &[]))
            } else {
                wrappers::unwrapped(program, arguments)
            };
            let Some(behind) = behind else {
                return;
            };
            if program == "xargs" {
                appended = Appended::Unknown;
            }
            self.behind_unknown_options(arguments, behind, appended);
            if behind.is_empty() && appended == Appended::Unknown {
                // `xargs env` runs the words that it reads.
                self.is_at_least(Reading::Opaque);
            }
            words = behind;
        }
    }

    /// An option that `wrappers` does not know may take the word that looks like the command.
    fn behind_unknown_options(
        &mut self,
        arguments: &[String],
        behind: &[String],
        appended: Appended,
    ) {
        let skipped = arguments.len().saturating_sub(behind.len());
        let options = arguments.iter().take(skipped);
        let options = options.filter(|word| word.starts_with('-')).count();
        for start in 1..=options.min(behind.len().saturating_sub(1)) {
            self.push(&behind[start..], appended);
        }
    }

    fn shell(&mut self, arguments: &[String], here: Option<&str>, depth: usize) {
        let script = wrappers::script_of(arguments);
        for text in script.into_iter().chain(here) {
            self.script(text, depth + 1);
        }
        // Without `-c` the script is a file or the input.
        if script.is_none() {
            self.is_at_least(Reading::Opaque);
        }
    }

    fn find(&mut self, arguments: &[String], depth: usize) {
        let runs = ["-exec", "-execdir", "-ok", "-okdir"];
        let mut rest = arguments;
        while let Some(at) = rest.iter().position(|word| runs.contains(&word.as_str())) {
            rest = &rest[at + 1..];
            let end = rest.iter().position(|word| word == ";" || word == "+");
            let (command, behind) = rest.split_at(end.unwrap_or(rest.len()));
            self.words(command, None, depth + 1);
            rest = behind;
        }
    }

    /// Every argument may be the command, or a script of its own.
    fn launcher(&mut self, arguments: &[String], depth: usize) {
        for start in 0..arguments.len() {
            if arguments[start].contains(char::is_whitespace) {
                self.script(&arguments[start], depth + 1);
            }
            self.push(&arguments[start..], Appended::Nothing);
            let program = super::base_name(&arguments[start]);
            if SHELLS.contains(&program) {
                self.shell(&arguments[start + 1..], None, depth + 1);
            }
        }
    }
}

/// What a program adds to the command that it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Appended {
    Nothing,
    /// `xargs`: words that it reads.
    Unknown,
}

/// Whether the text may define a function: two brackets with nothing between them.
fn defines_function(text: &str) -> bool {
    let mut after_open = false;
    for letter in text.chars() {
        match letter {
            '(' => after_open = true,
            ')' if after_open => return true,
            ' ' | '\t' => {}
            _ => after_open = false,
        }
    }
    false
}

/// The commands when they are all that a script does: plain words joined by operators, also as the
/// script of a shell.
fn plain(text: &str, depth: usize) -> Option<Vec<Vec<String>>> {
    let script = words::read(text);
    if depth > DEPTH_MAX || script.shape != Shape::Plain {
        return None;
    }
    let mut commands = Vec::new();
    for command in script.commands {
        let inner = match command.words.as_slice() {
            [shell, flag, script]
                if PLAIN_SHELLS.contains(&shell.as_str())
                    && (flag == "-c" || flag == "-lc")
                    && command.joint == Joint::Next =>
            {
                Some(script)
            }
            _ => None,
        };
        match inner {
            Some(script) => commands.extend(plain(script, depth + 1)?),
            None => commands.push(command.words),
        }
    }
    Some(commands)
}

/// A text cut at everything that ends a word for some program: blanks, quotes, operators.
fn tokens(text: &str) -> Vec<String> {
    let is_word = |letter: char| letter.is_alphanumeric() || "_./-+@%:~^".contains(letter);
    let words = text.split(|letter| !is_word(letter));
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}
