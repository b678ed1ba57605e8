-- An item, in the order in which `fanout::rows::item` reads it.
SELECT r.seq, r.item_id, i.state, i.attempt, i.retries_used, i.losses, i.limit_returns, i.repairs,
  i.not_before_ms, i.thread, i.turn, i.same_thread, i.error_kind, i.error, i.dup_of, i.branch,
  i.started_ms, i.ended_ms, result.reported_ms
