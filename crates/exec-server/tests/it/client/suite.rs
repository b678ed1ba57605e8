//! One suite for every way to a process: what the client promises, whoever is at the other end.
//!
//! [`common`] is what every peer of `process.v1` can do, Codex's server included; [`extended`] needs
//! our extensions. Each is a list of functions over a connected client, run once per place.

mod common;
mod extended;
mod older;
mod places;

pub(super) use common::{gone, is_alive, read_until};

/// Makes a test of each function, at one place.
macro_rules! tests_at {
    ($place:ident, $suite:ident: $($test:ident,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if let Some(place) = super::places::$place().await {
                    super::$suite::$test(&place).await;
                    place.leave().await;
                }
            }
        )*
    };
}

macro_rules! common_at {
    ($place:ident) => {
        tests_at! { $place, common:
            a_command_tells_its_output_its_exit_and_its_close,
            both_streams_are_kept_apart_and_kept,
            a_terminal_is_one_stream_that_can_be_typed_into,
            input_reaches_the_process_in_order,
            a_failed_start_says_why_and_harms_nothing,
            many_run_at_once_and_are_not_mixed_up,
            an_interrupt_arrives,
            an_end_by_force_is_137_and_said_once,
            the_environment_is_what_was_asked_for,
            everything_it_wrote_is_in_the_lossless_stream,
            a_picture_of_much_output_is_its_beginning_and_its_end,
            a_command_is_run_to_its_end_in_one_call,
            a_wait_in_vain_ends_at_its_limit,
            a_dropped_handle_ends_the_process,
        }
    };
}

macro_rules! extended_at {
    ($place:ident) => {
        tests_at! { $place, extended:
            much_goes_through_cat_and_back,
            closing_standard_input_ends_its_reader,
            a_terminal_changes_its_size,
            every_signal_arrives,
            a_graceful_end_lets_it_speak,
            a_timeout_is_124,
            a_limit_is_in_force,
            the_list_shows_what_runs,
            survivors_live_until_they_are_ended,
            a_dropped_handle_ends_survivors_too,
            a_refused_call_says_why,
            a_sandbox_is_enforced_and_noticed,
        }
    };
}

macro_rules! owned_at {
    ($place:ident) => {
        tests_at! { $place, extended:
            a_dropped_client_leaves_nothing,
            a_panicking_owner_leaves_nothing,
        }
    };
}

mod in_process {
    common_at!(in_process);
    extended_at!(in_process);
    owned_at!(in_process);
}

mod stdio {
    common_at!(stdio);
    extended_at!(stdio);
    owned_at!(stdio);
}

mod websocket {
    common_at!(websocket);
    extended_at!(websocket);
    owned_at!(websocket);
}

mod unix {
    common_at!(unix);
    extended_at!(unix);
    owned_at!(unix);
}

mod launched {
    common_at!(launched);
    extended_at!(launched);
}

mod v0 {
    tests_at! { v0, older:
        a_terminal_of_v0_is_written_to_and_read,
        a_command_of_v0_has_two_streams_and_no_input,
        v0_ends_by_force_and_only_so,
        a_failed_start_of_v0_says_why,
    }
    tests_at! { v0, common:
        a_command_tells_its_output_its_exit_and_its_close,
        both_streams_are_kept_apart_and_kept,
        many_run_at_once_and_are_not_mixed_up,
        the_environment_is_what_was_asked_for,
        everything_it_wrote_is_in_the_lossless_stream,
        a_picture_of_much_output_is_its_beginning_and_its_end,
        a_wait_in_vain_ends_at_its_limit,
        a_dropped_handle_ends_the_process,
    }
    owned_at!(v0);
}

mod codex {
    common_at!(codex);
}
