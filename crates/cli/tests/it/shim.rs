//! `turnlane shim` as an orchestrator runs it: the real binary behind a double of the orchestrator that was
//! written from the protocol alone.
//!
//! What the contract wants to be shown, and the test that shows it:
//!
//! | number | test |
//! | --- | --- |
//! | 1 | `queue::a_full_queue_refuses_the_new_message_and_runs_every_accepted_one` |
//! | 2 | `crash::queue_and_thread_survive_a_kill_of_the_shim` |
//! | 3, 9 | `outcomes::a_quota_keeps_what_waits_and_the_lane_goes_on` |
//! | 4, 26 | `ends::a_kill_ends_every_process_and_preserves_the_work` |
//! | 5 | `ends::a_shutdown_has_exited_within_its_time`, `ends::a_turn_that_ends_in_the_time_of_a_shutdown_has_its_receipts` |
//! | 6, 13, 31 | `outcomes::only_a_completed_turn_has_a_completion` |
//! | 6, 19 | `programs::every_outcome_of_a_program_leaves_no_zombie_and_no_descriptor` |
//! | 7, 8, 9, 10 | `programs::the_errors_of_codex_are_told_by_their_kinds` |
//! | 8, 37 | `outcomes::an_exhausted_thread_hands_its_queue_to_a_successor`; no crash within the change of threads |
//! | 10 | `outcomes::a_reset_time_is_told_as_the_provider_said_it`; texts: the engine's tests of `codex_exec::texts::reset` |
//! | 11, 12 | `outcomes::a_long_answer_is_cut_at_its_beginning` |
//! | 14 | `queue::the_same_id_runs_once_until_it_fails`, `receipts::a_duplicate_of_an_old_completed_message_gets_its_completion` |
//! | 15 | `queue::many_queued_messages_cost_little_memory` |
//! | 16, 23 | `channel::pings_and_hostile_frames_are_answered_during_a_turn`; no fuzzing here |
//! | 17 | `turnlane_shim::channel::connection` (unit): a panic is told to the loop, which ends with exit code 6 |
//! | 18 | `programs::messages_behind_a_failed_start_of_the_program_are_served`, ignored: it does not end |
//! | 20 | `programs::a_long_prompt_does_not_wait_for_a_program_that_prints_first`; 5 MB: the engine's `codex_exec::streams` |
//! | 21, 29 | `outcomes::a_silent_agent_is_reported_and_ended_by_its_limit` |
//! | 22 | `outcomes::stats_count_each_turn_by_its_own_usage` |
//! | 24 | `channel::an_engine_that_is_not_usable_refuses_until_it_is` |
//! | 25 | `programs::model_effort_and_sandbox_come_from_the_configuration` |
//! | 27, 42 | `crash::a_detached_turn_goes_on_and_is_reported_once`, `ends::the_end_of_the_channel_stops_the_turn` |
//! | 28, 33 | `ends::a_successor_waits_for_its_predecessor` |
//! | 30 | `turnlane_shim::log_file` (unit) |
//! | 32 | `interop::batty`, where batty is installed |
//! | 34 | `crash::random_kills_lose_and_double_nothing`, `double`; its test with a daemon is ignored |
//! | 35 | `recovery`; never taken by `codex` is ignored: it fails; `scripted`: `crash::an_unknown_outcome_blocks_or_is_retried_where_that_is_wanted` |
//! | 36 | `channel::clients_of_a_socket_are_told_what_they_missed`, `channel::a_client_that_stops_reading_slows_neither_the_lane_nor_the_others` |
//! | 38 | the lane's own: `processes::clock::a_row_with_a_time_follows_the_wall_clock_both_ways` of the runtime |
//! | 39 | `programs::a_program_that_misbehaves_has_the_right_outcome` |
//! | 40 | `disk::on_a_full_disk_a_message_is_refused_and_none_is_claimed_to_be_accepted`, ignored: it hangs |
//! | 41 | `handoff`, by the double of batty |

mod afterwards;
mod channel;
mod commands;
mod crash;
mod disk;
mod double;
mod ends;
mod engine_health;
mod handoff;
mod hostile;
mod kills;
mod leaks;
mod load;
mod outcomes;
mod programs;
mod queue;
mod receipts;
mod recovery;
mod rig;
mod succession;
mod true_receipts;
mod waits;
