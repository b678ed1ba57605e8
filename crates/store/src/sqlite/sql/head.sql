-- The head without its payload, found by the index one_pos at any depth.
SELECT id, state, not_before_ms, bound, failure
FROM queued_turn
WHERE thread_id = ?1 AND state IN ('queued','blocked') AND pos IS NOT NULL
ORDER BY pos LIMIT 1
