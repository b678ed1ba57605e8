-- Everybody who may have left something behind: registered, owner of a lane, or waited for by a row.
SELECT id FROM worker
UNION SELECT owner FROM lane WHERE owner IS NOT NULL
UNION SELECT bound FROM queued_turn WHERE bound IS NOT NULL AND state IN ('queued','blocked')
