//! The only way out: standard output and standard error.
//!
//! Owns every write of this program to its standard streams, but for the protocols that servers speak
//! on standard output. The invariant here: a character that a terminal obeys or a reader does not see
//! leaves the program in visible form only, whether a terminal, a pipe or a file takes it; the one
//! exception are this program's own colours, where the caller says that they are wanted. Text for
//! people passes [`visible`], JSON passes [`visible_json`].
//!
//! A test below fails when another file of this crate writes to a standard stream.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
#[expect(clippy::disallowed_types, reason = "only its streams are set here")]
use std::process::Command;
use std::process::Stdio;
use std::sync::OnceLock;

use anyhow::Context as _;
use rustix::stdio::{dup2_stderr, dup2_stdout};
use serde::Serialize;

use super::visible::{visible, visible_in_colour, visible_json};

/// Whether this program's own colours are part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    On,
    Off,
}

impl Colour {
    fn shown(self, text: &str) -> String {
        match self {
            Self::On => visible_in_colour(text),
            Self::Off => visible(text),
        }
    }
}

/// Text that the program may print: every hidden character in it is visible.
#[derive(Debug)]
pub(crate) struct Chunk(Vec<u8>);

impl Chunk {
    /// Text for people.
    pub(crate) fn of_text(text: &str, colour: Colour) -> Self {
        Self(colour.shown(text).into_bytes())
    }

    /// JSON that was encoded already.
    pub(crate) fn of_json(json: &[u8]) -> Self {
        Self(
            visible_json(&String::from_utf8_lossy(json))
                .into_owned()
                .into_bytes(),
        )
    }

    /// Writes all of it.
    pub(crate) fn write_to(&self, mut to: impl io::Write) -> io::Result<()> {
        to.write_all(&self.0)?;
        to.flush()
    }
}

/// Writes text for people to standard output, at once.
pub(crate) fn print(text: &str, colour: Colour) -> anyhow::Result<()> {
    let written = Chunk::of_text(text, colour).write_to(io::stdout().lock());
    written.context("cannot write to standard output")
}

/// Writes JSON to standard output, on one line.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let json = serde_json::to_string(value).context("an answer has no JSON form")?;
    print_encoded(json)
}

/// Writes JSON to standard output, indented for people.
pub(crate) fn print_json_indented(value: &impl Serialize) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(value).context("an answer has no JSON form")?;
    print_encoded(json)
}

fn print_encoded(mut json: String) -> anyhow::Result<()> {
    json.push('\n');
    let written = Chunk::of_json(json.as_bytes()).write_to(io::stdout().lock());
    written.context("cannot write to standard output")
}

/// Writes text for people to standard error, at once.
pub(crate) fn try_tell(text: &str, colour: Colour) -> io::Result<()> {
    Chunk::of_text(text, colour).write_to(io::stderr().lock())
}

/// As [`try_tell`], for callers that cannot report that standard error is gone.
pub(crate) fn tell(text: &str, colour: Colour) {
    let _ = try_tell(text, colour);
}

/// Writes a line for people to standard error.
pub(crate) fn note(text: &str) {
    tell(&format!("{text}\n"), Colour::Off);
}

/// Puts one line in the place of the line that a terminal shows now, on standard error.
pub(crate) fn redraw(line: &str) {
    let mut bytes = b"\r\x1b[2K".to_vec();
    bytes.extend(Colour::Off.shown(line).into_bytes());
    let _ = Chunk(bytes).write_to(io::stderr().lock());
}

/// Writes data to standard output as it is: the content of a file that a person asked for.
pub(crate) fn print_bytes(data: &[u8]) -> anyhow::Result<()> {
    let written = Chunk(data.to_vec()).write_to(io::stdout().lock());
    written.context("cannot write to standard output")
}

/// Writes what the parser of arguments says: help to standard output, errors to standard error.
///
/// An error repeats arguments. Where one has hidden characters the text loses its colours, because
/// the parser's colours cannot be told from those in an argument.
pub(crate) fn usage(said: &clap::Error) {
    let text = said.render().to_string();
    let shown = visible(&text);
    if shown == text {
        let _ = said.print();
    } else {
        tell(&shown, Colour::Off);
    }
}

