//! Tables: columns as wide as they need to be, the last one cut at the edge of a terminal.
//!
//! The invariant here: no cell holds a line end, so a row is a line; no line ends in spaces.

use super::text::{cut, one_line, width};
use super::{Ink, Screen};

/// Between columns.
const GAP: &str = "  ";
/// With less room than this the last column is not cut, and the terminal breaks the line: what an
/// approval is about must be readable in a narrow window too.
const LAST_MIN: usize = 24;

/// A cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    text: String,
    ink: Ink,
}

impl Cell {
    pub(crate) fn new(text: &str) -> Self {
        Self::inked(text, Ink::Plain)
    }

    pub(crate) fn inked(text: &str, ink: Ink) -> Self {
        Self {
            text: one_line(text),
            ink,
        }
    }

    fn width(&self) -> usize {
        width(&self.text)
    }
}

/// The lines of a table, with its head.
pub(crate) fn table(screen: &Screen, head: &[&str], rows: Vec<Vec<Cell>>) -> String {
    let head = head.iter().map(|text| Cell::inked(text, Ink::Bold));
    let lines: Vec<Vec<Cell>> = std::iter::once(head.collect()).chain(rows).collect();
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(Cell::width).max().unwrap_or(0)
        })
        .collect();
    lines
        .iter()
        .map(|line| row(screen, line, &widths))
        .collect()
}

fn row(screen: &Screen, cells: &[Cell], widths: &[usize]) -> String {
    let mut line = String::new();
    let mut used = 0;
    let last = cells.iter().rposition(|cell| !cell.text.is_empty());
    let shown = last.map_or(0, |last| last + 1);
    for (column, cell) in cells[..shown].iter().enumerate() {
        let is_last = column + 1 == widths.len();
        let text = match screen.width() {
            Some(width) if is_last && width >= used + LAST_MIN => cut(&cell.text, width - used),
            Some(_) | None => cell.text.clone(),
        };
        line.push_str(&screen.paint(cell.ink, &text));
        if column + 1 < shown {
            let width = widths.get(column).copied().unwrap_or(0);
            line.push_str(&" ".repeat(width.saturating_sub(cell.width())));
            line.push_str(GAP);
            used += width + GAP.len();
        }
    }
    line.push('\n');
    line
}

/// `key    value` lines; those without a value are left out.
pub(crate) fn facts(screen: &Screen, facts: &[(&str, Option<String>)]) -> String {
    let width = facts.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let told = facts
        .iter()
        .filter_map(|(key, value)| Some((key, value.as_ref()?)));
    let line = |(key, value): (&&str, &String)| {
        let space = " ".repeat(width - key.len());
        let key = screen.paint(Ink::Bold, key);
        format!("{key}{space}{GAP}{}\n", one_line(value))
    };
    told.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Colour, Form};
    use super::*;

    fn screen(width: Option<usize>, colour: Colour) -> Screen {
        Screen {
            form: Form::People,
            colour,
            width,
            now_ms: 0,
        }
    }

    fn rows() -> Vec<Vec<Cell>> {
        vec![
            vec![
                Cell::new("1"),
                Cell::inked("ok", Ink::Green),
                Cell::new("a\nlong text"),
            ],
            vec![Cell::new("22"), Cell::new("failed"), Cell::new("")],
        ]
    }

    #[test]
    fn columns_stand_below_each_other() {
        let text = table(&screen(None, Colour::Off), &["N", "STATE", "WHAT"], rows());
        assert_eq!(
            text,
            "N   STATE   WHAT\n1   ok      a long text\n22  failed\n"
        );
    }

    #[test]
    fn the_last_column_ends_at_the_edge_of_a_terminal() {
        let text = table(
            &screen(Some(12 + LAST_MIN), Colour::Off),
            &["N", "STATE", "WHAT"],
            vec![vec![
                Cell::new("1"),
                Cell::new("failed"),
                Cell::new(&"long ".repeat(9)),
            ]],
        );
        assert_eq!(
            text,
            "N  STATE   WHAT\n1  failed  long long long long long…\n"
        );
    }

    #[test]
    fn a_window_that_is_too_narrow_hides_nothing() {
        let narrow = screen(Some(16), Colour::Off);
        let text = table(&narrow, &["N", "STATE", "WHAT"], rows());
        assert_eq!(
            text,
            "N   STATE   WHAT\n1   ok      a long text\n22  failed\n"
        );
    }

    #[test]
    fn columns_of_wide_characters_stand_below_each_other() {
        let rows = ["文書", "🙂", "plain", "e\u{301}"]
            .map(|name| vec![Cell::new(name), Cell::new("x")])
            .to_vec();
        let text = table(&screen(None, Colour::Off), &["NAME", "X"], rows);
        for line in text.lines() {
            assert_eq!(width(line), 8, "{text}");
        }
    }

    #[test]
    fn colours_take_no_room() {
        let text = table(&screen(None, Colour::On), &["N", "STATE", "WHAT"], rows());
        let second = text.lines().nth(1).unwrap();
        assert_eq!(second, "1   \u{1b}[32mok\u{1b}[0m      a long text");
    }

    #[test]
    fn facts_without_a_value_are_left_out() {
        let listed = [("name", None), ("id", Some("x".to_owned()))];
        assert_eq!(facts(&screen(None, Colour::Off), &listed), "id    x\n");
    }
}
