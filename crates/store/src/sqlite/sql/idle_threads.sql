-- Threads that nothing happened on since a time, of which nothing waits, runs or asks. CLASS is replaced
-- by a condition that finds an index.
SELECT thread.id, thread.name, thread.archived, max(thread.updated_ms, thread.recency_ms)
FROM thread JOIN lane ON lane.thread_id = thread.id
WHERE CLASS AND thread.archived IN (1, ?2) AND thread.updated_ms < ?1 AND thread.recency_ms < ?1
  AND lane.active IS NULL AND lane.depth = 0
  AND NOT EXISTS (SELECT 1 FROM approval
    WHERE approval.thread_id = thread.id AND approval.resolved_ms IS NULL)
  AND (?3 IS NULL OR thread.id = ?3)
ORDER BY thread.updated_ms LIMIT ?4
