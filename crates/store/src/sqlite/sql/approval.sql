-- An approval, in the order in which `rows::approval` reads it.
SELECT id, thread_id, turn_id, body, requested_ms, expires_ms, decision, decided_by, reason,
  resolved_ms
FROM approval
