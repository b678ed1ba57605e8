-- What a change of its state has changed of a job.
UPDATE fanout_job SET state = ?2, reason = ?3, reason_message = ?4, resume_ms = ?5,
  fingerprint = ?6, version = ?7, cancel_asked = ?8, fresh_cancelled = ?9, owner = ?10,
  owner_worker = ?11, instruction = ?12, base_finished = ?13, base_failed = ?14, started_ms = ?15,
  ended_ms = ?16, cancelled_ms = ?17, stop_ms = ?18
WHERE no = ?1
