-- The lanes that do something (index lane_doing), each counted by the first line that fits it; the rest
-- of all lanes, which are counted without being read, is idle.
SELECT
  count(*) FILTER (WHERE doing = 'running'),
  count(*) FILTER (WHERE doing = 'paused'),
  count(*) FILTER (WHERE doing = 'waiting'),
  count(*) FILTER (WHERE doing = 'queued'),
  count(*) FILTER (WHERE doing = 'held'),
  (SELECT count(*) FROM lane) - count(*),
  coalesce(sum(depth), 0)
FROM (
  SELECT depth, CASE
    WHEN active IS NOT NULL THEN 'running'
    WHEN paused IS NOT NULL THEN 'paused'
    WHEN waiting IS NOT NULL THEN 'waiting'
    WHEN 'blocked' = (
      SELECT state FROM queued_turn
      WHERE queued_turn.thread_id = lane.thread_id AND pos IS NOT NULL
      ORDER BY pos LIMIT 1
    ) THEN 'held'
    ELSE 'queued'
  END AS doing
  FROM lane INDEXED BY lane_doing
  WHERE coalesce(active, paused, waiting) IS NOT NULL OR depth > 0
)
