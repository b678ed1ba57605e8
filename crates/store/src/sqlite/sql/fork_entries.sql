-- The entries of the turns that ?2 has got from ?1.
INSERT INTO entry(thread_id, ord, turn_ord, kind, provider, model, item_id, call_ids, items)
SELECT ?2, ord, turn_ord, kind, provider, model, item_id, call_ids, items
FROM entry WHERE thread_id = ?1 AND turn_ord IN (SELECT ord FROM turn WHERE thread_id = ?2)
