-- Items that waited when their job was cancelled. LOSSES is replaced by the condition of the partial
-- index.
UPDATE fanout_item SET state = 'cancelled', ended_ms = ?2, error_kind = ?3, error = ?4
WHERE job = ?1 AND state = 'pending' AND LOSSES
