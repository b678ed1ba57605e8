-- Continues item.sql: the last message of the agent in turn ?2.
WHERE thread_id = ?1 AND turn_ord = ?2 AND type = 'agentMessage' ORDER BY ord DESC LIMIT 1
