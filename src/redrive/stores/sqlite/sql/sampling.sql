-- name: successes_seen
-- How many successes of a task there were when one was kept last.
SELECT coalesce(max(seen), 0) FROM success WHERE task = ?

-- name: put_success
-- One that is kept, with where it ran; it takes the place of another.
INSERT INTO success (task, place, seen, at, host, release, size, payload)
SELECT ?1, ?2, ?3, ?4, coalesce(w.host, ''), w.release, ?6, ?7 FROM (SELECT 1) LEFT JOIN worker AS w ON w.id = ?5 WHERE true
ON CONFLICT DO UPDATE SET seen = excluded.seen, at = excluded.at, host = excluded.host, release = excluded.release,
  size = excluded.size, payload = excluded.payload

-- name: successes_of
-- Those that are kept of a task.
SELECT at, host, release, size, payload FROM success WHERE task = ? ORDER BY place

-- name: forget_successes
-- Those that are kept for longer than history is.
DELETE FROM success WHERE at <= ?1
