-- The rows that ended first, found by the index `ended`; only ended rows have that time.
DELETE FROM queued_turn WHERE rowid IN (
  SELECT rowid FROM queued_turn WHERE ended_ms IS NOT NULL AND ended_ms < ?1
  ORDER BY ended_ms LIMIT 1000)
