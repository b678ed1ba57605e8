-- Ends a turn that is in progress.
UPDATE turn SET status = ?3, error = ?4, usage = ?5, muted = ?6, completed_ms = ?7
WHERE thread_id = ?1 AND ord = ?2 AND status = 'inProgress'
