-- Pending items that are due, the longest first. INDEX and LOSSES are replaced by a partial index and
-- its condition.
SELECT not_before_ms, seq FROM fanout_item INDEXED BY INDEX
WHERE job = ?1 AND state = 'pending' AND LOSSES AND not_before_ms <= ?2
  AND (not_before_ms, seq) > (?3, ?4)
ORDER BY not_before_ms, seq LIMIT ?5
