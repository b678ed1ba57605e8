-- An item, in the order in which `rows::item` reads it.
SELECT ord, turn_ord, id, type, body, started_ms, completed_ms
FROM item
