//! Where a run's words go: lines to standard output, or text for people to standard error.
//!
//! The invariant here: saying never waits. Words wait here until standard output takes them, and
//! whoever drives the run takes nothing new while too many wait ([`WAITING_MAX`]).

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use turnlane::Delta;
use turnlane_protocol::exec_events::encode_line;

use super::human::{Human, Look};
use super::run::Told;
use super::stdout::Stdout;
use super::stream::{Audience, Stream};
use crate::shown::Colour;
use crate::shown::out::Chunk;

/// How many lines may wait before no more events are taken.
const WAITING_MAX: usize = 256;

/// In which voice a run speaks.
#[derive(Debug)]
pub(super) enum Voice {
    Lines,
    People(Human),
}

/// Where words go.
#[derive(Debug)]
pub(super) struct Output {
    voice: Voice,
    stdout: Stdout,
    waiting: VecDeque<Chunk>,
    /// None where nothing streams.
    stream: Option<Stream>,
    audience: Audience,
}

impl Output {
    pub(super) fn new(voice: Voice, stdout: Stdout, audience: Audience) -> Self {
        let streams = match &voice {
            Voice::Lines => false,
            Voice::People(human) => human.look == Look::Terminal && audience == Audience::Person,
        };
        Self {
            stream: streams.then(Stream::default),
            audience,
            voice,
            stdout,
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn human(&self) -> Option<&Human> {
        match &self.voice {
            Voice::Lines => None,
            Voice::People(human) => Some(human),
        }
    }

    /// Who speaks is known once the thread is.
    pub(super) fn set_engine(&mut self, engine: &str) {
        // A person who watches knows no engines; the word for all of them is the agent.
        if let Voice::People(human) = &mut self.voice
            && self.audience == Audience::Script
        {
            engine.clone_into(&mut human.engine);
        }
    }

    /// Says something; never waits.
    pub(super) fn say(&mut self, told: impl IntoIterator<Item = Told>) {
        for told in told {
            match &self.voice {
                Voice::Lines => match encode_line(&told.event) {
                    Ok(line) => self.waiting.push_back(Chunk::of_json(&line)),
                    Err(error) => tracing::error!(%error, "an event has no JSON form"),
                },
                Voice::People(human) => match &mut self.stream {
                    Some(stream) => stream.say(human, &told),
                    None => human.tell(&human.told(&told)),
                },
            }
        }
    }

    /// Shows text as it comes, to a person who watches.
    pub(super) fn stream(&mut self, delta: &Delta) {
        if let (Voice::People(human), Some(stream)) = (&self.voice, &mut self.stream) {
            stream.delta(human, delta);
        }
    }

    /// Ends a line that streaming text left open.
    pub(super) fn end_line(&mut self) {
        if let (Voice::People(human), Some(stream)) = (&self.voice, &mut self.stream) {
            stream.end_line(human);
        }
    }

    /// The answer, for people who do not see it already.
    pub(super) fn answer(&mut self, message: &str, stdout: Look) {
        let Voice::People(human) = &self.voice else {
            return;
        };
        if (stdout, human.look) == (Look::Terminal, Look::Terminal) {
            return;
        }
        let chunk = Chunk::of_text(&format!("{message}\n"), Colour::Off);
        self.waiting.push_back(chunk);
    }

    /// Whether more events may be taken.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }

    /// Whether a line waits.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes one line that waits. Loses nothing when cancelled.
    pub(super) async fn write_one(&mut self) {
        let Some(place) = self.stdout.place().await else {
            // The reader has gone; nothing is wanted any more.
            self.waiting.clear();
            return;
        };
        if let Some(line) = self.waiting.pop_front() {
            place.send(line);
        }
    }

    /// Cancelled when the reader of standard output has gone.
    pub(super) fn unread(&self) -> CancellationToken {
        self.stdout.unread()
    }

    /// Why nothing can be written; none where everything was, or where the reader has gone.
    pub(super) fn fault(&self) -> Arc<OnceLock<io::Error>> {
        self.stdout.fault()
    }

    /// Writes everything that waits, at most for so long.
    pub(super) async fn finish(mut self, limit: Option<Duration>) {
        let writing = async {
            while self.has_waiting() {
                self.write_one().await;
            }
            self.stdout.finish().await;
        };
        match limit {
            None => writing.await,
            Some(limit) => {
                let _ = tokio::time::timeout(limit, writing).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    async fn answered(stdout: Look, stderr: Look) -> String {
        let mut file = tempfile::tempfile().unwrap();
        let voice = Voice::People(Human {
            colour: Colour::Off,
            look: stderr,
            engine: "native".to_owned(),
        });
        let stdout_file = Stdout::over(file.try_clone().unwrap()).unwrap();
        let mut output = Output::new(voice, stdout_file, Audience::Script);
        output.answer("a\x1bb\n\tc", stdout);
        output.finish(None).await;
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[tokio::test]
    async fn the_answer_is_written_where_it_was_not_shown_and_cannot_steer_a_terminal() {
        let cases = [
            (Look::Elsewhere, Look::Elsewhere, "a\\u{1b}b\n\tc\n"),
            (Look::Elsewhere, Look::Terminal, "a\\u{1b}b\n\tc\n"),
            (Look::Terminal, Look::Elsewhere, "a\\u{1b}b\n\tc\n"),
            (Look::Terminal, Look::Terminal, ""),
        ];
        for (stdout, stderr, text) in cases {
            assert_eq!(
                answered(stdout, stderr).await,
                text,
                "{stdout:?} {stderr:?}"
            );
        }
    }
}
