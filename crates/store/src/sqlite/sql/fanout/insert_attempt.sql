-- A new attempt.
INSERT INTO fanout_attempt(job, seq, attempt, thread, turn, worker, started_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
