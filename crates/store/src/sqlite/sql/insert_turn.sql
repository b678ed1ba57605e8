-- A turn, in progress or ended at once.
INSERT INTO turn(thread_id, ord, id, queued_turn_id, attempt, source, status, muted, error, usage,
  started_ms, completed_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
