-- An item as it is from now on; its worker stays where none is named.
INSERT INTO fanout_item(job, seq, state, attempt, retries_used, losses, limit_returns, repairs,
  not_before_ms, thread, turn, same_thread, worker, error_kind, error, dup_of, branch, started_ms,
  ended_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
ON CONFLICT(job, seq) DO UPDATE SET state = excluded.state, attempt = excluded.attempt,
  retries_used = excluded.retries_used, losses = excluded.losses,
  limit_returns = excluded.limit_returns, repairs = excluded.repairs,
  not_before_ms = excluded.not_before_ms, thread = excluded.thread, turn = excluded.turn,
  same_thread = excluded.same_thread, worker = coalesce(excluded.worker, worker),
  error_kind = excluded.error_kind, error = excluded.error, dup_of = excluded.dup_of,
  branch = excluded.branch, started_ms = excluded.started_ms, ended_ms = excluded.ended_ms
