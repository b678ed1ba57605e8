-- Threads with their history, lanes with their queues, and the workers that own lanes.
-- Ids are hyphenated lower-case text, times milliseconds since 1970, payloads opaque blobs.
-- Foreign keys are on; application_id and user_version are set by whoever applies this.

CREATE TABLE worker(
  id TEXT PRIMARY KEY,
  pid INTEGER NOT NULL,
  pid_start INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  host TEXT NOT NULL,
  endpoint TEXT,
  kind TEXT NOT NULL,
  started_ms INTEGER NOT NULL
);

CREATE TABLE thread(
  id TEXT PRIMARY KEY,
  engine TEXT NOT NULL,
  settings BLOB NOT NULL,
  facts BLOB NOT NULL,
  engine_state BLOB,
  usage BLOB,
  name TEXT,
  preview TEXT NOT NULL DEFAULT '',
  cwd TEXT NOT NULL,
  source TEXT NOT NULL,
  provider TEXT NOT NULL,
  parent TEXT,
  binding TEXT,
  listed INTEGER NOT NULL DEFAULT 0 CHECK(listed IN (0, 1)),
  archived INTEGER NOT NULL DEFAULT 0 CHECK(archived IN (0, 1)),
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  recency_ms INTEGER NOT NULL
);

-- One per sort key of the list of threads.
CREATE INDEX thread_created ON thread(archived, created_ms, id);
CREATE INDEX thread_updated ON thread(archived, updated_ms, id);
CREATE INDEX thread_recency ON thread(archived, recency_ms, id);

-- "Busy" is `active` of one lane, never a query over rows: a claim costs the same at any depth.
CREATE TABLE lane(
  thread_id TEXT PRIMARY KEY REFERENCES thread(id) ON DELETE CASCADE,
  fence INTEGER NOT NULL DEFAULT 0,
  active TEXT,
  owner TEXT,
  depth INTEGER NOT NULL DEFAULT 0 CHECK(depth >= 0),
  max_depth INTEGER NOT NULL DEFAULT 1000,
  next_pos INTEGER NOT NULL DEFAULT 1024,
  paused TEXT,
  waiting TEXT,
  revision INTEGER NOT NULL DEFAULT 0,
  -- NULL: nothing to claim; 0: now (never the wall clock, it may jump back); else due then.
  ready_ms INTEGER
);

CREATE INDEX lane_ready ON lane(ready_ms)
  WHERE ready_ms IS NOT NULL AND active IS NULL AND paused IS NULL;
-- Recovery, and noticing what other processes changed.
CREATE INDEX lane_owner ON lane(owner) WHERE owner IS NOT NULL;
-- Waits without an end are looked for at every start; few lanes wait at all.
CREATE INDEX lane_waiting ON lane(thread_id) WHERE waiting IS NOT NULL;

-- The keys are led by thread_id, so that deleting a thread scans nothing.
CREATE TABLE queued_turn(
  thread_id TEXT NOT NULL REFERENCES lane(thread_id) ON DELETE CASCADE,
  id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  last_turn_id TEXT,
  source TEXT NOT NULL,
  pos INTEGER,
  state TEXT NOT NULL CHECK(state IN
    ('queued','claimed','started','reconcile','blocked','done','dead','cancelled')),
  not_before_ms INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  losses INTEGER NOT NULL DEFAULT 0,
  max_attempts INTEGER NOT NULL DEFAULT 1,
  backoff_base_ms INTEGER NOT NULL DEFAULT 1000,
  backoff_cap_ms INTEGER NOT NULL DEFAULT 300000,
  on_error TEXT NOT NULL,
  on_crash TEXT NOT NULL,
  on_cannot_start TEXT NOT NULL,
  on_limit TEXT NOT NULL,
  put_backs INTEGER NOT NULL DEFAULT 0,
  bound TEXT,
  dedupe TEXT,
  content_hash BLOB NOT NULL,
  client_id TEXT NOT NULL,
  fence INTEGER NOT NULL DEFAULT 0,
  sent INTEGER NOT NULL DEFAULT 0,
  params BLOB NOT NULL,
  failure BLOB,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  -- Led by ids, which grow with time: rows that are added together to many lanes are neighbours here
  -- and share their pages. Deleting a thread goes by `one_pos`.
  PRIMARY KEY(id, thread_id),
  UNIQUE(turn_id, thread_id),
  CHECK((pos IS NOT NULL) = (state IN ('queued','blocked'))),
  CHECK((ended_ms IS NOT NULL) = (state IN ('done','dead','cancelled'))),
  CHECK(state <> 'blocked' OR failure IS NOT NULL)
);

