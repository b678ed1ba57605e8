-- Continues item.sql: its cells, and its result or that of the row it duplicates.
, r.cells, coalesce(result.result, (SELECT other.result FROM fanout_result AS other
    WHERE other.job = r.job AND other.seq = i.dup_of))
