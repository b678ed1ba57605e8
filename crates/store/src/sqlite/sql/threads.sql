-- Continues thread.sql: one page of one class. CLASS, KEY, BEYOND and WAY are replaced by the condition
-- of the class, the column, the comparison and the direction, which makes 24 texts in all; each walks
-- its own index, but for the threads of items, which have one by their creation only. Searching is done
-- by the caller, because SQLite folds the case of ASCII letters only.
WHERE CLASS AND archived = ?1 AND listed = 1
  AND (KEY, id) BEYOND (?2, ?3)
  AND (?4 IS NULL OR source IN (SELECT value FROM json_each(?4)))
  AND (?5 IS NULL OR provider IN (SELECT value FROM json_each(?5)))
  AND (?6 IS NULL OR cwd IN (SELECT value FROM json_each(?6)))
  AND (?7 IS NULL OR parent = ?7)
  AND (?8 IS NULL OR source NOT IN (SELECT value FROM json_each(?8)))
  AND (?9 IS NULL OR id NOT IN (SELECT value FROM json_each(?9)))
ORDER BY KEY WAY, id WAY
