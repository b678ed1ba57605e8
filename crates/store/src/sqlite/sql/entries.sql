-- What the model is sent, from number ?2 on: one range of the primary key.
SELECT entry.ord, entry.turn_ord, turn.id, entry.kind, entry.provider, entry.model, entry.item_id,
  entry.call_ids, entry.items
FROM entry CROSS JOIN turn ON turn.thread_id = entry.thread_id AND turn.ord = entry.turn_ord
WHERE entry.thread_id = ?1 AND entry.ord >= ?2 AND turn.muted = 0
ORDER BY entry.ord
