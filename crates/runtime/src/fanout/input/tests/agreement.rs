//! The reader beside the `csv` crate, on random texts in random pieces.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_assert_eq, prop_oneof};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::fanout::input::record::{RecordFault, RecordReader};
use crate::fanout::input::spec::InputSpec;

/// Texts of the characters that matter, in which open quotes are not too frequent.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => Just("a"), 2 => Just("é🦀"), 4 => Just(","), 1 => Just("\""), 2 => Just("\"x\""),
        1 => Just("\"\""), 1 => Just("\"p\nq\""), 2 => Just("\n"), 1 => Just("\r"),
        2 => Just("\r\n"), 1 => Just(" "),
    ];
    vec(part, 0..60).prop_map(|parts| parts.concat())
}

/// The records of our reader, and whether it ended with an open quote.
fn ours(text: &str, pieces: &[usize]) -> (Vec<Vec<String>>, bool) {
    let mut reader = RecordReader::new(&InputSpec::default());
    let mut records = Vec::new();
    let mut rest = text.as_bytes();
    let mut sizes = pieces.iter().cycle();
    let mut ended = false;
    loop {
        match reader.next() {
            Ok(Some(record)) => records.push(record.cells),
            Ok(None) if ended => return (records, false),
            Ok(None) if rest.is_empty() => {
                reader.end();
                ended = true;
            }
            Ok(None) => {
                let size = sizes.next().map_or(1, |size| rest.len().min(*size));
                reader.push(&rest[..size]);
                rest = &rest[size..];
            }
            Err(RecordFault::OpenQuote { .. }) => return (records, true),
            Err(other) => panic!("{other:?}"),
        }
    }
}

fn of_the_crate(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(text.as_bytes());
    let records = reader.records().map(|record| {
        let record = record.expect("the text is UTF-8");
        record.iter().map(str::to_owned).collect()
    });
    records.collect()
}

/// Runs a property with a fixed seed, so that a run that fails fails again.
fn hold<S: Strategy>(strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config = Config {
        cases: 2_000,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    if let Err(error) = runner.run(strategy, test) {
        panic!("{error}");
    }
}

#[test]
fn records_are_those_of_the_csv_crate() {
    hold(&(text(), vec(1_usize..9, 1..5)), |(text, pieces)| {
        let (records, open) = ours(&text, &pieces);
        let mut expected = of_the_crate(&text);
        if open {
            // The crate takes what is left as a record.
            expected.pop();
        }
        prop_assert_eq!(&records, &expected);
        let whole = ours(&text, &[text.len().max(1)]);
        prop_assert_eq!(whole, (records, open));
        Ok(())
    });
}

#[test]
fn written_records_come_back() {
    let cells = vec(vec("[a,\"\r\n é]{0,6}", 2..4), 1..6);
    hold(&cells, |cells| {
        let width = cells[0].len();
        let rows: Vec<_> = cells.into_iter().filter(|row| row.len() == width).collect();
        let mut written = csv::Writer::from_writer(Vec::new());
        for row in &rows {
            written.write_record(row).expect("it is written to memory");
        }
        let bytes = written.into_inner().expect("it is written to memory");
        let text = String::from_utf8(bytes).expect("the cells are UTF-8");
        prop_assert_eq!(ours(&text, &[3]), (rows, false));
        Ok(())
    });
}
