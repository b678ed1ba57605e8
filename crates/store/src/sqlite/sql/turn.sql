-- A turn, in the order in which `rows::turn` reads it.
SELECT ord, id, queued_turn_id, attempt, source, status, muted, error, usage, started_ms,
  completed_ms
FROM turn
