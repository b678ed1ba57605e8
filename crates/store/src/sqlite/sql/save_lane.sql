-- A lane is read, changed and written back within one immediate transaction, so nobody else has
-- changed it in between.
UPDATE lane SET fence = ?2, active = ?3, owner = ?4, depth = ?5, next_pos = ?6, paused = ?7,
  waiting = ?8, revision = ?9, ready_ms = ?10
WHERE thread_id = ?1
