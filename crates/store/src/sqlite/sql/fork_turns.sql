-- Ended turns of ?1 up to number ?3, for ?2. Ids and numbers stay: they are the thread's own.
INSERT INTO turn(thread_id, ord, id, queued_turn_id, attempt, source, status, muted, error, usage,
  started_ms, completed_ms)
SELECT ?2, ord, id, queued_turn_id, attempt, source, status, muted, error, usage, started_ms,
  completed_ms
FROM turn WHERE thread_id = ?1 AND status <> 'inProgress' AND ord <= ?3
