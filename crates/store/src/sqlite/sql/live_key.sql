-- Continues row.sql: the row under way or waiting that a key stands for (index one_key).
WHERE thread_id = ?1 AND dedupe = ?2
  AND dedupe IS NOT NULL AND state NOT IN ('done','dead','cancelled')
