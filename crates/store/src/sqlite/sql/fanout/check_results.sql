-- Jobs with an item that succeeded without a result, or with a result of one that did not.
SELECT DISTINCT id
FROM fanout_job AS j JOIN fanout_item AS i ON i.job = j.no
LEFT JOIN fanout_result AS r ON r.job = i.job AND r.seq = i.seq
WHERE (i.state = 'succeeded') <> (r.seq IS NOT NULL) LIMIT ?1
