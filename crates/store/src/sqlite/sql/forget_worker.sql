-- A worker that owns nothing any more.
DELETE FROM worker
WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM lane WHERE owner = ?1 AND owner IS NOT NULL)
