-- Pending items that are due, the longest first. LOSSES is replaced by the condition of the partial
-- index.
SELECT not_before_ms, seq FROM fanout_item
WHERE job = ?1 AND state = 'pending' AND LOSSES AND not_before_ms <= ?2
  AND (not_before_ms, seq) > (?3, ?4)
ORDER BY not_before_ms, seq LIMIT ?5
