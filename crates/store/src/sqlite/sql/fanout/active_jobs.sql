-- Continues job.sql: the jobs that a runner looks at (index fanout_job_unended).
WHERE ended_ms IS NULL AND state IN ('running','cancelling','paused') AND deleting = 0
  AND (state <> 'paused' OR resume_ms IS NOT NULL)
