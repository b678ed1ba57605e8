-- A new thread. A fork brings its usage and preview along.
INSERT INTO thread(id, engine, settings, facts, name, cwd, source, provider, parent, binding,
  listed, created_ms, updated_ms, recency_ms, usage, preview)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12, ?12, ?13, ?14)
