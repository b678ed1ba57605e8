-- The entry that replaces everything before it. One of a muted turn is not part of what the model
-- is sent, so it replaces nothing.
SELECT entry.ord, entry.turn_ord
FROM entry CROSS JOIN turn ON turn.thread_id = entry.thread_id AND turn.ord = entry.turn_ord
WHERE entry.thread_id = ?1 AND entry.kind = 'compaction' AND turn.muted = 0
ORDER BY entry.ord DESC LIMIT 1
