//! What the agent is asked: from arguments and standard input.
//!
//! The invariant here: standard input is read only where the table of the documentation says so, to
//! its end, and what was given as the prompt itself reaches the agent to the byte. Whatever is not
//! text is refused with its encoding or the place of the first wrong byte.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use turnlane_protocol::input::INPUT_CHARS_MAX;

use super::refusal::Refused;
use crate::args::Wanted;

/// How long an open pipe may be silent before a person is told what we wait for.
pub(super) const HINT_AFTER: Duration = Duration::from_secs(3);
/// What is told then.
pub(super) const HINT: &str = "still waiting for end of stdin (close it or use </dev/null)";
/// More bytes than the largest prompt can have are not read.
const BYTES_MAX: u64 = 4 * INPUT_CHARS_MAX as u64 + 16;

/// What standard input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stdin {
    Terminal,
    Other,
}

/// Where the prompt comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// There is none: a copy is made and nothing said.
    Nothing,
    /// The argument alone.
    Argument(String),
    /// The argument, with standard input as more to read.
    ArgumentAndStdin(String),
    /// Standard input; said aloud unless it was asked for.
    Stdin(Announced),
}

/// Whether a person is told that standard input is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    Yes,
    No,
}

impl Source {
    /// By the arguments and what standard input is.
    pub(super) fn of(wanted: &Wanted, stdin: Stdin) -> Result<Self, Refused> {
        let (prompt, new) = match wanted {
            Wanted::New { prompt } => (prompt, true),
            Wanted::Fork { prompt: None, .. } => return Ok(Self::Nothing),
            Wanted::Resume { prompt, .. } | Wanted::Fork { prompt, .. } => (prompt, false),
        };
        match (prompt.as_deref(), stdin) {
            (Some("-"), _) => Ok(Self::Stdin(Announced::No)),
            (Some(prompt), Stdin::Other) if new => Ok(Self::ArgumentAndStdin(prompt.to_owned())),
            (Some(prompt), _) => Ok(Self::Argument(prompt.to_owned())),
            (None, Stdin::Other) => Ok(Self::Stdin(Announced::Yes)),
            (None, Stdin::Terminal) => Err(Refused::new(
                "No prompt provided. Either specify one as an argument or pipe the prompt into \
                 stdin.",
            )),
        }
    }

    /// What a person is told before standard input is read.
    pub(super) fn announcement(&self) -> Option<&'static str> {
        match self {
            Self::ArgumentAndStdin(_) => Some("Reading additional input from stdin..."),
            Self::Stdin(Announced::Yes) => Some("Reading prompt from stdin..."),
            Self::Nothing | Self::Argument(_) | Self::Stdin(Announced::No) => None,
        }
    }

    /// The prompt. `tell` is called with what a person should know meanwhile.
    pub(super) async fn read(
        self,
        stdin: impl AsyncRead + Unpin,
        mut tell: impl FnMut(&str),
    ) -> Result<Option<String>, Refused> {
        if let Some(text) = self.announcement() {
            tell(text);
        }
        let prompt = match self {
            Self::Nothing => return Ok(None),
            Self::Argument(prompt) => prompt,
            Self::ArgumentAndStdin(prompt) => {
                let more = text_of(&read(stdin, || tell(HINT)).await?)?;
                with_more(prompt, &more)
            }
            Self::Stdin(_) => {
                let text = text_of(&read(stdin, || {}).await?)?;
                if text.trim().is_empty() {
                    return Err(Refused::new("No prompt provided via stdin."));
                }
                text
            }
        };
        let chars = prompt.chars().count();
        if chars > INPUT_CHARS_MAX {
            // Standard input is read to a bound, so its real length may not be known.
            let more = if prompt.len() as u64 >= BYTES_MAX {
                "more than "
            } else {
                ""
            };
            let known = if more.is_empty() {
                chars
            } else {
                INPUT_CHARS_MAX
            };
            return Err(Refused::new(format!(
                "The prompt has {more}{known} characters; at most {INPUT_CHARS_MAX} are possible."
            )));
        }
        Ok(Some(prompt))
    }
}

