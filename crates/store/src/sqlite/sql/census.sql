-- All lanes, each counted by the first line that fits it. The one query that reads a whole table: an
-- index that could answer it would be written at every add.
SELECT
  count(*) FILTER (WHERE doing = 'running'),
  count(*) FILTER (WHERE doing = 'paused'),
  count(*) FILTER (WHERE doing = 'waiting'),
  count(*) FILTER (WHERE doing = 'queued'),
  count(*) FILTER (WHERE doing = 'held'),
  count(*) FILTER (WHERE doing = 'idle'),
  coalesce(sum(depth), 0)
FROM (
  SELECT depth, CASE
    WHEN active IS NOT NULL THEN 'running'
    WHEN paused IS NOT NULL THEN 'paused'
    WHEN waiting IS NOT NULL THEN 'waiting'
    WHEN depth = 0 THEN 'idle'
    WHEN 'blocked' = (
      SELECT state FROM queued_turn
      WHERE queued_turn.thread_id = lane.thread_id AND pos IS NOT NULL
      ORDER BY pos LIMIT 1
    ) THEN 'held'
    ELSE 'queued'
  END AS doing
  FROM lane
)
