-- name: notices
-- What was announced.
SELECT queue, after, but, announced_at, acts_at, letters FROM notice ORDER BY queue

-- name: withdraw_notices
-- Nothing is announced any more.
DELETE FROM notice

-- name: add_notice
-- One more.
INSERT INTO notice (queue, after, but, announced_at, acts_at, letters) VALUES (?, ?, ?, ?, ?, ?)

-- name: queues_of_ended_letters
-- The queues that have letters that are closed or discarded, each found behind the one before.
WITH RECURSIVE known (queue) AS (
  SELECT min(queue) FROM letter INDEXED BY letter_ended_of_queue WHERE ended_at IS NOT NULL AND queue >= ''
  UNION ALL
  SELECT (SELECT min(l.queue) FROM letter AS l INDEXED BY letter_ended_of_queue
    WHERE l.ended_at IS NOT NULL AND l.queue > known.queue)
  FROM known WHERE known.queue IS NOT NULL
)
SELECT queue FROM known WHERE queue IS NOT NULL

-- name: forget_letters_of_queue
-- Letters of a queue that were closed or discarded long ago.
DELETE FROM letter WHERE id IN (
  SELECT id FROM letter INDEXED BY letter_ended_of_queue
  WHERE queue = ?1 AND ended_at <= ?2 AND ended_at IS NOT NULL AND state IN ('closed', 'discarded')
  ORDER BY ended_at LIMIT ?3
) RETURNING id

-- name: redrives_over
-- Redrives that ended long ago.
SELECT id FROM redrive WHERE state IN ('finished', 'cancelled') AND ended_at <= ?1 ORDER BY id LIMIT ?2

-- name: forget_redrive
-- What it was.
DELETE FROM redrive WHERE id = ?

-- name: forget_redrive_causes
-- How its causes did.
DELETE FROM redrive_cause WHERE redrive = ?

-- name: forget_redrive_stages
-- How its stages did.
DELETE FROM redrive_stage WHERE redrive = ?

-- name: leave_items
-- Its letters follow, a share at a time.
INSERT INTO forgotten_redrive (id) VALUES (?)

-- name: forgotten_redrives
-- Those whose letters are still there.
SELECT id FROM forgotten_redrive ORDER BY id

-- name: forget_items
-- A share of them.
DELETE FROM redrive_item WHERE redrive = ?1 AND id IN (
  SELECT id FROM redrive_item WHERE redrive = ?1 ORDER BY id LIMIT ?2
) RETURNING id

-- name: items_forgotten
-- Nothing is left of it.
DELETE FROM forgotten_redrive WHERE id = ?

-- name: seal_to_forget
-- The first seal whose entries are all there, when the last of them was written, and the number of the first.
SELECT s.number, coalesce((SELECT j.at FROM journal AS j WHERE j.seq = s.upto), s.at),
  coalesce((SELECT min(j.seq) FROM journal AS j WHERE j.seal = s.number), 0)
FROM seal AS s WHERE s.forgotten_at IS NULL ORDER BY s.number LIMIT 1

-- name: forget_seal
-- Its entries are to be forgotten; it stays.
UPDATE seal SET forgotten_at = ?2 WHERE number = ?1

-- name: reach_of_entries
-- How far the oldest entries go.
SELECT coalesce(max(seq), 0) FROM (SELECT j.seq FROM journal AS j WHERE j.seq > 0 ORDER BY j.seq LIMIT ?1)

-- name: first_entries
-- The oldest entries, and which of them may go.
SELECT j.seq, j.at, j.actor IS NULL OR EXISTS (
  SELECT 1 FROM seal AS s WHERE s.number = j.seal AND s.forgotten_at IS NOT NULL
) FROM journal AS j WHERE j.seq > 0 ORDER BY j.seq LIMIT ?1

-- name: forget_entries
-- These go.
DELETE FROM journal WHERE seq IN (SELECT value FROM carray(?1))
