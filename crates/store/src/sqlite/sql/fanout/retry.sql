-- Ended items wait again; a retry uses a new thread. An item that has lost two workers still runs
-- alone. STATE is replaced by the word, which finds the partial index.
UPDATE fanout_item INDEXED BY fanout_item_STATE SET state = 'pending', ended_ms = NULL, retries_used = 0, limit_returns = 0,
  losses = min(losses, 2), not_before_ms = ?2, same_thread = 0, error_kind = NULL, error = NULL
WHERE job = ?1 AND state = 'STATE'
