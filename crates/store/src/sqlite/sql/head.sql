-- The head without its payload, found by the index one_pos at any depth.
SELECT id, state, not_before_ms, bound, failure
FROM queued_turn
WHERE thread_id = ?1 AND state IN ('queued','blocked')
ORDER BY pos LIMIT 1
