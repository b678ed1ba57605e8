-- The turn of entry ?2, if the model is sent it.
SELECT turn.id
FROM entry CROSS JOIN turn ON turn.thread_id = entry.thread_id AND turn.ord = entry.turn_ord
WHERE entry.thread_id = ?1 AND entry.ord = ?2 AND turn.muted = 0
