-- Continues job.sql: one page, the newest first. PARENT is replaced by the condition of the list of
-- one thread, or by nothing.
WHERE PARENT deleting = 0 AND (created_ms, id) < (?1, ?2)
  AND (?3 IS NULL OR state IN (SELECT value FROM json_each(?3)))
ORDER BY created_ms DESC, id DESC LIMIT ?4
