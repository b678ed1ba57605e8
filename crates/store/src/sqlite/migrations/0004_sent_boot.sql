-- The boot of the machine in which a queued turn was handed to a foreign engine. After another boot a turn
-- that is absent from that engine's history may still have run: the history may not have been synced.
ALTER TABLE queued_turn ADD COLUMN sent_boot TEXT;
