-- What a turn that begins changes of its thread; the first preview stays.
UPDATE thread SET settings = coalesce(?2, settings), cwd = coalesce(?3, cwd),
  preview = CASE WHEN preview = '' THEN coalesce(?4, '') ELSE preview END,
  listed = max(listed, ?5), updated_ms = ?6, recency_ms = ?6
WHERE id = ?1
