-- An approval of a turn that has ended is not open.
UPDATE approval SET decision = 'interrupt', resolved_ms = ?3
WHERE thread_id = ?1 AND turn_id = ?2 AND resolved_ms IS NULL
