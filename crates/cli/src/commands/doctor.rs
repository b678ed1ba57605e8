//! `turnlane doctor`: our folder, its database, its daemon, the settings and the machine, by trying.
//!
//! The invariant here: whatever is broken is said with what to do about it and makes the exit code 1;
//! what is merely absent, such as a daemon, does not. Nothing is changed, and no key is ever shown.
//!
//! What is looked at is in the parts: `home`, `settings`, `machine`, `sandbox`.

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

/// What was found about one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// It is there and works.
    Yes,
    /// It is absent, which is no fault.
    No,
    /// It is needed and does not work.
    Broken,
}

/// One thing that was looked at.
#[derive(Debug)]
struct Finding {
    mark: Mark,
    name: String,
    text: String,
    /// What can be done about it.
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

/// Things that belong together.
#[derive(Debug)]
struct Part {
    title: &'static str,
    findings: Vec<Finding>,
    /// The same for programs.
    facts: Map<String, Value>,
}

/// Prints what was found; fails when something is broken.
pub(crate) fn run(options: &Doctor, before: &[String]) -> anyhow::Result<ExitCode> {
    let screen = Screen::new(Answer {
        json: options.json,
        ..Answer::default()
    });
    let parts = runtime::block_on(async {
        let mut parts = home::look(&screen).await;
        parts.extend(settings::look(before));
        parts.extend(machine::look().await);
        parts
    })?;
    let findings = || parts.iter().flat_map(|part| &part.findings);
    let broken: Vec<_> = findings()
        .filter(|found| found.mark == Mark::Broken)
        .collect();
    match screen.form {
        Form::People => screen.print(&as_text(&screen, &parts, broken.len()))?,
        Form::Json => {
            let problem = |found: &&Finding| json!({"what": found.name, "problem": found.text, "next": found.next});
            let problems: Vec<_> = broken.iter().map(problem).collect();
            let mut all = Map::new();
            all.insert("complete".to_owned(), json!(problems.is_empty()));
            all.insert("problems".to_owned(), json!(problems));
            all.extend(parts.iter().flat_map(|part| part.facts.clone()));
            out::print_json_indented(&Value::Object(all))?;
        }
    }
    Ok(if broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `  yes  name       text`, or `  no` or `  bad` with the reason and what to do.
fn as_text(screen: &Screen, parts: &[Part], broken: usize) -> String {
    let findings = parts.iter().flat_map(|part| &part.findings);
    let width = findings.map(|found| found.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for part in parts {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{}", screen.paint(Ink::Bold, part.title));
        for found in &part.findings {
            let (ink, mark) = match found.mark {
                Mark::Yes => (Ink::Green, "yes"),
                Mark::No => (Ink::Dim, "no "),
                Mark::Broken => (Ink::Red, "bad"),
            };
            let (mark, name) = (screen.paint(ink, mark), &found.name);
            let _ = writeln!(text, "  {mark}  {name:<width$}  {}", found.text);
            if let Some(next) = &found.next {
                let _ = writeln!(text, "       {:width$}  {next}", "");
            }
        }
        text.push('\n');
    }
    let end = match broken {
        0 => "Nothing is broken.".to_owned(),
        1 => "1 thing is broken; it is marked `bad` above.".to_owned(),
        count => format!("{count} things are broken; they are marked `bad` above."),
    };
    text + &end + "\n"
}
