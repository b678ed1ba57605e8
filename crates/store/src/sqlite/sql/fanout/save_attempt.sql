-- An attempt as it is from now on.
UPDATE fanout_attempt SET turn = ?4, outcome = ?5, error_kind = ?6, error = ?7, input_tokens = ?8,
  cached_input_tokens = ?9, output_tokens = ?10, reasoning_output_tokens = ?11, total_tokens = ?12,
  ended_ms = ?13
WHERE job = ?1 AND seq = ?2 AND attempt = ?3
