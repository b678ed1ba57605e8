-- A new queued turn; what is not named has its default.
INSERT INTO queued_turn(thread_id, id, turn_id, source, pos, state, not_before_ms, attempts,
  on_error, on_crash, on_stop, on_cannot_start, on_limit, max_attempts, backoff_base_ms,
  backoff_cap_ms, bound, dedupe, client_id, params, created_ms, updated_ms, ended_ms, content_hash,
  fence, failure)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
  ?21, ?22, ?23, ?24, ?25, ?26)
