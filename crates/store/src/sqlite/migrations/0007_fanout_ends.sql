-- The worker that writes the file of a job: one at a time, until it is done or dead.
ALTER TABLE fanout_job ADD COLUMN export_worker TEXT;
-- The digest of a file that is whole and may have its name already: a worker that dies before it says
-- so leaves a file that the next export still takes for the job's own.
ALTER TABLE fanout_job ADD COLUMN export_next BLOB;
-- The time at which the end of a job was requested; rows that never ran were cancelled then.
ALTER TABLE fanout_job ADD COLUMN cancelled_ms INTEGER;
-- The time at which the running items of a paused job are interrupted. It is stored because every worker
-- that runs items of the job has to see it.
ALTER TABLE fanout_job ADD COLUMN stop_ms INTEGER;
