-- When the next lane becomes due.
SELECT min(ready_ms) FROM lane
WHERE ready_ms IS NOT NULL AND active IS NULL AND paused IS NULL AND ready_ms > ?1
