//! The matrix as a table, and the verdicts that fill it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::Value;

/// What came of one attack in one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Held,
    Broken(String),
    Skipped(String),
}

/// Attacks by name, in the order in which the attacker tried them.
pub(crate) type Column = Vec<(String, Cell)>;

/// Reads the lines of an attacker. A list that is cut off is one more broken cell.
pub(crate) fn read(output: &str) -> Column {
    let lines = output.lines().filter(|line| line.starts_with('{'));
    let lines: Vec<Value> = lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let verdicts = lines.iter().filter(|line| line["attack"].is_string());
    let mut column: Column = verdicts
        .map(|line| {
            let detail = line["detail"].as_str().unwrap_or_default().to_owned();
            let cell = match line["held"].as_bool() {
                Some(true) => Cell::Held,
                Some(false) => Cell::Broken(detail),
                None => Cell::Skipped(detail),
            };
            (line["attack"].as_str().unwrap_or_default().to_owned(), cell)
        })
        .collect();
    if !lines.iter().any(|line| line["done"] == true) {
        let tail: String = output.chars().rev().take(400).collect();
        let tail: String = tail.chars().rev().collect();
        column.push(("complete-list".to_owned(), Cell::Broken(tail)));
    }
    column
}

/// Columns by name.
#[derive(Default)]
pub(crate) struct Table {
    columns: Vec<(String, Column)>,
}

impl Table {
    pub(crate) fn add(&mut self, name: String, column: Column) {
        self.columns.push((name, column));
    }

    /// Rows in the order in which they first appear.
    fn rows(&self) -> Vec<&str> {
        let mut rows: Vec<&str> = Vec::new();
        for (_, column) in &self.columns {
            for (attack, _) in column {
                if !rows.contains(&attack.as_str()) {
                    rows.push(attack);
                }
            }
        }
        rows
    }

    /// As Markdown; why cells were skipped follows in a list.
    pub(crate) fn markdown(&self, title: &str) -> String {
        let mut text = format!("\n### {title}\n\n| attack |");
        for (name, _) in &self.columns {
            let _ = write!(text, " {name} |");
        }
        let _ = write!(text, "\n|{}\n", " --- |".repeat(self.columns.len() + 1));
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for row in self.rows() {
            let _ = write!(text, "| {row} |");
            for (_, column) in &self.columns {
                let cell = column.iter().find(|(attack, _)| attack == row);
                let word = match cell.map(|(_, cell)| cell) {
                    Some(Cell::Held) => "held".to_owned(),
                    Some(Cell::Broken(_)) => "BROKEN".to_owned(),
                    Some(Cell::Skipped(why)) => {
                        let next = reasons.len() + 1;
                        let number = reasons.entry(format!("{row}: {why}")).or_insert(next);
                        format!("skipped ({number})")
                    }
                    None => "-".to_owned(),
                };
                let _ = write!(text, " {word} |");
            }
            text.push('\n');
        }
        let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, number)| *number);
        for (why, number) in reasons {
            let _ = writeln!(text, "({number}) {why}");
        }
        text
    }

    /// One line for each broken cell.
    pub(crate) fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for (name, column) in &self.columns {
            for (attack, cell) in column {
                if let Cell::Broken(detail) = cell {
                    broken.push(format!("{name}: {attack}: {detail}"));
                }
            }
        }
        broken
    }

    /// Prints the table past the harness, and fails if a cell is broken.
    pub(crate) fn judge(&self, title: &str) {
        // A reader that is gone needs no table.
        let _ = std::io::stderr()
            .lock()
            .write_all(self.markdown(title).as_bytes());
        let broken = self.broken();
        assert!(
            broken.is_empty(),
            "{title}: {} cells are broken:\n{}",
            broken.len(),
            broken.join("\n")
        );
    }
}

#[test]
fn a_list_that_is_cut_off_is_broken() {
    let one = "{\"attack\":\"a\",\"held\":true,\"detail\":\"\"}\n";
    assert_eq!(read(&format!("{one}{{\"done\":true}}\n")).len(), 1);
    let cut = read(one);
    assert_eq!(cut.len(), 2);
    assert!(matches!(cut[1].1, Cell::Broken(_)));
}
