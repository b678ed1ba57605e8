//! Which words of a command are options, and which are what it works on.
//!
//! The invariant here: an option that takes a value is listed, so that its value is not taken for a
//! file. An option nobody listed is taken for one without.
//!
//! What the rest means is the business of the parent.

pub(super) const HEAD: &[&str] = &["-n", "-c", "--lines", "--bytes"];
pub(super) const NL: &[&str] = &["-b", "-d", "-f", "-h", "-i", "-l", "-n", "-s", "-v", "-w"];
pub(super) const BAT: &[&str] = &[
    "-r",
    "--line-range",
    "-l",
    "--language",
    "--style",
    "--theme",
];
pub(super) const LS: &[&str] = &["-I", "--ignore", "-w", "--width", "-T", "--level", "-L"];
pub(super) const TREE: &[&str] = &["-L", "-I", "-P", "--filelimit"];
pub(super) const FILTER: &[&str] = &["-d", "-f", "-c", "-b", "-k", "-t", "-s", "-w"];
/// The first four give the query itself, or a file of queries.
pub(super) const GREP: &[&str] = &[
    "-e",
    "--regexp",
    "-f",
    "--file",
    "-m",
    "--max-count",
    "-A",
    "-B",
    "-C",
    "--after-context",
    "--before-context",
    "--context",
    "--include",
    "--exclude",
    "--exclude-dir",
    "-d",
    "-D",
];
pub(super) const RG: &[&str] = &[
    "-e",
    "--regexp",
    "-f",
    "--file",
    "-g",
    "--glob",
    "--iglob",
    "-t",
    "--type",
    "-T",
    "--type-not",
    "-A",
    "-B",
    "-C",
    "--after-context",
    "--before-context",
    "--context",
    "-m",
    "--max-count",
    "-M",
    "--max-columns",
    "-d",
    "--max-depth",
    "-j",
    "--threads",
    "-r",
    "--replace",
    "-E",
    "--encoding",
    "--sort",
    "--sortr",
    "--max-filesize",
    "--color",
];
pub(super) const AG: &[&str] = &[
    "-A",
    "-B",
    "-C",
    "-m",
    "--ignore",
    "--ignore-dir",
    "--depth",
    "-G",
    "--type",
    "-g",
];

/// What a command works on.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Operands<'a> {
    /// What a search looks for.
    pub(super) query: Option<&'a str>,
    /// The word that was taken for the query, where no option gave one.
    pub(super) first: Option<&'a str>,
    /// For a search what follows the query, else everything.
    pub(super) rest: Vec<&'a str>,
}

/// Sorts the words of a command; `takes_value` names the options that take the word behind them.
pub(super) fn operands<'a>(arguments: &'a [String], takes_value: &[&str]) -> Operands<'a> {
    let gives_query = |option: &str| matches!(option, "-e" | "--regexp");
    let is_search = takes_value.contains(&"-A");
    let mut query = None;
    let mut rest = Vec::new();
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word == "--" {
            rest.extend(words);
            break;
        }
        if takes_value.contains(&word) {
            let value = words.next();
            if is_search && gives_query(word) {
                query = query.or(value);
            }
            continue;
        }
        if let Some(value) = word.strip_prefix("--regexp=").filter(|_| is_search) {
            query = query.or(Some(value));
            continue;
        }
        if !word.starts_with('-') || word == "-" {
            rest.push(word);
        }
    }
    let mut first = None;
    if is_search && query.is_none() && !rest.is_empty() {
        first = Some(rest.remove(0));
    }
    Operands {
        query: query.or(first),
        first,
        rest,
    }
}

/// The files of a `sed` that only prints lines; none if it does anything else.
pub(super) fn prints_lines(arguments: &[String]) -> Option<Vec<&str>> {
    let (quiet, rest) = arguments.split_first()?;
    let (script, files) = rest.split_first()?;
    let is_number = |text: &str| text == "$" || text.parse::<u64>().is_ok();
    let range = script.strip_suffix('p')?;
    let is_range = match range.split_once(',') {
        Some((from, to)) => is_number(from) && is_number(to),
        None => is_number(range),
    };
    let plain = quiet == "-n" && is_range && files.iter().all(|file| !file.starts_with('-'));
    plain.then(|| files.iter().map(String::as_str).collect())
}
