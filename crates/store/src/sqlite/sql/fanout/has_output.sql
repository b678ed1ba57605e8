-- Whether a turn has produced an item, or an entry of the model, of which the item may be missing.
SELECT EXISTS (SELECT 1 FROM item
    WHERE thread_id = ?1 AND turn_ord = ?2 AND type <> 'userMessage')
  OR EXISTS (SELECT 1 FROM entry
    WHERE thread_id = ?1 AND turn_ord = ?2 AND kind IN ('output','toolOutput','compaction'))
