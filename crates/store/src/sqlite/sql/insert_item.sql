-- A number that is taken is an error: the lane gives each one once.
INSERT INTO item(thread_id, ord, turn_ord, id, type, body, started_ms, completed_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