-- At most one row of a lane is under way, whoever asks.
CREATE UNIQUE INDEX one_flight ON queued_turn(thread_id)
  WHERE state IN ('claimed','started','reconcile');
-- Also finds the head, and the rows of a thread that is deleted; only rows that wait have a position.
CREATE UNIQUE INDEX one_pos ON queued_turn(thread_id, pos);
CREATE UNIQUE INDEX one_key ON queued_turn(thread_id, dedupe)
  WHERE dedupe IS NOT NULL AND state NOT IN ('done','dead','cancelled');
CREATE INDEX ended_key ON queued_turn(thread_id, dedupe)
  WHERE dedupe IS NOT NULL AND state IN ('done','dead');
-- Pruning.
CREATE INDEX ended ON queued_turn(ended_ms) WHERE ended_ms IS NOT NULL;
-- Rows that go with their worker; few rows are bound.
CREATE INDEX bound_to ON queued_turn(bound)
  WHERE bound IS NOT NULL AND state IN ('queued','blocked');

CREATE TABLE turn(
  thread_id TEXT NOT NULL REFERENCES thread(id) ON DELETE CASCADE,
  ord INTEGER NOT NULL,
  id TEXT NOT NULL,
  queued_turn_id TEXT,
  attempt INTEGER NOT NULL,
  source TEXT NOT NULL,
  status TEXT NOT NULL CHECK(status IN ('inProgress','completed','failed','interrupted')),
  muted INTEGER NOT NULL DEFAULT 0,
  error BLOB,
  usage BLOB,
  started_ms INTEGER NOT NULL,
  completed_ms INTEGER,
  PRIMARY KEY(thread_id, ord),
  UNIQUE(thread_id, id),
  CHECK((completed_ms IS NULL) = (status = 'inProgress'))
);

CREATE TABLE item(
  thread_id TEXT NOT NULL REFERENCES thread(id) ON DELETE CASCADE,
  ord INTEGER NOT NULL,
  turn_ord INTEGER NOT NULL,
  id TEXT NOT NULL,
  type TEXT NOT NULL,
  body BLOB NOT NULL,
  started_ms INTEGER NOT NULL,
  completed_ms INTEGER NOT NULL,
  PRIMARY KEY(thread_id, ord)
);

-- The items of one turn of a long thread.
CREATE INDEX item_turn ON item(thread_id, turn_ord, ord);
CREATE INDEX item_user ON item(thread_id, turn_ord, ord) WHERE type = 'userMessage';

CREATE TABLE entry(
  thread_id TEXT NOT NULL REFERENCES thread(id) ON DELETE CASCADE,
  ord INTEGER NOT NULL,
  turn_ord INTEGER NOT NULL,
  kind TEXT NOT NULL,
  provider TEXT,
  model TEXT,
  item_id TEXT,
  call_ids TEXT,
  items BLOB NOT NULL,
  PRIMARY KEY(thread_id, ord)
);

CREATE INDEX entry_compaction ON entry(thread_id, ord) WHERE kind = 'compaction';

CREATE TABLE approval(
  id TEXT PRIMARY KEY,
  thread_id TEXT NOT NULL REFERENCES thread(id) ON DELETE CASCADE,
  turn_id TEXT NOT NULL,
  body BLOB NOT NULL,
  requested_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  decision TEXT,
  decided_by TEXT,
  reason TEXT,
  resolved_ms INTEGER,
  CHECK((decision IS NULL) = (resolved_ms IS NULL))
);

CREATE INDEX approval_thread ON approval(thread_id);
CREATE INDEX approval_open ON approval(requested_ms, id) WHERE resolved_ms IS NULL;
