//! Inputs of every kind, whole and in pieces.

mod agreement;
mod faults;

use super::*;
use crate::fanout::row::{Columns, Row};

/// All that a reader says about an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) columns: Vec<String>,
    /// Number, line and JSON of each row.
    pub(super) rows: Vec<(i64, u64, String)>,
    pub(super) problems: Vec<(Option<u64>, String)>,
    pub(super) warnings: Vec<String>,
    pub(super) blank_rows: u64,
}

impl Reading {
    pub(super) fn texts(&self) -> Vec<&str> {
        self.rows.iter().map(|(_, _, text)| text.as_str()).collect()
    }

    pub(super) fn problem(&self) -> &str {
        assert_eq!(self.problems.len(), 1, "{self:?}");
        &self.problems[0].1
    }
}

pub(super) fn read_pieces(input: &[u8], spec: &InputSpec, piece: usize) -> Reading {
    let mut table = TableReader::new(spec.clone());
    let mut reading = Reading::default();
    let mut drain = |table: &mut TableReader| {
        while let Some(event) = table.next_event() {
            match event {
                Event::Columns | Event::Passed => {}
                Event::Row(row) => {
                    let json = match &row.row {
                        Row::Cells(_) => row.row.to_json(table.columns()),
                        Row::Object(_) => row.row.to_json(&Columns::default()),
                    };
                    reading.rows.push((row.seq, row.line, json));
                }
                Event::Problem(problem) | Event::Fatal(problem) => {
                    reading.problems.push((problem.line, problem.message));
                }
            }
        }
    };
    for bytes in input.chunks(piece.max(1)) {
        table.push(bytes);
        drain(&mut table);
    }
    table.end();
    drain(&mut table);
    reading.columns = table.columns().names().to_vec();
    reading.warnings = table.warnings();
    reading.blank_rows = table.blank_rows();
    reading
}

/// Reads an input in pieces of several sizes; all must give the same.
pub(super) fn read_as(input: &[u8], spec: &InputSpec) -> Reading {
    let whole = read_pieces(input, spec, usize::MAX);
    for piece in [1, 2, 3, 7] {
        assert_eq!(read_pieces(input, spec, piece), whole, "pieces of {piece}");
    }
    whole
}

pub(super) fn format(format: Format) -> InputSpec {
    InputSpec {
        format,
        ..InputSpec::default()
    }
}

pub(super) fn csv(input: impl AsRef<[u8]>) -> Reading {
    read_as(input.as_ref(), &InputSpec::default())
}

fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(bytes).collect()
}

const PLAIN: &str = "name,text\nann,\"a\nb\"\n\"bo\"\"b\",é🦀\n";

