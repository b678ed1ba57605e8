-- Everything of a queued turn that its way changes; its fence is that of its last claim.
UPDATE queued_turn SET turn_id = ?3, last_turn_id = ?4, pos = ?5, state = ?6, not_before_ms = ?7,
  attempts = ?8, losses = ?9, put_backs = ?10, fence = coalesce(?11, fence), sent = ?12,
  failure = ?13, updated_ms = ?14, ended_ms = ?15
WHERE thread_id = ?1 AND id = ?2
