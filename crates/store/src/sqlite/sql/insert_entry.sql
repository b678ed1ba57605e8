-- A number that is taken is an error: the lane gives each one once.
INSERT INTO entry(thread_id, ord, turn_ord, kind, provider, model, item_id, call_ids, items)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
