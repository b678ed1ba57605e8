-- The result of an item.
INSERT INTO fanout_result(job, seq, attempt, result, digest, reported_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
