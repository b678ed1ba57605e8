//! The ids of a job's items.
//!
//! The invariant here: no two items of a job have the same id, byte for byte, and an id is always one
//! line of visible characters. An id never becomes the name of a file or a branch, so `../x` is an id.
//!
//! The set of used ids may be too large for the memory. So an assignment is pure: it takes the answers
//! that are known about used ids, and says which answers it still needs.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use turnlane_store::fanout::ItemError;

/// The longest id that is kept as it is, in bytes.
const ID_BYTES_MAX: usize = 256;

/// The bytes of a longer id that are kept in front of its hash.
const ID_BYTES_KEPT: usize = 220;

/// The most base ids whose next suffix is remembered. A base that was forgotten is counted again from 2.
const HINTS_MAX: usize = 65_536;

/// The treatment of a row whose id an earlier row has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnDuplicate {
    /// The import fails.
    #[default]
    Error,
    /// The later row is not run; it has the id with a suffix.
    Skip,
    /// The later row has the id with a suffix.
    Suffix,
}

/// The id of a row without an id cell: `row-N`, with N counted from 1.
pub fn computed_id(seq: i64) -> String {
    format!("row-{}", seq + 1)
}

/// The id that an id cell asks for; none where the cell is blank.
pub fn id_of_cell(cell: &str) -> Option<String> {
    let trimmed = cell.trim();
    if trimmed.is_empty() {
        return None;
    }
    let mut id = if trimmed.contains(is_hidden) {
        encode(trimmed)
    } else {
        trimmed.to_owned()
    };
    if id.len() > ID_BYTES_MAX {
        let hash = Sha256::digest(id.as_bytes());
        id.truncate(id.floor_char_boundary(ID_BYTES_KEPT));
        id.push('~');
        for byte in &hash[..8] {
            // Writing to a String cannot fail.
            let _ = write!(id, "{byte:02x}");
        }
    }
    Some(id)
}

/// Returns true for characters that break a line, or that change how a line looks.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{2028}' | '\u{2029}' | '\u{061c}' | '\u{200e}' | '\u{200f}'
        )
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Percent-encodes hidden characters, and `%` so that the encoding stays unique.
fn encode(id: &str) -> String {
    let mut out = String::with_capacity(id.len() + 16);
    for c in id.chars() {
        if is_hidden(c) || c == '%' {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a String cannot fail.
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// A row that needs an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowToName<'a> {
    /// Its number, from 0.
    pub seq: i64,
    /// Its id cell; none where the job has no id column.
    pub cell: Option<&'a str>,
}

/// The id of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowName {
    /// The id; none where it is the computed one.
    pub item_id: Option<String>,
    /// The row that had the wanted id before.
    pub duplicate: Option<DuplicateId>,
}

/// An id that two rows ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateId {
    /// The id.
    pub id: String,
    /// The number of the row that has it.
    pub of_seq: i64,
}

impl DuplicateId {
    /// The error of a row that is skipped for it.
    pub fn skip_error(&self) -> ItemError {
        ItemError {
            kind: "duplicate_id".to_owned(),
            message: format!("row {} has the id {:?}", self.of_seq + 1, self.id),
        }
    }
}

/// The rows that have ids: the answers known so far.
pub type KnownIds = HashMap<String, Option<i64>>;

/// Gives ids to rows, batch by batch.
#[derive(Clone, Debug)]
pub struct IdAssigner {
    mode: OnDuplicate,
    /// For a base id the next suffix that may be free: all lower ones are used.
    hints: HashMap<String, u64>,
}

impl IdAssigner {
    /// Treats equal ids in this way.
    pub fn new(mode: OnDuplicate) -> Self {
        Self {
            mode,
            hints: HashMap::new(),
        }
    }

