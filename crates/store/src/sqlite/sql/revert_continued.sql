-- A row whose cut turn is taken back has its message in the history no more: it is an ordinary one.
UPDATE queued_turn SET continues = 0
WHERE thread_id = ?1 AND pos IS NOT NULL AND continues = 1 AND EXISTS (
  SELECT 1 FROM turn
  WHERE turn.thread_id = ?1 AND turn.id = queued_turn.last_turn_id AND turn.ord >= ?2)
