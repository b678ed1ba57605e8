-- Continues row.sql: the ended row that a key still stands for (index ended_key). Older rows may
-- have had the same key, hence the last one.
WHERE thread_id = ?1 AND dedupe = ?2
  AND dedupe IS NOT NULL AND state IN ('done','dead') AND ended_ms > ?3
ORDER BY ended_ms DESC LIMIT 1
