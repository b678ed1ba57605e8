-- All entries of a thread, those of muted turns too, in the order in which `rows::entry` reads them.
SELECT entry.ord, entry.turn_ord, turn.id, entry.kind, entry.provider, entry.model, entry.item_id,
  entry.call_ids, entry.items
FROM entry CROSS JOIN turn ON turn.thread_id = entry.thread_id AND turn.ord = entry.turn_ord
WHERE entry.thread_id = ?1
ORDER BY entry.ord
