//! `turnlane doctor`: checks the home directory, its database, its daemon, the settings and the
//! machine, by trying.
//!
//! The invariant here: the exit code is 0 only if a turn could run. Every finding that prevents one, or
//! that other commands refuse, is marked `fix this` and names what to type. An absent part that nothing
//! needs is marked `fine`. The command changes nothing and shows no key.
//!
//! The parts look: `home`, `database`, `daemon`, `settings`, `engines`, `machine`, `sandbox`,
//! `descriptors`.

mod daemon;
mod database;
mod descriptors;
mod engines;
mod home;
mod machine;
mod sandbox;
mod settings;
mod store;

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::args::{Answer, Doctor};
use crate::runtime;
use crate::shown::{Form, Ink, Screen, out};
pub(super) use home::bytes;

/// The verdict on one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// It is there and works.
    Yes,
    /// It is absent, and nothing needs it.
    Fine,
    /// It is needed and does not work.
    Fix,
}

impl Mark {
    const fn word(self) -> &'static str {
        match self {
            Self::Yes => "ok",
            Self::Fine => "fine",
            Self::Fix => "fix this",
        }
    }
}

/// The columns of the longest mark.
const MARK_WIDTH: usize = 8;

/// One thing that was looked at.
#[derive(Debug)]
struct Finding {
    mark: Mark,
    name: String,
    text: String,
    /// What to type, or to do.
    next: Option<String>,
}

impl Finding {
    fn new(mark: Mark, name: &str, text: impl Into<String>) -> Self {
        Self {
            mark,
            name: name.to_owned(),
            text: text.into(),
            next: None,
        }
    }

    fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

/// Findings that belong together.
#[derive(Debug)]
struct Part {
    title: &'static str,
    findings: Vec<Finding>,
    /// The same for programs.
    facts: Map<String, Value>,
}

impl Part {
    fn new(title: &'static str) -> Self {
        Self {
            title,
            findings: Vec::new(),
            facts: Map::new(),
        }
    }
}

/// Whether a turn could run in this directory.
#[derive(Debug)]
enum Verdict {
    Yes,
    /// Why not, in the words of the engine.
    No(String),
}

/// Prints the findings; fails where a turn could not run or something has to be fixed.
pub(crate) fn run(options: &Doctor, before: &[String]) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(Answer {
        json: options.json,
        ..Answer::default()
    });
    let (mut parts, verdict) = runtime::block_on(async {
        let (mut parts, daemon) = home::look(&screen).await;
        let (of_settings, verdict, confines) = settings::look(before, daemon.as_ref()).await;
        parts.extend(of_settings);
        parts.extend(machine::look(confines).await);
        parts.push(descriptors::look());
        (parts, verdict)
    })?;
    let is_broken = |parts: &[Part]| {
        let mut all = parts.iter().flat_map(|part| &part.findings);
        all.any(|found| found.mark == Mark::Fix)
    };
    // The reason of the engine is most often a finding already; said twice it would count twice.
    if let Verdict::No(reason) = &verdict
        && !is_broken(&parts)
    {
        let mut part = Part::new("Turn: whether one could run in this directory");
        part.findings.push(Finding::new(Mark::Fix, "turn", reason));
        parts.push(part);
    }
    let findings = parts.iter().flat_map(|part| &part.findings);
    let broken: Vec<_> = findings.filter(|found| found.mark == Mark::Fix).collect();
    match screen.form {
        Form::People => screen.print(&as_text(&screen, &parts, broken.len(), &verdict))?,
        Form::Json => out::print_json_indented(&as_json(&parts, &broken, &verdict))?,
    }
    Ok(if broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn as_json(parts: &[Part], broken: &[&Finding], verdict: &Verdict) -> Value {
    let problem =
        |found: &&Finding| json!({"what": found.name, "problem": found.text, "next": found.next});
    let problems: Vec<_> = broken.iter().map(problem).collect();
    let mut all = Map::new();
    all.insert("complete".to_owned(), json!(problems.is_empty()));
    all.insert("problems".to_owned(), json!(problems));
    let reason = match verdict {
        Verdict::Yes => None,
        Verdict::No(reason) => Some(reason),
    };
    let turn = json!({"canRun": reason.is_none(), "reason": reason});
    all.insert("turn".to_owned(), turn);
    all.extend(parts.iter().flat_map(|part| part.facts.clone()));
    Value::Object(all)
}

/// `  ok        name  text`, with the next step below where there is one.
fn as_text(screen: &Screen, parts: &[Part], broken: usize, verdict: &Verdict) -> String {
    let findings = parts.iter().flat_map(|part| &part.findings);
    let width = findings.map(|found| found.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for part in parts {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{}", screen.paint(Ink::Bold, part.title));
        for found in &part.findings {
            let ink = match found.mark {
                Mark::Yes => Ink::Green,
                Mark::Fine => Ink::Dim,
                Mark::Fix => Ink::Red,
            };
            let mark = screen.paint(ink, &format!("{:<MARK_WIDTH$}", found.mark.word()));
            let _ = writeln!(text, "  {mark}  {:<width$}  {}", found.name, found.text);
            if let Some(next) = &found.next {
                let _ = writeln!(text, "  {:MARK_WIDTH$}  {:width$}  {next}", "", "");
            }
        }
        text.push('\n');
    }
    text + &last_line(broken, verdict) + "\n"
}

fn last_line(broken: usize, verdict: &Verdict) -> String {
    let marked = match broken {
        0 => None,
        1 => Some("1 thing is marked `fix this` above".to_owned()),
        count => Some(format!("{count} things are marked `fix this` above")),
    };
    match (verdict, marked) {
        (Verdict::Yes, None) => "A turn can run in this directory.".to_owned(),
        (Verdict::Yes, Some(marked)) => format!("{marked}."),
        (Verdict::No(reason), marked) => {
            let marked = marked.map(|marked| format!("\n{marked}."));
            let marked = marked.unwrap_or_default();
            format!("No turn can run in this directory: {reason}{marked}")
        }
    }
}
