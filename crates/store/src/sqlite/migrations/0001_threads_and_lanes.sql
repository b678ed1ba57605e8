-- Workers: one row per run of a process that shares the database.
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
