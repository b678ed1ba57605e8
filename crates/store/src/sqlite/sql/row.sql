-- A queued turn, in the order in which `rows::row` reads it.
SELECT id, turn_id, last_turn_id, source, pos, state, not_before_ms, attempts, losses, put_backs,
  stops, continues, on_error, on_crash, on_stop, on_cannot_start, on_limit, max_attempts,
  backoff_base_ms, backoff_cap_ms, bound, dedupe, client_id, sent, sent_boot, params, failure,
  created_ms, updated_ms, ended_ms, content_hash
FROM queued_turn
