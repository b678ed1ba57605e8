-- The usage of all attempts of an item.
SELECT coalesce(sum(input_tokens), 0), coalesce(sum(cached_input_tokens), 0),
  coalesce(sum(output_tokens), 0), coalesce(sum(reasoning_output_tokens), 0),
  coalesce(sum(total_tokens), 0)
FROM fanout_attempt WHERE job = ?1 AND seq = ?2
