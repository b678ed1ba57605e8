-- What becomes of a queued turn that a graceful stop of its worker cut; approvals without a limit.

ALTER TABLE queued_turn ADD COLUMN on_stop TEXT NOT NULL DEFAULT 'continue';
-- The next turn of the row goes on from the history: its message is there already.
ALTER TABLE queued_turn ADD COLUMN continues INTEGER NOT NULL DEFAULT 0
  CHECK(continues IN (0, 1));
-- How often a graceful stop cut its turn; a stop uses up no try.
ALTER TABLE queued_turn ADD COLUMN stops INTEGER NOT NULL DEFAULT 0;

-- SQLite cannot drop the NOT NULL of a column, so that the table is made anew: `expires_ms` is NULL
-- for an approval without a limit.
CREATE TABLE approval_with_or_without_limit(
  id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES thread(id) ON DELETE CASCADE,
  turn_id TEXT NOT NULL,
  body BLOB NOT NULL,
  requested_ms INTEGER NOT NULL,
  expires_ms INTEGER,
  decision TEXT,
  decided_by TEXT,
  reason TEXT,
  resolved_ms INTEGER,
  CHECK((decision IS NULL) = (resolved_ms IS NULL))
);
INSERT INTO approval_with_or_without_limit
  SELECT id, thread_id, turn_id, body, requested_ms, expires_ms, decision, decided_by, reason,
    resolved_ms
  FROM approval;
DROP TABLE approval;
ALTER TABLE approval_with_or_without_limit RENAME TO approval;
CREATE INDEX approval_thread ON approval(thread_id);
CREATE INDEX approval_open ON approval(requested_ms, id) WHERE resolved_ms IS NULL;
