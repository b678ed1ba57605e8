-- Continues item.sql: items that run or have failed. STATE is replaced by the word, which finds the
-- partial index.
FROM fanout_item AS i
JOIN fanout_row AS r ON r.job = i.job AND r.seq = i.seq
LEFT JOIN fanout_result AS result ON result.job = i.job AND result.seq = i.seq
WHERE i.job = ?1 AND i.seq >= ?2 AND i.state = 'STATE' ORDER BY i.seq LIMIT ?3
