-- Items that waited when their job was cancelled. INDEX and LOSSES are replaced by a partial index and
-- its condition.
UPDATE fanout_item INDEXED BY INDEX SET state = 'cancelled', ended_ms = ?2, error_kind = ?3, error = ?4
WHERE job = ?1 AND state = 'pending' AND LOSSES
