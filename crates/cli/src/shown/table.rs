//! Tables: columns as wide as they need to be, made to fit a terminal.
//!
//! The invariant here: no cell holds a line end, so a row is a line; no line ends in spaces. Where no
//! terminal reads, nothing is cut and no column is left out. At a terminal the columns that matter
//! least leave first, then long texts are cut with `…`.

use super::text::{cut, one_line, width};
use super::{Ink, Screen};

/// Between columns.
const GAP: &str = "  ";

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    head: &'static str,
    /// A narrow terminal cuts its cells, to this width at least.
    cut_to: Option<usize>,
    /// Where there is no room, the columns with the highest number leave first; 0 stays.
    leaves: u8,
}

impl Column {
    /// A column that is always whole.
    pub(crate) const fn whole(head: &'static str) -> Self {
        Self {
            head,
            cut_to: None,
            leaves: 0,
        }
    }

    /// A column whose cells may be cut to this width.
    pub(crate) const fn cut(head: &'static str, min: usize) -> Self {
        Self {
            cut_to: Some(min),
            ..Self::whole(head)
        }
    }

    /// A column that a narrow terminal does not show; the highest numbers leave first.
    pub(crate) const fn leaves(self, rank: u8) -> Self {
        Self {
            leaves: rank,
            ..self
        }
    }
}

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
pub(crate) fn table(screen: &Screen, columns: &[Column], rows: Vec<Vec<Cell>>) -> String {
    let head = columns
        .iter()
        .map(|column| Cell::inked(column.head, Ink::Bold));
    let lines: Vec<Vec<Cell>> = std::iter::once(head.collect()).chain(rows).collect();
    let needed: Vec<usize> = (0..columns.len())
        .map(|column| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(Cell::width).max().unwrap_or(0)
        })
        .collect();
    let widths = match screen.width() {
        None => needed.into_iter().map(Some).collect(),
        Some(room) => fitted(columns, &needed, &lines, room),
    };
    lines
        .iter()
        .map(|line| row(screen, line, &widths))
        .collect()
}

/// The width of each column in so much room; none where it is left out.
fn fitted(
    columns: &[Column],
    needed: &[usize],
    lines: &[Vec<Cell>],
    room: usize,
) -> Vec<Option<usize>> {
    let is_empty = |column: usize| {
        let mut cells = lines.iter().skip(1).filter_map(|line| line.get(column));
        cells.all(|cell| cell.text.is_empty())
    };
    let least = |column: usize| {
        let head = width(columns[column].head);
        columns[column]
            .cut_to
            .map_or(needed[column], |min| needed[column].min(min.max(head)))
    };
    // A column that says nothing takes no room.
    let mut widths: Vec<Option<usize>> = (0..columns.len())
        .map(|column| (!is_empty(column)).then(|| least(column)))
        .collect();
    let total = |widths: &[Option<usize>]| {
        let shown: Vec<usize> = widths.iter().flatten().copied().collect();
        shown.iter().sum::<usize>() + GAP.len() * shown.len().saturating_sub(1)
    };
    while total(&widths) > room {
        let shown = (0..columns.len()).filter(|column| widths[*column].is_some());
        let leaving = shown.filter(|column| columns[*column].leaves > 0);
        let Some(next) = leaving.max_by_key(|column| columns[*column].leaves) else {
            break;
        };
        widths[next] = None;
    }
    // What is left over goes to the columns that are cut, one by one, so that none starves.
    let mut left = room.saturating_sub(total(&widths));
    loop {
        let before = left;
        for (column, width) in widths.iter_mut().enumerate() {
            if let Some(width) = width
                && *width < needed[column]
                && left > 0
            {
                *width += 1;
                left -= 1;
            }
        }
        if left == before {
            return widths;
        }
    }
}

fn row(screen: &Screen, cells: &[Cell], widths: &[Option<usize>]) -> String {
    let shown = cells.iter().zip(widths);
    let shown: Vec<_> = shown
        .filter_map(|(cell, width)| Some((cell, (*width)?)))
        .collect();
    let last = shown.iter().rposition(|(cell, _)| !cell.text.is_empty());
    let count = last.map_or(0, |last| last + 1);
    let mut line = String::new();
    for (at, (cell, room)) in shown[..count].iter().enumerate() {
        let text = cut(&cell.text, *room);
        line.push_str(&screen.paint(cell.ink, &text));
        if at + 1 < count {
            line.push_str(&" ".repeat(room.saturating_sub(width(&text))));
            line.push_str(GAP);
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

    const COLUMNS: [Column; 3] = [
        Column::whole("N"),
        Column::whole("STATE").leaves(1),
        Column::cut("WHAT", 6),
    ];

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
        let text = table(&screen(None, Colour::Off), &COLUMNS, rows());
        assert_eq!(
            text,
            "N   STATE   WHAT\n1   ok      a long text\n22  failed\n"
        );
    }

    #[test]
    fn every_line_ends_at_the_edge_of_a_terminal() {
        for room in 20..60 {
            let long = "long ".repeat(9);
            let rows = vec![vec![Cell::new("1"), Cell::new("failed"), Cell::new(&long)]];
            let text = table(&screen(Some(room), Colour::Off), &COLUMNS, rows);
            for line in text.lines() {
                assert!(width(line) <= room, "{room}: {text}");
            }
            assert!(text.contains("failed"), "{text}");
        }
        let text = table(&screen(Some(20), Colour::Off), &COLUMNS, rows());
        assert_eq!(text, "N   STATE   WHAT\n1   ok      a long …\n22  failed\n");
    }

    #[test]
    fn what_matters_least_leaves_a_narrow_terminal_first() {
        let narrow = screen(Some(15), Colour::Off);
        let text = table(&narrow, &COLUMNS, rows());
        assert_eq!(text, "N   WHAT\n1   a long text\n22\n");
        // A column without a text takes no room at a terminal.
        let rows = vec![vec![Cell::new("1"), Cell::new(""), Cell::new("text")]];
        assert_eq!(table(&narrow, &COLUMNS, rows), "N  WHAT\n1  text\n");
    }

    #[test]
    fn columns_of_wide_characters_stand_below_each_other() {
        let rows = ["文書", "🙂", "plain", "e\u{301}"]
            .map(|name| vec![Cell::new(name), Cell::new("x")])
            .to_vec();
        let columns = [Column::whole("NAME"), Column::whole("X")];
        let text = table(&screen(None, Colour::Off), &columns, rows);
        for line in text.lines() {
            assert_eq!(width(line), 8, "{text}");
        }
    }

    #[test]
    fn colours_take_no_room() {
        let text = table(&screen(None, Colour::On), &COLUMNS, rows());
        let second = text.lines().nth(1).unwrap();
        assert_eq!(second, "1   \u{1b}[32mok\u{1b}[0m      a long text");
    }

    #[test]
    fn facts_without_a_value_are_left_out() {
        let listed = [("name", None), ("id", Some("x".to_owned()))];
        assert_eq!(facts(&screen(None, Colour::Off), &listed), "id    x\n");
    }
}
