-- A binding names one thread among those that are not archived. Earlier versions stored bindings
-- without checking them: of several threads with the same one, the newest keeps it.
UPDATE thread SET binding = NULL
WHERE binding IS NOT NULL AND archived = 0 AND EXISTS (
  SELECT 1 FROM thread AS later
  WHERE later.binding = thread.binding AND later.archived = 0
    AND (later.created_ms, later.id) > (thread.created_ms, thread.id));
CREATE UNIQUE INDEX one_binding ON thread(binding) WHERE binding IS NOT NULL AND archived = 0;