    /// The ids that an assignment of these rows will ask for first.
    pub fn first_questions(&self, rows: &[RowToName<'_>]) -> Vec<String> {
        let mut bases: HashMap<String, u64> = HashMap::with_capacity(rows.len());
        for row in rows {
            *bases.entry(wanted(row)).or_insert(0) += 1;
        }
        let mut questions = Vec::with_capacity(bases.len());
        for (base, rows) in bases {
            // A base that occurs twice, or that was suffixed before, will need suffixes.
            let needs_suffix = rows > 1 || self.hints.contains_key(&base);
            if needs_suffix && self.mode != OnDuplicate::Error {
                let next = self.hints.get(&base).copied().unwrap_or(2);
                questions.extend((next..next + rows).map(|number| suffixed(&base, number)));
            }
            questions.push(base);
        }
        questions
    }

    /// Gives each row an id that no row before it has: the wanted one, or the next free suffix. Where
    /// equal ids are an error, a duplicate keeps the wanted id and is only named.
    ///
    /// Returns the ids it has to know about as an error where `known` does not suffice. The caller adds
    /// the answers and calls again; nothing was changed.
    pub fn assign(
        &mut self,
        rows: &[RowToName<'_>],
        known: &KnownIds,
    ) -> Result<Vec<RowName>, Vec<String>> {
        let mut names = Vec::with_capacity(rows.len());
        let mut in_batch: HashMap<String, i64> = HashMap::with_capacity(rows.len());
        let mut hints: HashMap<String, u64> = HashMap::new();
        let mut questions = Vec::new();
        let mut waiting: HashSet<String> = HashSet::new();
        for row in rows {
            let base = wanted(row);
            if waiting.contains(&base) {
                continue;
            }
            let owner = in_batch.get(&base).map(|seq| Some(*seq));
            let Some(owner) = owner.or_else(|| known.get(&base).copied()) else {
                questions.push(base.clone());
                waiting.insert(base);
                continue;
            };
            let Some(of_seq) = owner else {
                in_batch.insert(base.clone(), row.seq);
                names.push(name(row, base, None));
                continue;
            };
            if self.mode == OnDuplicate::Error {
                let duplicate = DuplicateId {
                    id: base.clone(),
                    of_seq,
                };
                names.push(name(row, base, Some(duplicate)));
                continue;
            }
            let hint = hints.get(&base).or_else(|| self.hints.get(&base));
            let mut number = hint.copied().unwrap_or(2);
            let free = loop {
                let candidate = suffixed(&base, number);
                match known.get(&candidate) {
                    _ if in_batch.contains_key(&candidate) => {}
                    Some(None) => break Some(candidate),
                    Some(Some(_)) => {}
                    None => break None,
                }
                number += 1;
            };
            let Some(id) = free else {
                // As many more as there are rows: equal ids need that many, and it doubles the answers.
                let many = rows.len() as u64 + known.len() as u64 / 2;
                questions.extend((number..number + many).map(|number| suffixed(&base, number)));
                waiting.insert(base);
                continue;
            };
            in_batch.insert(id.clone(), row.seq);
            hints.insert(base.clone(), number + 1);
            let duplicate = DuplicateId { id: base, of_seq };
            names.push(name(row, id, Some(duplicate)));
        }
        if !questions.is_empty() {
            return Err(questions);
        }
        if self.hints.len() + hints.len() > HINTS_MAX {
            self.hints.clear();
        }
        self.hints.extend(hints);
        Ok(names)
    }
}

/// The id that a row asks for.
fn wanted(row: &RowToName<'_>) -> String {
    let cell = row.cell.and_then(id_of_cell);
    cell.unwrap_or_else(|| computed_id(row.seq))
}

fn suffixed(base: &str, number: u64) -> String {
    format!("{base}-{number}")
}

fn name(row: &RowToName<'_>, id: String, duplicate: Option<DuplicateId>) -> RowName {
    RowName {
        item_id: (id != computed_id(row.seq)).then_some(id),
        duplicate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assigns ids batch by batch over a set of used ids, and counts the questions.
    struct Table {
        assigner: IdAssigner,
        used: HashMap<String, i64>,
        questions: usize,
    }

    impl Table {
        fn new() -> Self {
            Self {
                assigner: IdAssigner::new(OnDuplicate::Suffix),
                used: HashMap::new(),
                questions: 0,
            }
        }

        fn add(&mut self, from: i64, cells: &[&str]) -> Vec<String> {
            let rows: Vec<RowToName<'_>> = (from..)
                .zip(cells)
                .map(|(seq, cell)| RowToName {
                    seq,
                    cell: Some(cell),
                })
                .collect();
            let mut known = KnownIds::new();
            let mut questions = self.assigner.first_questions(&rows);
            let names = loop {
                self.questions += questions.len();
                for id in questions {
                    let owner = self.used.get(&id).copied();
                    known.insert(id, owner);
                }
                match self.assigner.assign(&rows, &known) {
                    Ok(names) => break names,
                    Err(more) => questions = more,
                }
            };
            let ids = names.into_iter().zip(&rows);
            let ids = ids.map(|(name, row)| {
                let id = name.item_id.unwrap_or_else(|| computed_id(row.seq));
                let before = self.used.insert(id.clone(), row.seq);
                assert_eq!(before, None, "{id} twice");
                id
            });
            ids.collect()
        }
    }

    #[test]
    fn a_blank_cell_gives_the_row_number() {
        assert_eq!(
            Table::new().add(0, &["", " \t", "x"]),
            ["row-1", "row-2", "x"]
        );
    }

    #[test]
    fn ids_are_visible_single_lines() {
        let id = |cell: &str| id_of_cell(cell).unwrap();
        assert_eq!(id(" a b "), "a b");
        assert_eq!(id("x\nItem ID: y"), "x%0AItem ID: y");
        assert_eq!(id("50%"), "50%");
        assert_eq!(id("50%\t1"), "50%25%091");
        assert_eq!(id("a\u{2028}b\u{202e}c"), "a%E2%80%A8b%E2%80%AEc");
        for kept in ["../x", "-rf", "🦀", "A", "a"] {
            assert_eq!(id(kept), kept);
        }
        assert_eq!(id_of_cell("\n"), None);
    }

    #[test]
    fn a_long_id_is_cut_and_keeps_its_hash() {
        let fits = "é".repeat(128);
        assert_eq!(id_of_cell(&fits), Some(fits.clone()));
        let long = format!("{}{}", "a".repeat(219), "é".repeat(40));
        let id = id_of_cell(&long).unwrap();
        assert_eq!(id.len(), 219 + 1 + 16);
        assert!(id.starts_with(&"a".repeat(219)) && id.as_bytes()[219] == b'~');
        let other = id_of_cell(&format!("{long}x")).unwrap();
        assert_ne!(id, other);
    }

    #[test]
    fn a_suffix_is_the_next_free_one() {
        let mut table = Table::new();
        let ids = table.add(0, &["foo", "foo", "foo-2"]);
        assert_eq!(ids, ["foo", "foo-2", "foo-2-2"]);
        assert_eq!(
            table.add(3, &["foo", "foo-2", "Foo"]),
            ["foo-3", "foo-2-3", "Foo"]
        );
        assert_eq!(table.add(6, &["foo-4", "foo"]), ["foo-4", "foo-5"]);
    }

    #[test]
    fn a_cell_may_look_like_a_row_number() {
        let mut table = Table::new();
        let ids = table.add(0, &["row-2", "", "row-1", "row-4"]);
        assert_eq!(ids, ["row-2", "row-2-2", "row-1", "row-4"]);
        assert_eq!(table.add(4, &["", "row-5"]), ["row-5", "row-5-2"]);
    }

    #[test]
    fn a_duplicate_names_the_row_that_has_the_id() {
        let rows = [3, 4].map(|seq| RowToName {
            seq,
            cell: Some("x"),
        });
        let known = [("x", None), ("x-2", None), ("x-3", None)];
        let known = known.map(|(id, owner)| (id.to_owned(), owner)).into();
        let names = IdAssigner::new(OnDuplicate::Skip)
            .assign(&rows, &known)
            .unwrap();
        let duplicate = names[1].duplicate.clone().unwrap();
        assert_eq!((duplicate.of_seq, duplicate.id.as_str()), (3, "x"));
        assert_eq!(duplicate.skip_error().kind, "duplicate_id");
    }

    #[test]
    fn equal_ids_cost_a_constant_number_of_questions_each() {
        let mut table = Table::new();
        let cells = vec!["foo"; 500];
        for batch in 0..200 {
            table.add(batch * 500, &cells);
        }
        assert_eq!(table.used.len(), 100_000);
        assert!(table.used.contains_key("foo-100000"));
        assert!(table.questions < 400_000, "{}", table.questions);
    }

    #[test]
    fn suffixes_that_cells_have_taken_are_passed_over_once() {
        let mut table = Table::new();
        let cells: Vec<String> = (2..10_002).map(|number| format!("foo-{number}")).collect();
        for (at, batch) in cells.chunks(500).enumerate() {
            let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
            table.add(i64::try_from(at).unwrap() * 500, &batch);
        }
        for batch in 0..20 {
            table.add(10_000 + batch * 500, &["foo"; 500]);
        }
        assert!(table.used.contains_key("foo-20000"));
        assert!(table.questions < 100_000, "{}", table.questions);
    }
}
