//! What a command does, as far as its text tells: reads a file, lists a folder, searches, or
//! something else.
//!
//! The invariant here: a script is described in parts only if every part is known; one unknown part
//! makes the whole of it one unknown action. A description never claims less than the script does.
//!
//! Descriptions are for people who watch; nothing is decided by them.

mod options;

#[cfg(test)]
mod tests;

use turnlane_protocol::item::{CommandAction, Extra};

use self::options::{Operands, operands};
use super::words::{self, Joint, Shape, Simple};

/// What only shapes the output of the command before it, besides those whose options take values.
const FILTERS: [&str; 7] = ["wc", "uniq", "rev", "tac", "cat", "less", "more"];

/// What a script does.
pub(crate) fn of(script: &str) -> Vec<CommandAction> {
    known(script).unwrap_or_else(|| vec![CommandAction::unknown(script)])
}

fn known(script: &str) -> Option<Vec<CommandAction>> {
    let script = words::read(script);
    if script.shape != Shape::Plain {
        return None;
    }
    let mut folder: Option<String> = None;
    let mut actions = Vec::new();
    for command in &script.commands {
        match command.joint {
            Joint::Pipe if !actions.is_empty() => is_filter(command).then_some(())?,
            Joint::Pipe => return None,
            Joint::Next => match command.words.as_slice() {
                [cd, to] if cd == "cd" && !to.starts_with(['-', '~']) => {
                    folder = Some(within(folder.as_deref(), to));
                }
                _ => actions.extend(Told::new(command, folder.as_deref()).actions()?),
            },
        }
    }
    (!actions.is_empty()).then_some(actions)
}

fn is_filter(command: &Simple) -> bool {
    let Some((program, arguments)) = command.words.split_first() else {
        return false;
    };
    // With a file of its own, or one to write, it is a command by itself.
    let found = match program.as_str() {
        "sed" => return options::prints_lines(arguments).is_some_and(|files| files.is_empty()),
        "grep" | "egrep" | "fgrep" => {
            let found = operands(arguments, options::GREP);
            return found.query.is_some() && found.rest.is_empty();
        }
        "head" | "tail" => operands(arguments, options::HEAD),
        "nl" => operands(arguments, options::NL),
        "cut" | "sort" | "column" | "fold" => operands(arguments, options::FILTER),
        "tr" => return true,
        program if FILTERS.contains(&program) => operands(arguments, &[]),
        _ => return false,
    };
    let writes = |word: &String| word.starts_with("-o") || word.starts_with("--output");
    found.rest.is_empty() && !(program == "sort" && arguments.iter().any(writes))
}

/// A command, and the folder it runs in as far as the script says.
struct Told<'a> {
    command: &'a Simple,
    folder: Option<&'a str>,
}

impl<'a> Told<'a> {
    fn new(command: &'a Simple, folder: Option<&'a str>) -> Self {
        Self { command, folder }
    }

    fn actions(&self) -> Option<Vec<CommandAction>> {
        let (program, arguments) = self.command.words.split_first()?;
        match program.as_str() {
            "cat" | "less" | "more" | "tac" => self.reads(&operands(arguments, &[]).rest),
            "bat" | "batcat" => self.reads(&operands(arguments, options::BAT).rest),
            "head" | "tail" => self.reads(&operands(arguments, options::HEAD).rest),
            "nl" => self.reads(&operands(arguments, options::NL).rest),
            "sed" => self.reads(&options::prints_lines(arguments)?),
            "ls" | "eza" | "exa" => Some(self.lists(&operands(arguments, options::LS).rest)),
            "tree" => Some(self.lists(&operands(arguments, options::TREE).rest)),
            "find" => self.lists_found(arguments),
            "grep" | "egrep" | "fgrep" => self.searches(&operands(arguments, options::GREP)),
            "rg" => self.ripgrep(arguments),
            "ag" | "ack" => self.searches(&operands(arguments, options::AG)),
            "git" => self.git(arguments),
            _ => None,
        }
    }

    fn reads(&self, files: &[&str]) -> Option<Vec<CommandAction>> {
        // Without a file it reads what somebody types.
        let known = !files.is_empty() && files.iter().all(|file| *file != "-");
        known.then(|| files.iter().map(|file| self.read(file)).collect())
    }

    fn read(&self, file: &str) -> CommandAction {
        let name = file.trim_end_matches('/').rsplit('/').next();
        CommandAction::Read {
            command: self.command.text.clone(),
            name: name.unwrap_or(file).to_owned(),
            path: within(self.folder, file),
            extra: Extra::new(),
        }
    }

    fn lists(&self, folders: &[&str]) -> Vec<CommandAction> {
        let list = |path| CommandAction::ListFiles {
            command: self.command.text.clone(),
            path,
            extra: Extra::new(),
        };
        if folders.is_empty() {
            return vec![list(self.folder.map(str::to_owned))];
        }
        let paths = folders.iter().map(|path| within(self.folder, path));
        paths.map(|path| list(Some(path))).collect()
    }

    fn lists_found(&self, arguments: &'a [String]) -> Option<Vec<CommandAction>> {
        let acts = |word: &String| {
            let acts = ["-exec", "-ok", "-delete", "-fprint", "-fls"];
            acts.iter().any(|act| word.starts_with(act))
        };
        if arguments.iter().any(acts) {
            return None;
        }
        let is_folder = |word: &&str| !word.starts_with(['-', '(', '!', ')']);
        let words = arguments.iter().map(String::as_str);
        let folders: Vec<&str> = words.take_while(is_folder).collect();
        Some(self.lists(&folders))
    }

    fn ripgrep(&self, arguments: &'a [String]) -> Option<Vec<CommandAction>> {
        let found = operands(arguments, options::RG);
        if arguments.iter().any(|word| word == "--files") {
            // Nothing is searched for, so what looks like a query is a folder.
            let folders: Vec<&str> = found.first.into_iter().chain(found.rest).collect();
            return Some(self.lists(&folders));
        }
        self.searches(&found)
    }

    fn git(&self, arguments: &'a [String]) -> Option<Vec<CommandAction>> {
        let (subcommand, arguments) = arguments.split_first()?;
        match subcommand.as_str() {
            "grep" => self.searches(&operands(arguments, options::GREP)),
            "ls-files" => Some(self.lists(&operands(arguments, &[]).rest)),
            _ => None,
        }
    }

    fn searches(&self, found: &Operands<'_>) -> Option<Vec<CommandAction>> {
        let path = found.rest.first().map(|path| within(self.folder, path));
        Some(vec![CommandAction::Search {
            command: self.command.text.clone(),
            query: Some(found.query?.to_owned()),
            path: path.or_else(|| self.folder.map(str::to_owned)),
            extra: Extra::new(),
        }])
    }
}

/// A path behind the `cd` of its script.
fn within(folder: Option<&str>, path: &str) -> String {
    match folder {
        Some(folder) if !path.starts_with('/') => {
            format!("{}/{path}", folder.trim_end_matches('/'))
        }
        _ => path.to_owned(),
    }
}
