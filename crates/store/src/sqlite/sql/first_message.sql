-- Continues item.sql: what the user said first in turn ?2.
WHERE thread_id = ?1 AND turn_ord = ?2 AND type = 'userMessage' ORDER BY ord LIMIT 1
