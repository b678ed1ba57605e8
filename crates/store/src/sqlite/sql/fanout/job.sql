-- A job, in the order in which `fanout::rows::job` reads it.
SELECT no, id, name, owner, owner_worker, parent_thread, parent_turn, client_job_id, instruction,
  schema, channel, settings, limits, options, current_limit, input_ref, export_path, created_ms,
  state, reason, reason_message, resume_ms, fingerprint, version, cancel_asked, deleting, columns,
  input_offset, input_hash, blank_rows, notes, total, next_seq, export_error, export_digest,
  export_next, started_ms, ended_ms, fresh_cancelled, base_finished, base_failed, stop_ms,
  export_worker, cancelled_ms
FROM fanout_job
