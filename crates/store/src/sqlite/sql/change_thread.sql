-- What is NULL stays; the name, which may become NULL, has a flag of its own.
UPDATE thread SET settings = coalesce(?2, settings), facts = coalesce(?3, facts),
  name = CASE WHEN ?4 THEN ?5 ELSE name END, cwd = coalesce(?6, cwd),
  archived = coalesce(?7, archived), updated_ms = ?8
WHERE id = ?1