/// Standard output as a file of its own, for a thread that writes [`Chunk`]s to it.
pub(crate) fn stdout_file() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Makes standard output of this process the file.
pub(crate) fn redirect_output(file: &File) -> io::Result<()> {
    Ok(dup2_stdout(file)?)
}

/// Makes standard error of this process the file, the log included.
pub(crate) fn redirect_errors(file: &File) -> io::Result<()> {
    Ok(dup2_stderr(file)?)
}

/// Gives a child a pipe to this process as its standard output, and the file as its standard error.
#[expect(clippy::disallowed_types, reason = "see the import")]
pub(crate) fn give_streams(child: &mut Command, errors: File) {
    child.stdout(Stdio::piped()).stderr(errors);
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogForm {
    Text(Colour),
    Json,
}

/// What stands before every line of a log in text.
static LOG_PREFIX: OnceLock<String> = OnceLock::new();

/// Sets what stands before every line of a log in text, for a process whose parent mixes many logs. The first
/// one counts.
pub(crate) fn prefix_logs(prefix: String) {
    let _ = LOG_PREFIX.set(prefix);
}

/// Writes log lines to standard error; a write is one whole line.
#[derive(Debug)]
pub(crate) struct LogWriter(pub(crate) LogForm);

impl io::Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let chunk = match self.0 {
            LogForm::Text(colour) => {
                let prefix = LOG_PREFIX.get().map_or("", String::as_str);
                let text = format!("{prefix}{}", String::from_utf8_lossy(line));
                Chunk::of_text(&text, colour)
            }
            LogForm::Json => Chunk::of_json(line),
        };
        chunk.write_to(io::stderr().lock())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// Uses of a standard stream that can write to it.
    fn writes(source: &str) -> Vec<String> {
        let mut found = Vec::new();
        for word in ["println!", "print!(", "eprint!(", "dbg!(", ".exit()"] {
            found.extend(source.contains(word).then(|| word.to_owned()));
        }
        for stream in ["stdout", "stderr"] {
            for (at, _) in source.match_indices(stream) {
                let (before, after) = (&source[..at], &source[at + stream.len()..]);
                let is_call = after.starts_with('(');
                let is_path = before.ends_with("io::") || before.ends_with("io::{");
                // Asking who reads it, and how wide a terminal is, writes nothing.
                let only_asks = after.starts_with("().is_terminal()")
                    || before.ends_with("rustix::stdio::")
                    || before.ends_with("use_");
                if (is_call || is_path) && !only_asks {
                    let line = before.lines().count();
                    found.push(format!("line {line}: {stream}"));
                }
            }
        }
        found
    }

    #[test]
    fn no_other_file_writes_to_a_standard_stream() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = Vec::new();
        sources(&root, &mut files);
        assert!(files.len() > 50, "{files:?}");
        for file in files {
            if file.ends_with("shown/out.rs") {
                continue;
            }
            let found = writes(&std::fs::read_to_string(&file).unwrap());
            assert!(found.is_empty(), "{} writes: {found:?}", file.display());
        }
    }

    #[test]
    fn ways_around_the_writer_are_found() {
        for source in [
            "fn a() { println!(\"{x}\"); }",
            "let _ = write!(io::stderr(), \"{x}\");",
            "use std::io::{stdout, Write};",
            "tokio::io::stdout()",
            ".with_writer(std::io::stderr)",
            "error.exit()",
        ] {
            assert!(!writes(source).is_empty(), "{source}");
        }
        assert!(writes("io::stdout().is_terminal() && error.use_stderr()").is_empty());
    }

    #[test]
    fn what_a_writer_is_given_is_made_visible() {
        let mut written = Vec::new();
        let text = "\x1b[31mred\x1b[0m \x1b[2J\u{202E}\n";
        Chunk::of_text(text, Colour::On)
            .write_to(&mut written)
            .unwrap();
        let expected = "\x1b[31mred\x1b[0m \\u{1b}[2J\\u{202e}\n";
        assert_eq!(String::from_utf8(written).unwrap(), expected);
        let mut written = Vec::new();
        let json = "{\"a\":\"\u{7f}\u{2066}\"}\n";
        Chunk::of_json(json.as_bytes())
            .write_to(&mut written)
            .unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "{\"a\":\"\\u007f\\u2066\"}\n"
        );
    }
}
