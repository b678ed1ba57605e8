-- An attempt, in the order in which `fanout::rows::attempt` reads it.
SELECT attempt, thread, turn, outcome, error_kind, error, input_tokens, cached_input_tokens,
  output_tokens, reasoning_output_tokens, total_tokens, started_ms, ended_ms
FROM fanout_attempt
