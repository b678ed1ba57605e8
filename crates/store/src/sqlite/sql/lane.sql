-- A lane, in the order in which `Lane::find` reads it.
SELECT lane.thread_id, fence, active, owner, depth, max_depth, next_pos, paused, waiting, revision,
  ready_ms, thread.archived
FROM lane JOIN thread ON thread.id = lane.thread_id
WHERE lane.thread_id = ?1
