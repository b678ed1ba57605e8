-- Continues item.sql: rows that never ran have no item.
FROM fanout_row AS r
LEFT JOIN fanout_item AS i ON i.job = r.job AND i.seq = r.seq
LEFT JOIN fanout_result AS result ON result.job = r.job AND result.seq = r.seq
