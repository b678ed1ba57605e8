-- Continues job.sql: the jobs with attempts that are not closed, which are as many as items run.
WHERE deleting = 0 AND no IN (
  SELECT job FROM fanout_attempt INDEXED BY fanout_attempt_open WHERE ended_ms IS NULL)