/// Everything up to the end; `silent` is called once if nothing has come for a while.
async fn read(stdin: impl AsyncRead + Unpin, silent: impl FnOnce()) -> Result<Vec<u8>, Refused> {
    let mut bytes = Vec::new();
    let mut silent = Some(silent);
    let mut stdin = stdin.take(BYTES_MAX);
    let mut chunk = vec![0; 16 * 1024];
    loop {
        let hint = tokio::time::sleep(HINT_AFTER);
        let read = tokio::select! {
            biased;
            read = stdin.read(&mut chunk) => read,
            () = hint, if bytes.is_empty() && silent.is_some() => {
                if let Some(silent) = silent.take() {
                    silent();
                }
                continue;
            }
        };
        match read {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
            Err(error) => {
                return Err(unreadable(&error.to_string()));
            }
        }
    }
}

fn with_more(prompt: String, more: &str) -> String {
    if more.trim().is_empty() {
        return prompt;
    }
    let end = if more.ends_with('\n') { "" } else { "\n" };
    format!("{prompt}\n\n<stdin>\n{more}{end}</stdin>")
}

fn unreadable(why: &str) -> Refused {
    Refused::new(format!("Failed to read prompt from stdin: {why}"))
}

/// The text of what was read, by its byte order mark.
fn text_of(bytes: &[u8]) -> Result<String, Refused> {
    match bytes {
        [0xFF, 0xFE, 0, 0, ..] => Err(unsupported("UTF-32LE")),
        [0, 0, 0xFE, 0xFF, ..] => Err(unsupported("UTF-32BE")),
        [0xFF, 0xFE, rest @ ..] => utf16(rest, "UTF-16LE", u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => utf16(rest, "UTF-16BE", u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] => utf8(rest, 3),
        bytes => utf8(bytes, 0),
    }
}

fn unsupported(encoding: &str) -> Refused {
    unreadable(&format!(
        "input appears to be {encoding}. Convert it to UTF-8 and retry."
    ))
}

fn utf16(bytes: &[u8], encoding: &str, unit: fn([u8; 2]) -> u16) -> Result<String, Refused> {
    let (units, rest) = bytes.as_chunks::<2>();
    let units = units.iter().map(|bytes| unit(*bytes));
    let text: Result<String, _> = char::decode_utf16(units).collect();
    match text {
        Ok(text) if rest.is_empty() => Ok(text),
        Ok(_) | Err(_) => Err(unreadable(&format!(
            "input looked like {encoding} but could not be decoded. Convert it to UTF-8 and retry."
        ))),
    }
}

fn utf8(bytes: &[u8], skipped: usize) -> Result<String, Refused> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = skipped + error.valid_up_to();
        unreadable(&format!(
            "input is not valid UTF-8 (invalid byte at offset {at}). Convert it to UTF-8 and retry \
             (e.g., `iconv -f <ENC> -t UTF-8 prompt.txt`)."
        ))
    })?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::args::Which;

    fn new(prompt: Option<&str>) -> Wanted {
        let prompt = prompt.map(str::to_owned);
        Wanted::New { prompt }
    }

    fn resume(prompt: Option<&str>) -> Wanted {
        Wanted::Resume {
            which: Which::Last,
            prompt: prompt.map(str::to_owned),
        }
    }

    async fn asked(wanted: &Wanted, stdin: Option<&[u8]>) -> Result<Option<String>, String> {
        let kind = stdin.map_or(Stdin::Terminal, |_| Stdin::Other);
        let source = Source::of(wanted, kind).map_err(|refused| refused.to_string())?;
        let bytes = stdin.unwrap_or(b"must not be read");
        let read = source.read(bytes, |_| {}).await;
        read.map_err(|refused| refused.to_string())
    }

    /// What is wanted, what is piped, what the agent is asked.
    type Row = (
        Wanted,
        Option<&'static [u8]>,
        Result<Option<String>, String>,
    );

    #[tokio::test]
    async fn every_row_of_the_table_gives_its_prompt() {
        let text = |text: &str| Ok(Some(text.to_owned()));
        let nothing = "No prompt provided via stdin.".to_owned();
        let none = "No prompt provided. Either specify one as an argument or pipe the prompt into \
                    stdin.";
        let cases: Vec<Row> = vec![
            (new(Some("p")), None, text("p")),
            (
                new(Some("p")),
                Some(b"x\n"),
                text("p\n\n<stdin>\nx\n</stdin>"),
            ),
            (
                new(Some("p")),
                Some(b"x"),
                text("p\n\n<stdin>\nx\n</stdin>"),
            ),
            (new(Some("p")), Some(b" \n"), text("p")),
            (new(Some("-")), Some(b"x\n"), text("x\n")),
            (new(Some("-")), Some(b" \n"), Err(nothing.clone())),
            (new(None), Some(b"x\n\n"), text("x\n\n")),
            (new(None), Some(b""), Err(nothing)),
            (new(None), None, Err(none.to_owned())),
            (resume(Some("p")), Some(b"x"), text("p")),
            (resume(Some("p")), None, text("p")),
            (resume(Some("-")), Some(b"x"), text("x")),
            (resume(None), Some(b"x"), text("x")),
            (resume(None), None, Err(none.to_owned())),
        ];
        for (wanted, stdin, expected) in cases {
            let got = asked(&wanted, stdin).await;
            assert_eq!(got, expected, "{wanted:?} {stdin:?}");
        }
        let fork = Wanted::Fork {
            thread: "t".to_owned(),
            prompt: None,
        };
        assert_eq!(asked(&fork, Some(b"x")).await, Ok(None));
    }

    #[tokio::test]
    async fn other_encodings_are_decoded_or_named() {
        let dash = new(Some("-"));
        for (bytes, text) in [
            (&b"\xEF\xBB\xBFab"[..], "ab"),
            (b"\xFF\xFEa\0\xE9\0", "aé"),
            (b"\xFE\xFF\0a\0\xE9", "aé"),
        ] {
            assert_eq!(asked(&dash, Some(bytes)).await, Ok(Some(text.to_owned())));
        }
        for (bytes, part) in [
            (
                &b"\xFF\xFEa"[..],
                "input looked like UTF-16LE but could not be decoded",
            ),
            (
                b"\xFE\xFF\xD8\0",
                "input looked like UTF-16BE but could not be decoded",
            ),
            (b"\xFF\xFE\0\0a\0\0\0", "input appears to be UTF-32LE"),
            (b"\0\0\xFE\xFF\0\0\0a", "input appears to be UTF-32BE"),
            (
                b"ab\xC3(",
                "input is not valid UTF-8 (invalid byte at offset 2)",
            ),
            (b"\xEF\xBB\xBFa\xFF", "invalid byte at offset 4)"),
        ] {
            let error = asked(&dash, Some(bytes)).await.unwrap_err();
            assert!(
                error.starts_with("Failed to read prompt from stdin: "),
                "{error}"
            );
            assert!(error.contains(part), "{error}");
        }
    }

    #[tokio::test]
    async fn a_prompt_has_a_limit() {
        let long = "é".repeat(INPUT_CHARS_MAX);
        let dash = new(Some("-"));
        assert_eq!(
            asked(&dash, Some(long.as_bytes())).await,
            Ok(Some(long.clone()))
        );
        let error = asked(&dash, Some(format!("{long}x").as_bytes())).await;
        assert!(error.unwrap_err().contains("1048577 characters"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_pipe_is_named_once_after_three_seconds() {
        let source = Source::of(&new(Some("p")), Stdin::Other).unwrap();
        let (mut write, read) = tokio::io::duplex(64);
        let mut told = Vec::new();
        let reading = source.read(read, |text| told.push(text.to_owned()));
        let writing = async {
            let nothing = std::future::pending::<()>();
            let _ = tokio::time::timeout(Duration::from_secs(10), nothing).await;
            write.write_all(b"late").await.unwrap();
            drop(write);
        };
        let (prompt, ()) = tokio::join!(reading, writing);
        assert_eq!(prompt.unwrap().unwrap(), "p\n\n<stdin>\nlate\n</stdin>");
        assert_eq!(told, ["Reading additional input from stdin...", HINT]);
    }
}