#[test]
fn marks_line_ends_and_encodings_do_not_matter() {
    let plain = csv(PLAIN);
    let rows = [
        (0, 2, r#"{"name":"ann","text":"a\nb"}"#.to_owned()),
        (1, 4, r#"{"name":"bo\"b","text":"é🦀"}"#.to_owned()),
    ];
    assert_eq!(plain.rows, rows);
    assert_eq!(plain.columns, ["name", "text"]);
    assert_eq!(
        (&plain.problems[..], &plain.warnings[..]),
        (&[][..], &[][..])
    );
    assert_eq!(csv(format!("\u{feff}{PLAIN}")), plain, "a mark of UTF-8");
    assert_eq!(csv(PLAIN.trim_end()), plain, "no line end at the end");
    assert_eq!(csv(utf16(PLAIN, u16::to_le_bytes)), plain);
    assert_eq!(csv(utf16(PLAIN, u16::to_be_bytes)), plain);
    let ends = |end: &str| {
        csv(format!(
            "name,text{end}ann,\"a\nb\"{end}\"bo\"\"b\",é🦀{end}"
        ))
    };
    assert_eq!(ends("\r\n"), plain);
    assert_eq!(ends("\r"), plain);
    let quoted = csv(PLAIN.replace("a\nb", "a\r\nb"));
    assert_eq!(quoted.rows[0].2, r#"{"name":"ann","text":"a\r\nb"}"#);
    assert_eq!(quoted.rows[1].1, 4, "CRLF inside quotes is one line end");
}

#[test]
fn a_named_encoding_is_used() {
    let spec = |word: &str| InputSpec {
        encoding: Encoding::from_word(word),
        ..InputSpec::default()
    };
    let bytes = b"n\n\xe9\x80\n";
    assert_eq!(
        read_as(bytes, &spec("windows-1252")).texts(),
        ["{\"n\":\"é€\"}"]
    );
    assert_eq!(
        read_as(bytes, &spec("latin-1")).texts(),
        ["{\"n\":\"é\u{80}\"}"]
    );
    let unmarked: Vec<u8> = "n\né\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(
        read_as(&unmarked, &spec("utf-16be")).texts(),
        ["{\"n\":\"é\"}"]
    );
    assert_eq!(Encoding::from_word("ebcdic"), None);
}

#[test]
fn quotes_in_odd_places_are_literal() {
    let found = csv("a,b\nx\"y,\"p\"q\n");
    assert_eq!(found.texts(), [r#"{"a":"x\"y","b":"pq"}"#]);
}

#[test]
fn empty_lines_are_no_records_and_blank_records_keep_their_number() {
    let found = csv("a,b\n\n\n1,2\n,\n\r\n3,4\n");
    let numbers: Vec<_> = found
        .rows
        .iter()
        .map(|(seq, line, _)| (*seq, *line))
        .collect();
    assert_eq!(numbers, [(0, 4), (2, 7)]);
    assert_eq!(found.blank_rows, 1);
    let one = csv("a\n\"\"\nx\n");
    assert_eq!((one.blank_rows, one.rows[0].0), (1, 1));
}

#[test]
fn a_file_of_another_delimiter_is_warned_about() {
    for (header, shown) in [("a;b", ";"), ("a\tb", "\\t"), ("a|b", "|")] {
        let found = csv(format!("{header}\nx\n"));
        let expected = format!("only one column found; did you mean --delimiter '{shown}'?");
        assert_eq!(found.warnings, [expected]);
    }
    let spec = InputSpec {
        delimiter: Some(b';'),
        ..InputSpec::default()
    };
    let found = read_as(b"a;b\n1;\"2;\"\n", &spec);
    assert_eq!(found.texts(), [r#"{"a":"1","b":"2;"}"#]);
    assert!(found.warnings.is_empty());
    assert_eq!(
        read_as(b"a\tb\n1\t2\n", &format(Format::Tsv)).columns,
        ["a", "b"]
    );
}

#[test]
fn a_header_alone_is_no_error() {
    let found = csv("a,b\n");
    assert_eq!(found.warnings, ["input has no data rows"]);
    assert!(found.problems.is_empty() && found.rows.is_empty());
    for none in [Format::Jsonl, Format::Lines] {
        let found = read_as(b"", &format(none));
        assert_eq!(
            (found.warnings.len(), found.problems.len()),
            (1, 0),
            "{none:?}"
        );
    }
}

#[test]
fn lines_are_rows() {
    let found = read_as(b"\xef\xbb\xbfa,b\r\n\r\n\"c\rd\n", &format(Format::Lines));
    assert_eq!(found.columns, ["line"]);
    let rows = [
        (0, 1, "{\"line\":\"a,b\"}".to_owned()),
        (2, 3, "{\"line\":\"\\\"c\"}".to_owned()),
        (3, 4, "{\"line\":\"d\"}".to_owned()),
    ];
    assert_eq!(found.rows, rows);
    assert_eq!(found.blank_rows, 1);
    assert_eq!(read_as(b"a\nb", &format(Format::Lines)).rows.len(), 2);
}

#[test]
fn objects_are_rows_and_their_keys_the_columns() {
    let input = b"{\"b\": 1.0, \"a\": \"x\"}\r\n{\"c\":null,\"a\":[1, 2]}\n \n\n";
    let found = read_as(input, &format(Format::Jsonl));
    assert_eq!(found.columns, ["b", "a", "c"]);
    assert_eq!(
        found.texts(),
        [r#"{"b":1.0,"a":"x"}"#, r#"{"c":null,"a":[1,2]}"#]
    );
    assert!(found.problems.is_empty(), "trailing blank lines: {found:?}");
}

#[test]
fn filters_choose_rows_and_numbers_stay() {
    let input = "k,v\na,1\nb,2\na,3\na,4\na,5\n";
    let spec = |filters| InputSpec {
        filters,
        ..InputSpec::default()
    };
    let values = vec![("k".to_owned(), "a".to_owned())];
    let filters = Filters {
        values: values.clone(),
        offset: 1,
        limit: Some(2),
        ..Filters::default()
    };
    let found = read_as(input.as_bytes(), &spec(filters));
    let numbers: Vec<_> = found.rows.iter().map(|(seq, _, _)| *seq).collect();
    assert_eq!(numbers, [2, 3]);
    let none = Filters {
        values: [values, vec![("v".to_owned(), "2".to_owned())]].concat(),
        ..Filters::default()
    };
    let found = read_as(input.as_bytes(), &spec(none));
    assert_eq!(found.warnings, ["no row passes the filters"]);
}

#[test]
fn a_reader_continues_behind_any_record() {
    let csv_input = utf16(&PLAIN.replace('\n', "\r\n"), u16::to_le_bytes);
    let jsonl = b"{\"a\":1}\r\n{\"b\":2}\r\n{\"a\":3}\n".to_vec();
    let lines = b"x\r\n\r\ny\rz".to_vec();
    let inputs = [
        (csv_input, Format::Csv),
        (jsonl, Format::Jsonl),
        (lines, Format::Lines),
    ];
    for (input, kind) in inputs {
        let spec = format(kind);
        let whole = read_pieces(&input, &spec, usize::MAX);
        let mut table = TableReader::new(spec.clone());
        let mut found = Vec::new();
        let mut end = false;
        // After every event the reader is thrown away and another one continues.
        for _ in 0..20 {
            let from = usize::try_from(table.border().offset).unwrap();
            table.push(&input[from..]);
            table.end();
            match table.next_event() {
                None => {
                    end = true;
                    break;
                }
                Some(Event::Row(row)) => {
                    let columns = match row.row {
                        Row::Cells(_) => table.columns().clone(),
                        Row::Object(_) => Columns::default(),
                    };
                    found.push((row.seq, row.line, row.row.to_json(&columns)));
                }
                Some(Event::Columns | Event::Passed) => {}
                Some(other) => panic!("{other:?}"),
            }
            let columns = table.columns().clone();
            table = TableReader::resumed(spec.clone(), columns, &table.border());
        }
        assert!(end, "the reader does not end: {kind:?}");
        assert_eq!(found, whole.rows, "{kind:?}");
    }
}
