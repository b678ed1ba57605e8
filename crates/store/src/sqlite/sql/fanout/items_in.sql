-- Continues item.sql: items that run or have failed. STATE is replaced by the word, which finds the
-- partial index: SQLite would take the table's key, and so read all items of the job.
FROM fanout_item AS i INDEXED BY fanout_item_STATE
JOIN fanout_row AS r ON r.job = i.job AND r.seq = i.seq
LEFT JOIN fanout_result AS result ON result.job = i.job AND result.seq = i.seq
WHERE i.job = ?1 AND i.seq >= ?2 AND i.state = 'STATE' ORDER BY i.seq LIMIT ?3
