-- The counts of a job over all workers, in the order in which `fanout::counts` reads them.
SELECT coalesce(sum(running), 0), coalesce(sum(succeeded), 0), coalesce(sum(failed), 0),
  coalesce(sum(skipped), 0), coalesce(sum(cancelled), 0), coalesce(sum(attempts), 0),
  coalesce(sum(input_tokens), 0), coalesce(sum(cached_input_tokens), 0),
  coalesce(sum(output_tokens), 0), coalesce(sum(reasoning_output_tokens), 0),
  coalesce(sum(total_tokens), 0)
FROM fanout_count WHERE job = ?1
