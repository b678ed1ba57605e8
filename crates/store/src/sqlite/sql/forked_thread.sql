-- What was copied decides what lists show: a thread that somebody spoke on, with its first words.
UPDATE thread SET
  listed = max(listed, EXISTS (SELECT 1 FROM item
    WHERE thread_id = ?1 AND item.turn_ord > 0 AND item.type = 'userMessage')),
  preview = CASE WHEN EXISTS (SELECT 1 FROM turn WHERE thread_id = ?1) THEN preview ELSE '' END
WHERE id = ?1
