-- The items of the turns that ?2 has got from ?1.
INSERT INTO item(thread_id, ord, turn_ord, id, type, body, started_ms, completed_ms)
SELECT ?2, ord, turn_ord, id, type, body, started_ms, completed_ms
FROM item WHERE thread_id = ?1 AND turn_ord IN (SELECT ord FROM turn WHERE thread_id = ?2)
