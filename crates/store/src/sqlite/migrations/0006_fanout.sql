-- Fan-out jobs, their rows, items, attempts and results; lists of threads and the census without the
-- threads of items. Jobs have a number beside their id, so that a million rows do not repeat 36
-- characters; AUTOINCREMENT never gives the number of a deleted job to another one.

CREATE TABLE fanout_job(
  no INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  name TEXT,
  owner TEXT NOT NULL CHECK(owner IN ('detached','connection','turn')),
  owner_worker TEXT,
  parent_thread TEXT,
  parent_turn TEXT,
  client_job_id TEXT UNIQUE,
  instruction TEXT NOT NULL,
  schema BLOB,
  channel TEXT NOT NULL,
  settings BLOB NOT NULL,
  limits BLOB NOT NULL,
  options BLOB NOT NULL,
  current_limit INTEGER NOT NULL CHECK(current_limit >= 0),
  input_ref BLOB,
  export_path TEXT,
  created_ms INTEGER NOT NULL,
  state TEXT NOT NULL DEFAULT 'importing' CHECK(state IN ('importing','ready','running','paused',
    'cancelling','succeeded','finishedWithFailures','cancelled','failed')),
  reason TEXT,
  reason_message TEXT,
  resume_ms INTEGER,
  fingerprint BLOB,
  version INTEGER NOT NULL DEFAULT 1,
  -- From here on everything that waits counts as cancelled, without a write of a row.
  cancel_asked INTEGER NOT NULL DEFAULT 0 CHECK(cancel_asked IN (0, 1)),
  -- Rows that never ran are cancelled and counted as such: the job was cancelled, then only some of
  -- its items were retried.
  fresh_cancelled INTEGER NOT NULL DEFAULT 0 CHECK(fresh_cancelled IN (0, 1)),
  deleting INTEGER NOT NULL DEFAULT 0 CHECK(deleting IN (0, 1)),
  columns BLOB NOT NULL DEFAULT x'5b5d',
  input_offset INTEGER NOT NULL DEFAULT 0,
  input_hash BLOB NOT NULL DEFAULT (zeroblob(32)),
  blank_rows INTEGER NOT NULL DEFAULT 0,
  notes BLOB NOT NULL DEFAULT x'7b7d',
  total INTEGER NOT NULL DEFAULT 0,
  next_seq INTEGER NOT NULL DEFAULT 0,
  export_error TEXT,
  export_digest BLOB,
  -- Counts at the last start: the streak of the breaker is what was counted since.
  base_finished INTEGER NOT NULL DEFAULT 0,
  base_failed INTEGER NOT NULL DEFAULT 0,
  started_ms INTEGER,
  ended_ms INTEGER,
  CHECK((ended_ms IS NOT NULL) =
    (state IN ('succeeded','finishedWithFailures','cancelled','failed')))
);

CREATE INDEX fanout_job_list ON fanout_job(created_ms, id);
CREATE INDEX fanout_job_parent ON fanout_job(parent_thread, created_ms, id)
  WHERE parent_thread IS NOT NULL;
-- Jobs that a runner looks at are few; ended ones are many.
CREATE INDEX fanout_job_unended ON fanout_job(state)
  WHERE ended_ms IS NULL;
CREATE INDEX fanout_job_same ON fanout_job(fingerprint, no) WHERE fingerprint IS NOT NULL;
CREATE INDEX fanout_job_deleting ON fanout_job(no) WHERE deleting = 1;

-- Written once, never changed. Cells are a JSON array in column order, or an object.
CREATE TABLE fanout_row(
  job INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  item_id TEXT,
  cells BLOB NOT NULL,
  PRIMARY KEY(job, seq)
) WITHOUT ROWID;

CREATE UNIQUE INDEX fanout_row_id ON fanout_row(job, item_id) WHERE item_id IS NOT NULL;

