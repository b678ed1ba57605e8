//! What people do with the SDK, once for each server it can talk to.
//!
//! Every flow is one function over a [`rig::Rig`]; `on_each_target` makes it a test on an embedded
//! server, on our binary over standard input and output, a unix socket and a websocket, and, where
//! `TURNLANE_TEST_CODEX` names it, on the real Codex and on our binary with the engine `codex`. A
//! flow that must look at which server it has says so with `rig.kind()`: those are the documented
//! differences. A flow that an engine cannot serve names the engine and the method it refuses; the
//! refusal is checked in its place.

mod deciding;
mod defects;
mod rig;
mod threads;
mod turns;

use rig::{Refusal, Rig, Target};

/// One test of a flow for each target.
macro_rules! on_each_target {
    ($flow:path, $refusals:expr) => {
        on_each_target!(@ $flow, $refusals;
            on_an_embedded_server: Target::EMBEDDED,
            over_standard_input_and_output: Target::stdio("native"),
            over_a_unix_socket: Target::unix("native"),
            over_a_websocket: Target::websocket("native"),
            on_the_real_codex: Target::CODEX,
            with_the_engine_codex: Target::stdio("codex"),
        );
    };
    (@ $flow:path, $refusals:expr; $($name:ident: $target:expr,)*) => {$(
        #[tokio::test]
        async fn $name() {
            Rig::with($target, $refusals, $flow).await;
        }
    )*};
}

/// The table of flows, each with what engines refuse of it: `[("ENGINE", "METHOD"), ...]`.
macro_rules! flows {
    ($($module:ident :: $name:ident $([$($refusal:expr),*])?),* $(,)?) => {$(
        mod $name {
            use super::{Refusal, Rig, Target};

            /// What engines refuse of this flow.
            const REFUSALS: &[Refusal] = &[$($(Refusal::of($refusal)),*)?];

            on_each_target!(super::$module::$name, REFUSALS);
        }
    )*};
}

flows! {
    threads::connecting_says_which_server_it_is,
    threads::a_thread_has_what_was_asked_for_and_no_more,
    threads::a_history_is_read_back,
    threads::threads_are_listed,
    threads::a_thread_is_resumed_in_the_same_process,
    threads::a_thread_is_resumed_after_a_restart,
    threads::a_fork_begins_with_the_history_of_its_source [("codex", "thread/fork")],
    threads::a_rollback_forgets_the_last_turn [("codex", "thread/revert")],
    threads::an_archived_thread_takes_no_turn,
    threads::skills_are_listed,
    threads::a_command_runs_without_a_thread,
    threads::an_unknown_method_is_unsupported,
    threads::a_shutdown_ends_everything,
    turns::a_question_has_an_answer,
    turns::an_answer_streams,
    turns::two_questions_at_once_have_two_answers_in_order,
    turns::threads_run_in_parallel,
    turns::a_failed_turn_says_why,
    turns::an_interrupted_turn_is_no_success,
    turns::a_turn_that_takes_too_long_is_interrupted,
    turns::a_dropped_stream_interrupts_its_turn,
    turns::more_is_said_while_a_turn_runs,
    turns::a_stale_steer_is_refused,
    turns::an_answer_follows_a_schema,
    turns::a_result_has_commands_items_and_usage,
    turns::an_automation_runs_three_times,
    turns::an_automation_that_is_stopped_now_leaves_no_turn,
    defects::d05_an_interrupted_turn_is_an_error_that_keeps_what_was_said,
    defects::d08_full_access_of_the_server_is_not_that_of_the_thread,
    defects::d09_a_resumed_thread_has_what_was_asked_for,
    defects::d10_a_history_of_more_than_a_mebibyte_is_read_and_resumed,
    defects::d11_a_server_that_is_killed_in_a_turn_is_noticed_within_a_second,
    defects::d14_a_server_that_is_too_old_is_refused,
    defects::d19_an_answer_of_tools_alone_is_a_success_without_text,
    deciding::an_accepted_command_runs,
    deciding::a_declined_command_does_not_run,
    deciding::nobody_is_asked_for_another_thread,
    deciding::a_hook_changes_what_is_said,
    deciding::a_hook_that_blocks_sends_nothing,
    deciding::hooks_run_in_their_order,
    deciding::writing_needs_a_word_of_the_caller,
}

/// A line of the table that is not true any more is noticed.
#[tokio::test]
#[should_panic(expected = "`native` serves thread/fork")]
async fn a_refusal_that_does_not_come_fails_its_flow() {
    let refusals = &[Refusal::of(("native", "thread/fork"))];
    Rig::with(
        Target::stdio("native"),
        refusals,
        turns::a_question_has_an_answer,
    )
    .await;
}
