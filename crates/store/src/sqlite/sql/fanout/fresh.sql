-- The next rows that no claim has looked at, with the state of those that are items already.
SELECT r.seq, r.item_id, r.cells, i.state
FROM fanout_row AS r LEFT JOIN fanout_item AS i ON i.job = r.job AND i.seq = r.seq
WHERE r.job = ?1 AND r.seq >= ?2 ORDER BY r.seq LIMIT ?3
