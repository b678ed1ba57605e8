-- User messages from turn ?2 on that no entry names. Entries are numbered in the order of their
-- turns, so those that could name one come after the last entry of an earlier turn: ?3.
SELECT item.ord, item.turn_ord, item.id, item.type, item.body, item.started_ms, item.completed_ms,
  turn.id AS turn
FROM item CROSS JOIN turn ON turn.thread_id = item.thread_id AND turn.ord = item.turn_ord
WHERE item.thread_id = ?1 AND item.type = 'userMessage' AND item.turn_ord >= ?2
  AND turn.muted = 0
  AND item.id NOT IN (SELECT item_id FROM entry
    WHERE thread_id = ?1 AND ord > ?3 AND item_id IS NOT NULL)
ORDER BY item.turn_ord, item.ord
