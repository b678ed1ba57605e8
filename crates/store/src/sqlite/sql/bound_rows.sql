-- Rows that wait for one worker.
SELECT thread_id, id FROM queued_turn
WHERE bound = ?1 AND bound IS NOT NULL AND state IN ('queued','blocked')
