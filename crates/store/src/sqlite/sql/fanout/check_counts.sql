-- Jobs whose counts over all workers are not those of their items.
SELECT id FROM fanout_job AS j
WHERE deleting = 0 AND EXISTS (
  SELECT 1
  FROM (SELECT coalesce(sum(running), 0) AS running, coalesce(sum(succeeded), 0) AS succeeded,
      coalesce(sum(failed), 0) AS failed, coalesce(sum(skipped), 0) AS skipped
    FROM fanout_count WHERE job = j.no) AS counted,
    (SELECT count(*) FILTER (WHERE state = 'running') AS running,
      count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
      count(*) FILTER (WHERE state = 'failed') AS failed,
      count(*) FILTER (WHERE state = 'skipped') AS skipped
    FROM fanout_item WHERE job = j.no) AS found
  WHERE (counted.running, counted.succeeded, counted.failed, counted.skipped)
    <> (found.running, found.succeeded, found.failed, found.skipped))
LIMIT ?1
