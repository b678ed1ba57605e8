-- How far an import has come.
UPDATE fanout_job SET input_offset = ?2, input_hash = ?3, blank_rows = ?4, notes = ?5,
  columns = ?6, total = total + ?7
WHERE no = ?1