-- From the first claim on, or skipped by the import.
CREATE TABLE fanout_item(
  job INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL CHECK(state IN
    ('pending','running','succeeded','failed','skipped','cancelled')),
  attempt INTEGER NOT NULL,
  retries_used INTEGER NOT NULL,
  losses INTEGER NOT NULL,
  limit_returns INTEGER NOT NULL,
  repairs INTEGER NOT NULL,
  not_before_ms INTEGER NOT NULL,
  thread TEXT,
  turn TEXT,
  same_thread INTEGER NOT NULL CHECK(same_thread IN (0, 1)),
  worker TEXT,
  error_kind TEXT,
  error TEXT,
  dup_of INTEGER,
  branch BLOB,
  started_ms INTEGER,
  ended_ms INTEGER,
  PRIMARY KEY(job, seq),
  CHECK((ended_ms IS NULL) = (state IN ('pending','running'))),
  CHECK(state <> 'running' OR (attempt > 0 AND thread IS NOT NULL AND turn IS NOT NULL)),
  CHECK((error_kind IS NULL) = (error IS NULL))
) WITHOUT ROWID;

-- Items that may run beside others, and those that have lost two workers and run alone.
CREATE INDEX fanout_item_due ON fanout_item(job, not_before_ms, seq)
  WHERE state = 'pending' AND losses < 2;
CREATE INDEX fanout_item_alone ON fanout_item(job, not_before_ms, seq)
  WHERE state = 'pending' AND losses >= 2;
CREATE INDEX fanout_item_running ON fanout_item(job, seq) WHERE state = 'running';
CREATE INDEX fanout_item_failed ON fanout_item(job, seq) WHERE state = 'failed';
CREATE INDEX fanout_item_cancelled ON fanout_item(job, seq) WHERE state = 'cancelled';

CREATE TABLE fanout_attempt(
  job INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  thread TEXT NOT NULL,
  turn TEXT NOT NULL,
  worker TEXT NOT NULL,
  outcome TEXT CHECK(outcome IN ('reported','failed','lost','superseded','interrupted')),
  error_kind TEXT,
  error TEXT,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  cached_input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_output_tokens INTEGER NOT NULL DEFAULT 0,
  total_tokens INTEGER NOT NULL DEFAULT 0,
  -- Usage of the turns before a repair turn, as a JSON array of the five numbers.
  earlier TEXT,
  started_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  PRIMARY KEY(job, seq, attempt),
  CHECK(ended_ms IS NULL OR outcome IS NOT NULL)
) WITHOUT ROWID;

-- Attempts that are not closed: as many as items run.
CREATE INDEX fanout_attempt_open ON fanout_attempt(job, seq, attempt) WHERE ended_ms IS NULL;

-- The key is the rule that a result is recorded once.
CREATE TABLE fanout_result(
  job INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  result BLOB NOT NULL,
  digest BLOB NOT NULL,
  reported_ms INTEGER NOT NULL,
  PRIMARY KEY(job, seq)
) WITHOUT ROWID;

-- One row per worker, so that workers do not wait for each other. A worker that settles an item of
-- another one counts it down here: only sums mean something.
CREATE TABLE fanout_count(
  job INTEGER NOT NULL,
  worker TEXT NOT NULL,
  running INTEGER NOT NULL,
  succeeded INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  cached_input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  reasoning_output_tokens INTEGER NOT NULL,
  total_tokens INTEGER NOT NULL,
  PRIMARY KEY(job, worker)
) WITHOUT ROWID;

-- Lists of threads leave out the threads of items unless they are asked for. Those have one index, by
-- the time that never changes, so that a turn of an item writes none.
DROP INDEX thread_created;
DROP INDEX thread_updated;
DROP INDEX thread_recency;
CREATE INDEX thread_created ON thread(archived, created_ms, id) WHERE source <> 'subAgentOther';
CREATE INDEX thread_updated ON thread(archived, updated_ms, id) WHERE source <> 'subAgentOther';
CREATE INDEX thread_recency ON thread(archived, recency_ms, id) WHERE source <> 'subAgentOther';
CREATE INDEX thread_of_item ON thread(archived, created_ms, id) WHERE source = 'subAgentOther';

-- Lanes that do something; the rest of them is idle. The condition is written so that no query for
-- waiting lanes alone takes this longer index.
CREATE INDEX lane_doing ON lane(thread_id)
  WHERE coalesce(active, paused, waiting) IS NOT NULL OR depth > 0;
