-- A thread, in the order in which `rows::thread` reads it.
SELECT id, engine, settings, facts, engine_state, usage, name, preview, cwd, source, provider,
  parent, binding, archived, created_ms, updated_ms, recency_ms
FROM thread
