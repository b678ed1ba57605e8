-- Open attempts whose turn is not the active one of their lane, or has ended. The index is named
-- because SQLite thinks that the table's key is as good, and would read all attempts of the job.
SELECT a.seq, a.attempt, a.thread, a.turn, a.earlier
FROM fanout_attempt AS a INDEXED BY fanout_attempt_open
LEFT JOIN lane ON lane.thread_id = a.thread
LEFT JOIN queued_turn AS q ON q.id = lane.active AND q.thread_id = a.thread
LEFT JOIN turn AS t ON t.thread_id = a.thread AND t.id = a.turn
WHERE a.job = ?1 AND a.ended_ms IS NULL
  AND (q.turn_id IS NULL OR q.turn_id <> a.turn OR t.status <> 'inProgress')
ORDER BY a.seq, a.attempt LIMIT ?2
