-- The threads of a range of rows.
SELECT DISTINCT thread FROM fanout_attempt WHERE job = ?1 AND seq BETWEEN ?2 AND ?3
