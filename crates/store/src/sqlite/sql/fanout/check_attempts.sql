-- Jobs with an item that runs without an open attempt.
SELECT DISTINCT id
FROM fanout_job AS j JOIN fanout_item AS i ON i.job = j.no
WHERE i.state = 'running' AND NOT EXISTS (
  SELECT 1 FROM fanout_attempt AS a
  WHERE a.job = i.job AND a.seq = i.seq AND a.attempt = i.attempt AND a.ended_ms IS NULL)
LIMIT ?1
