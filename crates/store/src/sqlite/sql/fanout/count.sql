-- Adds to the counts of one worker.
INSERT INTO fanout_count(job, worker, running, succeeded, failed, skipped, cancelled, attempts,
  input_tokens, cached_input_tokens, output_tokens, reasoning_output_tokens, total_tokens)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT(job, worker) DO UPDATE SET running = running + excluded.running,
  succeeded = succeeded + excluded.succeeded, failed = failed + excluded.failed,
  skipped = skipped + excluded.skipped, cancelled = cancelled + excluded.cancelled,
  attempts = attempts + excluded.attempts, input_tokens = input_tokens + excluded.input_tokens,
  cached_input_tokens = cached_input_tokens + excluded.cached_input_tokens,
  output_tokens = output_tokens + excluded.output_tokens,
  reasoning_output_tokens = reasoning_output_tokens + excluded.reasoning_output_tokens,
  total_tokens = total_tokens + excluded.total_tokens
