//! What people do with the SDK, once for each server it can talk to.
//!
//! Every flow is one function over a [`rig::Rig`]; the table below makes it a test on an embedded
//! server, on our binary over standard input and output, a unix socket and a websocket, and on the
//! real Codex where `TURNLANE_TEST_CODEX` names it. A flow that must look at which server it has says
//! so with `rig.kind()`: those are the documented differences.

mod deciding;
mod defects;
mod rig;
mod threads;
mod turns;

use rig::{Place, Rig};

/// One test for each place.
macro_rules! flows {
    ($($module:ident :: $name:ident),* $(,)?) => {$(
        mod $name {
            use super::{Place, Rig};

            #[tokio::test]
            async fn on_an_embedded_server() {
                Rig::with(Place::Embedded, super::$module::$name).await;
            }

            #[tokio::test]
            async fn over_standard_input_and_output() {
                Rig::with(Place::Stdio, super::$module::$name).await;
            }

            #[tokio::test]
            async fn over_a_unix_socket() {
                Rig::with(Place::Unix, super::$module::$name).await;
            }

            #[tokio::test]
            async fn over_a_websocket() {
                Rig::with(Place::WebSocket, super::$module::$name).await;
            }

            #[tokio::test]
            async fn on_the_real_codex() {
                Rig::with(Place::Codex, super::$module::$name).await;
            }
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
    threads::a_fork_begins_with_the_history_of_its_source,
    threads::a_rollback_forgets_the_last_turn,
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
