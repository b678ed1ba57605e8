//! `turnlane shim` as an orchestrator runs it: the real binary behind a double of the orchestrator that was
//! written from the protocol alone.
//!
//! What the contract wants to be shown, and the test that shows it:
//!
//! | number | test |
//! | --- | --- |
//! | 1 | `queue::a_full_queue_refuses_the_new_message_and_runs_every_accepted_one` |
//! | 2 | `crash::queue_and_thread_survive_a_kill_of_the_shim` |
//! | 3 | `waits::a_quota_with_a_reset_time_ends_by_itself`, `waits::a_login_that_is_refused_keeps_what_waits_until_it_is_good`, `receipts::an_exhausted_thread_begins_none_of_the_messages_that_wait` |
//! | 4, 27 | `afterwards`: each end with a child in a session of its own, drain and detach at the end of the channel |
//! | 5 | `ends::a_shutdown_has_exited_within_its_time`, `ends::a_turn_that_ends_in_the_time_of_a_shutdown_has_its_receipts` |
//! | 6, 13, 31 | `outcomes::only_a_completed_turn_has_a_completion` |
//! | 6, 18 | `leaks::a_program_that_cannot_be_run_has_no_completion_and_the_next_message_is_served` |
//! | 6, 19 | `programs::every_outcome_of_a_program_leaves_no_zombie_and_no_descriptor`, `leaks` |
//! | 7, 9, 10 | `programs::the_errors_of_codex_are_told_by_their_kinds` |
//! | 8 | `waits::the_context_error_of_the_real_codex_exhausts_the_thread` |
//! | 9 | `outcomes::a_quota_keeps_what_waits_and_the_lane_goes_on` |
//! | 10 | `waits::a_structured_reset_time_is_told_as_its_epoch`; texts: the engine's tests of `codex_exec::texts::reset` |
//! | 11, 12 | `outcomes::a_long_answer_is_cut_at_its_beginning` |
//! | 14 | `queue::the_same_id_runs_once_until_it_fails`, `receipts::a_duplicate_of_an_old_completed_message_gets_its_completion` |
//! | 15 | `load::a_deep_queue_costs_neither_memory_nor_descriptors_nor_threads` |
//! | 16 | `load::pings_are_answered_between_the_events_of_a_turn` |
//! | 17 | `turnlane_shim::channel::connection` (unit): a panic is told to the loop, which ends with exit code 6 |
//! | 18 | `programs::messages_behind_a_failed_start_of_the_program_are_served` |
//! | 20 | `programs::a_long_prompt_does_not_wait_for_a_program_that_prints_first`; 5 MB: the engine's `codex_exec::streams` |
//! | 21, 29 | `outcomes::a_silent_agent_is_reported_and_ended_by_its_limit`, `waits::a_silent_model_is_asked_once_and_never_again` |
//! | 22 | `outcomes::stats_count_each_turn_by_its_own_usage` |
//! | 23 | `channel::pings_and_hostile_frames_are_answered_during_a_turn`, `hostile` |
//! | 24 | `channel::an_engine_that_is_not_usable_refuses_until_it_is`, `waits::an_engine_whose_program_appears_later_works_from_then_on` |
//! | 25 | `programs::model_effort_and_sandbox_come_from_the_configuration` |
//! | 26 | `ends::a_kill_ends_every_process_and_preserves_the_work`, `commands::work_is_preserved_on_request_while_no_turn_runs` |
//! | 28, 33 | `ends::a_successor_waits_for_its_predecessor`, `handoff::a_successor_goes_on_when_its_predecessor_is_killed` |
//! | 30 | `turnlane_shim::log_file` (unit) |
//! | 32 | `interop::batty`, where batty is installed |
//! | 34 | `kills`, `double` |
//! | 35 | `recovery`; `scripted`: `crash::an_unknown_outcome_blocks_or_is_retried_where_that_is_wanted` |
//! | 36 | `channel::clients_of_a_socket_are_told_what_they_missed`, `channel::a_client_that_stops_reading_slows_neither_the_lane_nor_the_others` |
//! | 37 | `outcomes::an_exhausted_thread_hands_its_queue_to_a_successor`, `succession` |
//! | 38 | the lane's own, with a clock that the test sets: `processes::clock::a_lane_that_waits_for_a_quota_wakes_at_the_wall_time_whatever_the_clock_did_before` of the runtime |
//! | 39 | `programs::a_program_that_misbehaves_has_the_right_outcome` |
//! | 40 | `disk::on_a_full_disk_a_message_is_refused_and_none_is_claimed_to_be_accepted` |
//! | 41 | `handoff`, and `double` by random moments |
//! | 42 | `crash::a_detached_turn_goes_on_and_is_reported_once` |
//! | section 10 | `commands`, `channel` |

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
