-- Other workers whose death would leave something to do: a lane with work, or with a row under way.
SELECT DISTINCT owner FROM lane
WHERE owner IS NOT NULL AND owner <> ?1
  AND (active IS NOT NULL OR (ready_ms <= ?2 AND paused IS NULL))
ORDER BY owner
