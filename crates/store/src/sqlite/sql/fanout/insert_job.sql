-- A new job; what is not named has its default.
INSERT INTO fanout_job(id, name, owner, owner_worker, parent_thread, parent_turn, client_job_id,
  instruction, schema, channel, settings, limits, options, current_limit, input_ref, export_path,
  created_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
