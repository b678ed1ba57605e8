//! Twenty defects that were measured in another client, and the tests that show that ours has none.
//!
//! The invariant here: each row names at least one test that is there, by its file and its name, and
//! a row that was measured against Codex 0.166 names one that also runs on the real Codex
//! (`crates/cli/tests/it/flows`). Nothing is proved in this file twice: it is the index, and it fails
//! when a test it names is renamed or removed.

use std::path::Path;

/// The folder of the flows, which run on every server, the real Codex too.
const FLOWS: &str = "../cli/tests/it/flows";

/// A row of the table.
struct Row {
    number: u8,
    /// What was measured.
    defect: &'static str,
    /// Whether Codex 0.166 had a part in it.
    on_codex: OnCodex,
    /// The files and names of its tests.
    tests: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OnCodex {
    Yes,
    No,
}

use OnCodex::{No, Yes};

const fn row(
    number: u8,
    on_codex: OnCodex,
    defect: &'static str,
    tests: &'static [(&'static str, &'static str)],
) -> Row {
    Row {
        number,
        defect,
        on_codex,
        tests,
    }
}

const ROWS: [Row; 20] = [
    row(
        1,
        No,
        "an approval of one thread was decided by another's hook",
        &[
            (
                "tests/it/reviews.rs",
                "a_hundred_threads_decide_for_themselves_alone",
            ),
            (
                "../cli/tests/it/flows/deciding.rs",
                "nobody_is_asked_for_another_thread",
            ),
        ],
    ),
    row(
        2,
        No,
        "hooks about tools never fired",
        &[
            (
                "tests/it/hooks/tools.rs",
                "hooks_about_tools_are_refused_where_nobody_would_ask_them",
            ),
            (
                "tests/it/hooks/tools.rs",
                "a_server_that_asks_hooks_gets_their_answers_for_their_own_thread_only",
            ),
        ],
    ),
    row(
        3,
        No,
        "a failing policy hook allowed the command",
        &[(
            "tests/it/hooks.rs",
            "a_hook_that_fails_blocks_unless_it_says_otherwise_and_is_reported",
        )],
    ),
    row(
        4,
        No,
        "a slow hook delayed an unrelated call",
        &[
            ("tests/it/hooks.rs", "a_slow_hook_delays_no_other_call"),
            (
                "tests/it/reviews.rs",
                "a_slow_reviewer_delays_neither_calls_nor_other_questions",
            ),
        ],
    ),
    row(
        5,
        Yes,
        "an interrupted turn was a success",
        &[
            (
                "tests/it/ends.rs",
                "an_interrupted_turn_is_never_a_success_and_keeps_what_it_said",
            ),
            (
                "../cli/tests/it/flows/defects.rs",
                "d05_an_interrupted_turn_is_an_error_that_keeps_what_was_said",
            ),
        ],
    ),
    row(
        6,
        Yes,
        "a steer started a turn",
        &[
            (
                "tests/it/threads/turn_calls.rs",
                "d6_a_steer_is_a_steer_and_names_the_turn_it_expects",
            ),
            ("../cli/tests/it/flows/turns.rs", "a_stale_steer_is_refused"),
            (
                "../cli/tests/it/flows/turns.rs",
                "more_is_said_while_a_turn_runs",
            ),
        ],
    ),
    row(
        7,
        Yes,
        "two questions on one thread got one answer",
        &[
            (
                "tests/it/mixing.rs",
                "a_hundred_turns_at_once_on_one_thread_are_a_hundred_turns_in_call_order",
            ),
            (
                "../cli/tests/it/flows/turns.rs",
                "two_questions_at_once_have_two_answers_in_order",
            ),
        ],
    ),
    row(
        8,
        Yes,
        "a read-only thread had full access",
        &[
            (
                "tests/it/threads/gate.rs",
                "d8_a_thread_that_was_granted_more_is_left_and_put_away",
            ),
            (
                "../cli/tests/it/flows/defects.rs",
                "d08_full_access_of_the_server_is_not_that_of_the_thread",
            ),
        ],
    ),
    row(
        9,
        Yes,
        "what a resume asked for was ignored",
        &[
            (
                "tests/it/threads/opening.rs",
                "d9_a_thread_is_resumed_with_flat_fields_and_without_its_turns",
            ),
            (
                "../cli/tests/it/flows/defects.rs",
                "d09_a_resumed_thread_has_what_was_asked_for",
            ),
        ],
    ),
    row(
        10,
        Yes,
        "a history above 1 MiB hung",
        &[
            (
                "tests/it/threads/embedded.rs",
                "d10_a_history_of_sixteen_mebibytes_is_read_and_resumed",
            ),
            (
                "../cli/tests/it/flows/defects.rs",
                "d10_a_history_of_more_than_a_mebibyte_is_read_and_resumed",
            ),
        ],
    ),
    row(
        11,
        Yes,
        "a killed child was noticed at the turn's timeout",
        &[
            (
                "tests/it/link.rs",
                "d11_a_killed_server_is_noticed_at_once_and_a_supervised_one_comes_back",
            ),
            (
                "../cli/tests/it/flows/defects.rs",
                "d11_a_server_that_is_killed_in_a_turn_is_noticed_within_a_second",
            ),
        ],
    ),
    row(
        12,
        No,
        "a child outlived its client",
        &[
            (
                "tests/it/link.rs",
                "d12_no_child_is_left_when_the_last_handle_is_dropped",
            ),
            (
                "tests/it/link.rs",
                "d12_no_child_is_left_when_the_task_of_its_owner_panics",
            ),
            (
                "tests/it/link.rs",
                "d12_no_child_is_left_when_the_runtime_is_shut_down",
            ),
            (
                "tests/it/link.rs",
                "d12_no_child_is_left_when_the_client_is_killed",
            ),
        ],
    ),
    row(
        13,
        Yes,
        "a rollback and an approval that do not exist",
        &[
            (
                "tests/it/threads/history/rollback.rs",
                "d13_a_rollback_is_a_list_and_a_revert",
            ),
            (
                "../cli/tests/it/flows/threads.rs",
                "a_rollback_forgets_the_last_turn",
            ),
        ],
    ),
    row(
        14,
        Yes,
        "the version check was inert",
        &[
            (
                "tests/it/link.rs",
                "d14_a_version_is_checked_whatever_the_server_is_called",
            ),
            (
                "../cli/tests/it/flows/defects.rs",
                "d14_a_server_that_is_too_old_is_refused",
            ),
        ],
    ),
    row(
        15,
        No,
        "a binary that exits cost the handshake's timeout",
        &[(
            "tests/it/link.rs",
            "d15_a_binary_that_exits_at_start_costs_no_handshake_timeout",
        )],
    ),
    row(
        16,
        No,
        "hook scripts did nothing",
        &[
            (
                "src/hooks/tests/shell.rs",
                "exit_code_two_blocks_with_what_was_said",
            ),
            (
                "src/hooks/tests/script.rs",
                "whatever_is_a_no_on_the_server_is_a_no_here",
            ),
        ],
    ),
    row(
        17,
        No,
        "a clean exit was restarted",
        &[("tests/it/link.rs", "d17_a_clean_exit_is_not_restarted")],
    ),
    row(
        18,
        No,
        "unknown requests were answered with an invalid decision",
        &[(
            "tests/it/reviews.rs",
            "without_a_reviewer_every_request_is_answered_in_its_own_words",
        )],
    ),
    row(
        19,
        Yes,
        "an answer of tools alone was an error",
        &[
            (
                "tests/it/ends.rs",
                "a_turn_that_only_used_tools_is_a_success_without_text",
            ),
            (
                "../cli/tests/it/flows/defects.rs",
                "d19_an_answer_of_tools_alone_is_a_success_without_text",
            ),
        ],
    ),
    row(
        20,
        Yes,
        "results had no usage, items or commands, and examples did not compile",
        &[
            (
                "tests/it/streams.rs",
                "a_stream_tells_everything_about_its_turn_in_order_and_then_its_end",
            ),
            ("tests/it/examples.rs", "ask_answers"),
            (
                "../cli/tests/it/flows/turns.rs",
                "a_result_has_commands_items_and_usage",
            ),
        ],
    ),
];

/// Whether a file has a function of this name that is a test, or a flow that is in their table.
fn is_tested(file: &str, name: &str) -> bool {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(here.join(file)).unwrap_or_default();
    let Some(at) = text.find(&format!("fn {name}(")) else {
        return false;
    };
    if let Some(flow) = file.strip_prefix(FLOWS) {
        let module = flow.trim_matches('/').trim_end_matches(".rs");
        let table = std::fs::read_to_string(here.join(FLOWS).with_extension("rs")).unwrap();
        // A line of the table goes on with a comma, or with what engines refuse of the flow.
        let flow = format!("{module}::{name}");
        return table
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix(&flow))
            .any(|rest| rest.starts_with([',', ' ']));
    }
    let before = text[..at].trim_end_matches("async ").trim_end();
    let attribute = before.lines().next_back().unwrap_or_default();
    attribute == "#[test]" || attribute.starts_with("#[tokio::test")
}

#[test]
fn every_defect_has_its_tests_and_those_of_codex_run_on_codex() {
    for (index, row) in ROWS.iter().enumerate() {
        assert_eq!(usize::from(row.number), index + 1);
        assert!(!row.tests.is_empty(), "D{}: {}", row.number, row.defect);
        for (file, name) in row.tests {
            assert!(is_tested(file, name), "D{}: {file}: {name}", row.number);
        }
        let runs_on_codex = row.tests.iter().any(|(file, _)| file.starts_with(FLOWS));
        let is_shown = row.on_codex == No || runs_on_codex;
        assert!(is_shown, "D{} is not shown on Codex", row.number);
    }
    assert!(!is_tested("tests/it/link.rs", "no_such_test"));
    assert!(!is_tested("tests/it/link.rs", "connect"), "not a test");
}
