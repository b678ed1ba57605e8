//! What stands in front of a command: keywords, assignments, and programs that run another one.
//!
//! The invariant here: what is returned is a proper tail of what was given, so looking through
//! wrappers ends.
//!
//! Whether the command behind them is dangerous is the business of the parent.

/// Words of the shell's grammar that a command may follow.
const KEYWORDS: [&str; 11] = [
    "if", "then", "elif", "else", "while", "until", "do", "!", "{", "time", "coproc",
];

/// The words from the command's name on.
pub(in crate::native) fn without_keywords(mut words: &[String]) -> &[String] {
    while let Some((first, rest)) = words.split_first() {
        words = match first.as_str() {
            "function" => rest.get(1..).unwrap_or_default(),
            word if KEYWORDS.contains(&word) || is_assignment(word) => rest,
            _ => break,
        };
    }
    words
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        !name.is_empty() && name.chars().all(is_name) && !name.starts_with(|c: char| c.is_numeric())
    })
}

/// The command that a program runs, where it is one that runs its arguments.
pub(in crate::native) fn unwrapped<'a>(
    program: &str,
    arguments: &'a [String],
) -> Option<&'a [String]> {
    let takes_value: &[&str] = match program {
        "sudo" | "doas" => &[
            "-u", "--user", "-g", "--group", "-h", "--host", "-p", "--prompt", "-C", "-D",
            "--chdir", "-R", "--chroot", "-r", "--role", "-t", "--type", "-T", "-U",
        ],
        "env" => &["-u", "--unset", "-C", "--chdir"],
        "command" => {
            // Only tells what it would run.
            let asks = |word: &String| word == "-v" || word == "-V";
            return (!arguments.first().is_some_and(asks)).then(|| behind_options(arguments, &[]));
        }
        "exec" => &["-a"],
        "nice" => &["-n", "--adjustment"],
        "ionice" => &["-c", "--class", "-n", "--classdata", "-p"],
        "stdbuf" => &["-i", "--input", "-o", "--output", "-e", "--error"],
        "timeout" => {
            let behind = behind_options(arguments, &["-k", "--kill-after", "-s", "--signal"]);
            return Some(behind.get(1..).unwrap_or_default());
        }
        "xargs" => &[
            "-a",
            "-d",
            "-E",
            "-I",
            "-L",
            "-n",
            "-P",
            "-s",
            "--arg-file",
            "--delimiter",
            "--max-args",
            "--max-procs",
            "--replace",
            "--max-lines",
            "--max-chars",
        ],
        "nohup" | "builtin" | "setsid" | "busybox" | "time" | "chronic" | "unbuffer" => &[],
        _ => return None,
    };
    Some(behind_options(arguments, takes_value))
}

/// The words behind the options; `takes_value` names those that take the word behind them.
pub(in crate::native) fn behind_options<'a>(
    mut words: &'a [String],
    takes_value: &[&str],
) -> &'a [String] {
    while let Some((first, rest)) = words.split_first() {
        words = match first.as_str() {
            "--" => return rest,
            word if takes_value.contains(&word) => rest.get(1..).unwrap_or_default(),
            word if word.starts_with('-') => rest,
            _ => break,
        };
    }
    words
}

/// The script of a shell's `-c`; options may stand together, as in `-lc`.
pub(in crate::native) fn script_of(arguments: &[String]) -> Option<&str> {
    let mut words = arguments.iter().map(String::as_str).peekable();
    let is_script = |word: &str| {
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        word == "--command" || letters.is_some_and(|letters| letters.contains('c'))
    };
    words.find(|word| is_script(word))?;
    // Further options, each with its value where it has one, may stand before the script.
    while let Some(word) = words.peek() {
        match *word {
            "-o" | "+o" | "-O" | "+O" => words.nth(1),
            "--" => {
                words.next();
                break;
            }
            word if word.starts_with(['-', '+']) => words.next(),
            _ => break,
        };
    }
    words.next()
}

/// The command line that `env -S` takes as one word, with the words behind it.
pub(in crate::native) fn split_string(arguments: &[String]) -> Option<String> {
    let at = arguments.iter().position(|word| {
        word == "-S" || word.starts_with("--split-string") || word.starts_with("-S")
    })?;
    let (option, behind) = arguments.get(at..)?.split_first()?;
    let own = option
        .strip_prefix("--split-string=")
        .or_else(|| option.strip_prefix("-S"));
    let own = own.unwrap_or_default().to_owned();
    let words = std::iter::once(own).chain(behind.iter().cloned());
    Some(words.collect::<Vec<_>>().join(" "))
}
