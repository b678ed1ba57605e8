//! What a run of the proof found, and its table.
//!
//! The invariant here: a contender that was not there is no column, and never a column of zeros.

use std::fmt;
use std::time::Duration;

use crate::ledger::Faults;
use crate::server::Kind;

/// What was done to one contender, and what was found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whose.
    pub kind: Kind,
    /// What the choices followed from.
    pub seed: u64,
    /// How often it was killed.
    pub kills: usize,
    /// How often it was killed besides before anybody had spoken to it.
    pub stillborn: usize,
    /// How many `thread/queue/add` were acknowledged.
    pub rows: usize,
    /// How many `turn/start` were answered.
    pub turns: usize,
    /// How many interrupts were answered.
    pub interrupts: usize,
    /// How many rows a kill had left failed, which the script then retried.
    pub held: usize,
    /// How many messages were there although their answer never came; each at most once, else it is
    /// among the doubled.
    pub unanswered: usize,
    /// How many endless commands ran when the server was killed.
    pub commands: usize,
    /// How many of the lost rows the model had been asked.
    pub lost_after_asking: usize,
    /// What was wrong.
    pub faults: Faults,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    pub(crate) fn new(kind: Kind, seed: u64) -> Self {
        Self {
            kind,
            seed,
            kills: 0,
            stillborn: 0,
            rows: 0,
            turns: 0,
            interrupts: 0,
            held: 0,
            unanswered: 0,
            commands: 0,
            lost_after_asking: 0,
            faults: Faults::default(),
            took: Duration::ZERO,
        }
    }

    fn counts(&self) -> Vec<(&'static str, usize)> {
        let done = [
            ("kills", self.kills),
            ("further kills while it started", self.stillborn),
            ("rows acknowledged", self.rows),
            ("turns answered", self.turns),
            ("interrupts answered", self.interrupts),
            ("commands that ran when killed", self.commands),
            ("rows left failed by a kill, retried", self.held),
            ("there without an answer (allowed)", self.unanswered),
        ];
        let faults = self.faults.kinds();
        let faults = faults.map(|(name, faults)| (name, faults.len()));
        let asked = ("– of the lost, shown to the model", self.lost_after_asking);
        let [lost, rest @ ..] = faults;
        done.into_iter().chain([lost, asked]).chain(rest).collect()
    }
}

/// One line of figures, and every fault.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, seed {}:", self.kind.name(), self.seed)?;
        for (name, count) in self.counts() {
            write!(f, " {name} {count};")?;
        }
        write!(f, " {:.0} s", self.took.as_secs_f64())?;
        for (name, faults) in self.faults.kinds() {
            for fault in faults {
                write!(f, "\n- {name}: {fault}")?;
            }
        }
        Ok(())
    }
}

/// The lines of a table with a column for each report.
pub fn table(reports: &[Report]) -> Vec<String> {
    let line = |name: &str, cells: Vec<String>| format!("| {name} | {} |", cells.join(" | "));
    let heads = reports.iter().map(|report| report.kind.name().to_owned());
    let mut lines = vec![
        line("", heads.collect()),
        line("---", vec!["---:".to_owned(); reports.len()]),
    ];
    let columns: Vec<_> = reports.iter().map(Report::counts).collect();
    let names = columns.first().into_iter().flatten().map(|(name, _)| *name);
    for (at, name) in names.enumerate() {
        let cells = columns.iter().map(|column| column[at].1.to_string());
        lines.push(line(name, cells.collect()));
    }
    let took = reports
        .iter()
        .map(|report| report.took.as_secs().to_string());
    lines.push(line("the run took, s", took.collect()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_column_for_each_and_a_report_names_every_fault() {
        let mut codex = Report::new(Kind::Codex, 5);
        codex.kills = 60;
        codex.faults.lost.insert("words 3".to_owned());
        let lines = table(&[codex.clone(), Report::new(Kind::Serve, 5)]);
        assert_eq!(lines[0], "|  | Codex 0.166 | ours, serve |");
        assert_eq!(lines[1], "| --- | ---: | ---: |");
        assert_eq!(lines[2], "| kills | 60 | 0 |");
        assert!(lines.contains(&"| acknowledged rows lost | 1 | 0 |".to_owned()));
        let said = codex.to_string();
        assert!(said.starts_with("Codex 0.166, seed 5: kills 60;"), "{said}");
        assert!(
            said.ends_with("\n- acknowledged rows lost: words 3"),
            "{said}"
        );
    }
}
