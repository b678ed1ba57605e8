-- Finds the thread that has a name. Not unique: earlier versions let two threads share a name, and such
-- databases stay readable. New names are checked in the transaction that writes them.
CREATE INDEX thread_name ON thread(name) WHERE name IS NOT NULL AND archived = 0;
