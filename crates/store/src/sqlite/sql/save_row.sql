-- Everything of a queued turn that its way changes; its fence is that of its last claim.
UPDATE queued_turn SET turn_id = ?3, last_turn_id = ?4, pos = ?5, state = ?6, not_before_ms = ?7,
  attempts = ?8, losses = ?9, put_backs = ?10, stops = ?11, continues = ?12,
  fence = coalesce(?13, fence), sent = ?14, failure = ?15, updated_ms = ?16, ended_ms = ?17,
  sent_boot = ?18
WHERE thread_id = ?1 AND id = ?2
