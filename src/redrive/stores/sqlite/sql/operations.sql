-- name: open_operation
-- A new one; what fails from here on comes after its cut.
INSERT INTO operation (id, verb, state, query, filter, actor, reason, change, opened_at, cut)
VALUES (?, ?, 'running', ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(seq), 0) FROM failure))

-- name: operation
-- One of them.
SELECT id, verb, state, query, filter, actor, reason, change, opened_at, mark_at, mark_id, moved_at, ended_at, done, rest,
  cut
FROM operation WHERE id = ?

-- name: operations
-- The newest of them.
SELECT id, verb, state, query, filter, actor, reason, change, opened_at, mark_at, mark_id, moved_at, ended_at, done, rest
FROM operation ORDER BY id DESC LIMIT ?

-- name: operations_of_state
-- The newest in a state.
SELECT id, verb, state, query, filter, actor, reason, change, opened_at, mark_at, mark_id, moved_at, ended_at, done, rest
FROM operation WHERE state = ?1 ORDER BY id DESC LIMIT ?2

-- name: step_operation
-- It has come so far.
UPDATE operation SET mark_at = ?2, mark_id = ?3, moved_at = ?4, ended_at = ?5, done = done + ?6, rest = ?7, state = ?8
WHERE id = ?1

-- name: cancel_operation
-- It goes no further.
UPDATE operation SET state = 'cancelled', ended_at = ?2 WHERE id = ?1

-- name: add_to_part
-- So many letters of a group.
INSERT INTO operation_part (operation, fingerprint, into_group, n) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: parts_of_operation
-- What it has done to which groups.
SELECT fingerprint, n, into_group FROM operation_part WHERE operation = ? ORDER BY n DESC, fingerprint, into_group

-- name: edits_of_group
-- The edits that a group has seen, the newest first.
SELECT o.id, o.verb, o.state, o.query, o.filter, o.actor, o.reason, o.change, o.opened_at, o.mark_at, o.mark_id, o.moved_at,
  o.ended_at, o.done, o.rest, p.n
FROM operation_part AS p JOIN operation AS o ON o.id = p.operation
WHERE p.fingerprint = ?1 AND o.verb = 'edit' ORDER BY p.operation DESC LIMIT ?2

-- name: last_edits
-- The newest edit of each of these groups.
SELECT p.fingerprint, max(p.operation) FROM carray(?1) AS wanted
CROSS JOIN operation_part AS p ON p.fingerprint = wanted.value
JOIN operation AS o ON o.id = p.operation AND o.verb = 'edit' GROUP BY p.fingerprint

-- name: after_edit
-- What the letters are now that have a payload of this edit.
SELECT l.state, l.epochs > p.epoch, count(*) FROM letter_payload AS p JOIN letter AS l ON l.id = p.letter
WHERE p.operation = ?1 AND l.fingerprint = ?2 GROUP BY 1, 2

-- name: edited_by
-- The letters that have a payload of this edit, in order.
SELECT letter FROM letter_payload WHERE operation = ?1 AND letter > ?2 ORDER BY letter LIMIT ?3

-- name: letters_to_undo
-- These letters with what this edit has replaced.
SELECT l.id, l.state, l.epochs, l.task, l.queue, l.priority, l.attempts, j.seq, j.payload_version, p.version, p.epoch,
  p.payload
FROM carray(?1) AS wanted JOIN letter AS l ON l.id = wanted.value LEFT JOIN job AS j ON j.id = l.id
LEFT JOIN letter_payload AS p ON p.operation = ?2 AND p.letter = l.id

-- name: undo_job
-- The payload that it had, under the number that it had.
UPDATE job SET payload = ?2, payload_version = ?3 WHERE seq = ?1

-- name: undo_payload
-- What was replaced is there again.
DELETE FROM letter_payload WHERE letter = ?1 AND version = ?2

-- name: letters_to_move
-- These letters as they are counted in their groups.
SELECT l.id, l.state, l.fingerprint, l.failed_at, l.task, l.reason, l.type FROM carray(?1) AS wanted
JOIN letter AS l ON l.id = wanted.value

-- name: move_letter
-- It belongs to another group.
UPDATE letter SET fingerprint = ?2 WHERE id = ?1

-- name: move_failure
-- Its last failure does too.
UPDATE failure SET fingerprint = ?2, title = ?3, plain = ?4, plain_title = ?5
WHERE seq = (SELECT max(seq) FROM failure WHERE job = ?1)

-- name: join_by_moving
-- Letters that come from another group; that is no new failure, so that a closed group stays closed.
INSERT INTO letter_group (fingerprint, title, task, reason, type, count, first_seen, last_seen, sample)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (fingerprint) DO UPDATE SET count = count + excluded.count, title = excluded.title,
  first_seen = min(first_seen, excluded.first_seen), last_seen = max(last_seen, excluded.last_seen)

-- name: inherit_owner
-- Who looked after the letters goes on doing so where nobody else does.
UPDATE letter_group SET owner = coalesce(owner, (SELECT g.owner FROM letter_group AS g WHERE g.fingerprint = ?1))
WHERE fingerprint = ?2

-- name: left_behind
-- The span of the letters that a group still has; nothing when it has none.
SELECT min(first), max(last) FROM (
  SELECT min(failed_at) AS first, max(failed_at) AS last FROM letter WHERE fingerprint = ?1 AND state = 'open'
  UNION ALL
  SELECT min(failed_at), max(failed_at) FROM letter WHERE fingerprint = ?1 AND state <> 'open'
)

-- name: group_seen
-- When its letters failed.
UPDATE letter_group SET first_seen = max(first_seen, ?2), last_seen = ?3 WHERE fingerprint = ?1

-- name: notes_follow
-- What was written about a group that is empty stands with the group that has its letters.
UPDATE note SET about = ?2 WHERE about = ?1
