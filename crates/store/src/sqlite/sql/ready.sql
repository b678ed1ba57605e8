-- Lanes worth a claim, in the order of the index lane_ready. CROSS keeps SQLite from going through
-- all threads first, here and in the queries over entries and items.
SELECT lane.thread_id
FROM lane CROSS JOIN thread ON thread.id = lane.thread_id
WHERE ready_ms IS NOT NULL AND active IS NULL AND paused IS NULL
  AND ready_ms <= ?1 AND (owner IS NULL OR owner = ?2) AND thread.archived = 0
ORDER BY ready_ms, lane.rowid LIMIT ?3
