-- The first decision stays.
UPDATE approval SET decision = ?3, decided_by = ?4, reason = ?5, resolved_ms = ?6
WHERE id = ?1 AND thread_id = ?2 AND resolved_ms IS NULL
