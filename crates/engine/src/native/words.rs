//! A shell script as simple commands, each a list of words; enough to tell what it obviously does.
//!
//! The invariant here: any text is read, in time that grows with its length, and no command that a
//! shell would run from the text itself is left out: those in subshells, substitutions and backticks
//! are in the list too. What needs a shell to know (variables, globs, functions) stays as written.
//!
//! Nothing is run, and what a command means is not known here; see `danger` and `actions`.

mod here;
mod quotes;

#[cfg(test)]
mod tests;

/// How deep scripts may lie within each other; deeper ones are not read.
const DEPTH_MAX: usize = 16;

/// What a script consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    /// Every simple command; those inside of another stand before it.
    pub(crate) commands: Vec<Simple>,
    pub(crate) shape: Shape,
}

/// How much of a script its list of commands tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// All: words that mean themselves, joined by `;`, `&&`, `||`, `|` and line ends.
    Plain,
    /// There are substitutions, variables, redirections or the like.
    Complex,
    /// Part of it lies too deep to be read.
    TooDeep,
}

/// A command and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Simple {
    /// Without quotes; a `$` that is left stands for something only a shell knows.
    pub(crate) words: Vec<String>,
    /// As it stands in the script.
    pub(crate) text: String,
    pub(crate) joint: Joint,
    /// What a here-document or a here-string gives it to read.
    pub(crate) here: Option<String>,
}

/// How a command is joined to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joint {
    /// It runs by itself, after it or instead of it.
    Next,
    /// It reads what the one before it writes.
    Pipe,
}

/// Reads a script.
pub(crate) fn read(script: &str) -> Script {
    Reader::new(script, 0).script()
}

/// The words of a script that is one simple command; none for everything that a shell could read in
/// another way.
///
/// Rules about the beginning of a command are compared with these words, so that the answer has to be
/// none where shells differ: `$` begins substitutions and quotes with escapes of their own, and a
/// control character other than a blank is part of a word for a shell.
pub(crate) fn simple_command(script: &str) -> Option<Vec<String>> {
    let differs = |letter: char| letter == '$' || (letter.is_control() && !"\t\n".contains(letter));
    if script.contains(differs) {
        return None;
    }
    let mut script = read(script);
    match (script.shape, script.commands.pop()) {
        (Shape::Plain, Some(only)) if script.commands.is_empty() => {
            (only.joint == Joint::Next && !only.words.is_empty()).then_some(only.words)
        }
        _ => None,
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    found: Script,
    /// Where the bodies of the line's here-documents end.
    here_end: Option<usize>,
}

/// How a text inside of the script is read.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// As a script.
    Script,
    /// As if it stood between double quotes.
    Quoted,
}

/// A command that is being read.
#[derive(Debug)]
struct Draft {
    words: Vec<String>,
    start: Option<usize>,
    joint: Joint,
    here: Option<String>,
}

impl Draft {
    fn new(joint: Joint) -> Self {
        Self {
            words: Vec::new(),
            start: None,
            joint,
            here: None,
        }
    }
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, depth: usize) -> Self {
        Self {
            text,
            at: 0,
            depth,
            found: Script {
                commands: Vec::new(),
                shape: Shape::Plain,
            },
            here_end: None,
        }
    }

    fn script(mut self) -> Script {
        self.list(None);
        self.found
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn bump(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    /// Steps over a text that may stand here.
    fn eat(&mut self, text: &str) -> bool {
        let there = self.rest().starts_with(text);
        if there {
            self.at += text.len();
        }
        there
    }

    fn is_at_least(&mut self, shape: Shape) {
        self.found.shape = self.found.shape.max(shape);
    }

    /// One level deeper, unless that is too deep; then nothing more is read.
    fn deeper(&mut self, read: impl FnOnce(&mut Self)) {
        if self.depth >= DEPTH_MAX {
            self.is_at_least(Shape::TooDeep);
            self.at = self.text.len();
            return;
        }
        self.depth += 1;
        read(self);
        self.depth -= 1;
    }

    /// A text inside of this one, with its quotes already taken off.
    fn inner(&mut self, text: &str, form: Form) {
        let mut inner = Reader::new(text, self.depth);
        inner.deeper(|inner| match form {
            Form::Script => inner.list(None),
            Form::Quoted => inner.expanded(),
        });
        self.is_at_least(inner.found.shape);
        self.found.commands.append(&mut inner.found.commands);
    }

    /// Commands up to the closing letter, which is stepped over, or to the end.
    fn list(&mut self, close: Option<char>) {
        let mut draft = Draft::new(Joint::Next);
        while let Some(letter) = self.peek() {
            if Some(letter) == close {
                break;
            }
            match letter {
                ' ' | '\t' | '\r' => {
                    self.bump();
                }
                '\n' => {
                    self.finish(&mut draft, Joint::Next);
                    self.bump();
                    // Never back: a quoted word may have run past the body.
                    self.at = self.at.max(self.here_end.take().unwrap_or(0));
                }
                '#' => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                ';' => {
                    self.finish(&mut draft, Joint::Next);
                    self.bump();
                }
                '&' if self.rest().starts_with("&>") => self.redirection(&mut draft),
                '&' => {
                    self.finish(&mut draft, Joint::Next);
                    if !self.eat("&&") {
                        self.bump();
                        self.is_at_least(Shape::Complex);
                    }
                }
                '|' => self.bar(&mut draft),
                '(' => {
                    self.is_at_least(Shape::Complex);
                    self.finish(&mut draft, Joint::Next);
                    self.bump();
                    self.deeper(|reader| reader.list(Some(')')));
                }
                // A pattern of `case`, or one too many.
                ')' => {
                    self.is_at_least(Shape::Complex);
                    self.finish(&mut draft, Joint::Next);
                    self.bump();
                }
                '<' | '>' => self.redirection(&mut draft),
                _ => self.argument(&mut draft),
            }
        }
        self.finish(&mut draft, Joint::Next);
        if close.is_some() {
            self.bump();
        }
    }

    fn bar(&mut self, draft: &mut Draft) {
        if self.rest().starts_with("||") {
            self.finish(draft, Joint::Next);
            self.eat("||");
            return;
        }
        self.finish(draft, Joint::Pipe);
        if !self.eat("|&") {
            self.bump();
        }
    }

    fn argument(&mut self, draft: &mut Draft) {
        draft.start.get_or_insert(self.at);
        let start = self.at;
        let word = self.word();
        let written = self.text.get(start..self.at).unwrap_or_default();
        // The number of what is redirected is no argument.
        let is_number = !written.is_empty() && written.bytes().all(|byte| byte.is_ascii_digit());
        if is_number && matches!(self.peek(), Some('<' | '>')) {
            return self.redirection(draft);
        }
        // A broken line between two words is no word.
        if !word.is_empty() || !written.chars().all(|letter| "\\\n".contains(letter)) {
            draft.words.push(word);
        }
    }

    /// Ends a command; what follows is joined as said.
    fn finish(&mut self, draft: &mut Draft, joint: Joint) {
        let done = std::mem::replace(draft, Draft::new(joint));
        let Some(start) = done.start else {
            // Behind a pipe a line may end before the next command begins.
            if done.joint == Joint::Pipe && joint == Joint::Next {
                draft.joint = Joint::Pipe;
            }
            return;
        };
        let text = self.text.get(start..self.at).unwrap_or_default();
        self.found.commands.push(Simple {
            words: done.words,
            text: text.trim().to_owned(),
            joint: done.joint,
            here: done.here,
        });
    }
}
