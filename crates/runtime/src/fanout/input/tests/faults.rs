//! Inputs that are refused: the text, the physical line, and what the reader holds.

use super::*;

#[test]
fn a_header_is_required_and_has_distinct_names() {
    for empty in ["", "\n\r\n", "\u{feff}"] {
        assert_eq!(csv(empty).problem(), "csv input must include a header row");
    }
    assert_eq!(
        csv("x,y,x\n1,2,3\n").problem(),
        "csv header x is duplicated"
    );
    assert_eq!(csv("x, ,y\n").problem(), "csv header column 2 has no name");
    assert_eq!(csv("x,\n").problem(), "csv header column 2 has no name");
}

#[test]
fn a_row_of_another_length_is_named_by_record_and_line() {
    let found = csv("a,b\n\"x\ny\",2\n\n3\n4,5,6\n7,8\n");
    let problems = [
        (
            Some(5),
            "csv row 3 has 1 fields but header has 2 (line 5)".to_owned(),
        ),
        (
            Some(6),
            "csv row 4 has 3 fields but header has 2 (line 6)".to_owned(),
        ),
    ];
    assert_eq!(found.problems, problems);
    assert_eq!(found.rows.len(), 2, "the others are read");
}

#[test]
fn bytes_that_are_no_text_are_named_by_line_and_offset() {
    let found = csv(b"a,b\n\"x\ny\",\xff\n");
    assert_eq!(
        found.problem(),
        "input is not valid UTF-8 (line 3, byte offset 10)"
    );
    assert_eq!(
        csv(b"a\nx\n\xc3").problem(),
        "input is not valid UTF-8 (line 3, byte offset 4)"
    );
    assert_eq!(
        csv("a\r\nb\0").problem(),
        "input has a NUL character (line 2, byte offset 4)"
    );
    let utf16 = b"\xff\xfea\0\n\0\x00\xd8b\0";
    assert_eq!(
        csv(utf16).problem(),
        "input is not valid UTF-16 (line 2, byte offset 6)"
    );
    let odd = b"\xff\xfea\0\n\0b";
    assert_eq!(
        csv(odd).problem(),
        "input is not valid UTF-16 (line 2, byte offset 6)"
    );
}

#[test]
fn an_open_quote_is_named_by_the_line_that_opens_it() {
    let found = csv("a,b\n1,2\n\"x\ny\",\"z\n3,4\n");
    assert_eq!(found.problem(), "unclosed quote, opened at line 4");
    assert_eq!(csv("\"a").problem(), "unclosed quote, opened at line 1");
    assert_eq!(csv("a\n\"").problem(), "unclosed quote, opened at line 2");
    assert_eq!(
        csv("a\n\"\"\"").problem(),
        "unclosed quote, opened at line 2"
    );
    assert!(csv("a\n\"x\"").problems.is_empty());
}

#[test]
fn a_long_record_is_refused_while_it_is_read() {
    let cell = |len: usize| format!("a\n{}\n", "x".repeat(len));
    assert!(
        read_pieces(
            cell(RECORD_BYTES_MAX).as_bytes(),
            &InputSpec::default(),
            70_000
        )
        .problems
        .is_empty()
    );
    for kind in [Format::Csv, Format::Lines] {
        let long = cell(RECORD_BYTES_MAX + 1);
        let found = read_pieces(long.as_bytes(), &format(kind), 70_000);
        let message = found.problem();
        assert!(
            message.ends_with("row 2 is longer than 1048576 bytes (line 2)"),
            "{message}"
        );
    }
}

#[test]
fn an_open_quote_at_the_top_of_a_large_input_is_held_to_one_record() {
    let mut table = TableReader::new(InputSpec::default());
    let piece = b"1,2,3,4,5,6,7,8\n".repeat(4_096);
    table.push(b"a,b\n\"oops,1\n");
    let (mut pushed, mut held) = (0_u64, 0);
    let problem = loop {
        match table.next_event() {
            Some(Event::Fatal(problem)) => break problem,
            Some(_) => {}
            None => {
                assert!(pushed < 1 << 30, "a gigabyte was read");
                table.push(&piece);
                pushed += piece.len() as u64;
            }
        }
        held = held.max(table.held_bytes());
    };
    assert_eq!(
        problem.message,
        "csv row 2 is longer than 1048576 bytes (line 2)"
    );
    assert!(pushed <= 2 << 20, "{pushed} bytes were read");
    assert!(held <= 4 << 20, "{held} bytes were held");
}

#[test]
fn a_long_input_of_short_records_is_held_in_little_memory() {
    let mut table = TableReader::new(InputSpec::default());
    table.push(b"a,b\n");
    let piece = b"left,\"right\n\"\n".repeat(4_096);
    let mut rows = 0;
    for _ in 0..64 {
        table.push(&piece);
        while let Some(event) = table.next_event() {
            rows += usize::from(matches!(event, Event::Row(_)));
        }
        assert!(table.held_bytes() < 1 << 20, "{}", table.held_bytes());
    }
    assert_eq!(rows, 64 * 4_096);
}

#[test]
fn columns_are_bounded() {
    let names = |count: usize| {
        let names: Vec<String> = (0..count).map(|at| format!("c{at}")).collect();
        names.join(",")
    };
    assert!(csv(names(1_024)).problems.is_empty());
    for many in [1_025, 2_049, 5_000] {
        let found = read_pieces(names(many).as_bytes(), &InputSpec::default(), 4_000);
        assert_eq!(found.problem(), "input has more than 1024 columns (line 1)");
    }
}

#[test]
fn rows_are_bounded() {
    let mut table = TableReader::new(InputSpec::default());
    table.push(b"name\n");
    assert!(matches!(table.next_event(), Some(Event::Columns)));
    // Behind the header and all rows but one.
    let border = table.border().with_records(10_000_000);
    let mut table = TableReader::resumed(InputSpec::default(), table.columns().clone(), &border);
    table.push(b"x\ny\n");
    match table.next_event() {
        Some(Event::Row(row)) => assert_eq!(row.seq, ROWS_MAX - 1),
        other => panic!("{other:?}"),
    }
    match table.next_event() {
        Some(Event::Fatal(problem)) => {
            assert_eq!(
                problem.message,
                "input has more than 10000000 rows (line 3)"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_line_that_is_no_row_of_json_is_named() {
    let jsonl = |text: &str| read_as(text.as_bytes(), &format(Format::Jsonl)).problems;
    let lines = |text: &str| {
        let problems = jsonl(text).into_iter();
        problems.map(|(_, message)| message).collect::<Vec<_>>()
    };
    assert_eq!(
        lines("{}\n[1]\n\"x\"\n"),
        ["line 2 is not a JSON object", "line 3 is not a JSON object"]
    );
    assert_eq!(lines("{}\n\n{}\n"), ["line 2 is not a JSON object"]);
    assert!(lines("{\"a\":}\n")[0].starts_with("line 1 is not valid JSON: "));
    assert!(lines("{} {}\n")[0].starts_with("line 1 is not valid JSON: "));
    assert_eq!(
        lines("{\"a\":1,\"a\":2}"),
        ["line 1 has the key \"a\" twice"]
    );
    assert_eq!(
        lines("{}\n{\"a\":\"\\u0000\"}"),
        ["line 2 has a NUL character (byte offset 9)"]
    );
    let deep = |depth| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(jsonl(&deep(127)).is_empty());
    assert_eq!(lines(&deep(128)), ["line 1 is nested deeper than 128"]);
}
