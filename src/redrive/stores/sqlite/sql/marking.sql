-- name: closed_among
-- Which of these groups are closed, and in which release.
SELECT g.fingerprint, g.closed_in FROM carray(?1) AS wanted
JOIN letter_group AS g ON g.fingerprint = wanted.value WHERE g.state = 'closed'

-- name: reopen_group
-- A closed group is open again without a new letter.
UPDATE letter_group SET state = 'reopened' WHERE fingerprint = ?1

-- name: groups_like
-- The groups whose names lie between these two, each with an open letter as its sample, if it has one.
SELECT g.fingerprint, g.title, g.task, g.reason, g.type, g.count, g.first_seen, g.last_seen,
  coalesce(
    (SELECT l.id FROM letter AS l WHERE l.id = g.sample AND l.state = 'open' AND l.fingerprint = g.fingerprint),
    (SELECT l.id FROM letter AS l WHERE l.state = 'open' AND l.fingerprint = g.fingerprint
      ORDER BY l.failed_at DESC, l.id DESC LIMIT 1),
    g.sample),
  g.state, g.owner, g.muted_until, g.closed_in
FROM letter_group AS g WHERE g.fingerprint >= ?1 AND g.fingerprint < ?2 ORDER BY g.fingerprint LIMIT ?3

-- name: groups_there
-- Which of these groups there are, and of which task.
SELECT g.fingerprint, g.task FROM carray(?1) AS wanted JOIN letter_group AS g ON g.fingerprint = wanted.value

-- name: letters_there
-- Which of these letters there are, as the journal names them.
SELECT l.id, l.task, l.queue, l.epochs, l.attempts FROM carray(?1) AS wanted JOIN letter AS l ON l.id = wanted.value

-- name: mark_groups
-- Another state of these groups.
UPDATE letter_group SET state = ?2, muted_until = ?3, closed_in = ?4 WHERE fingerprint IN (SELECT value FROM carray(?1))

-- name: assign_groups
-- Somebody looks after these groups, or nobody does.
UPDATE letter_group SET owner = ?2 WHERE fingerprint IN (SELECT value FROM carray(?1))

-- name: assign_letters
-- Somebody looks after these letters, or nobody but who looks after their groups.
UPDATE letter SET owner = ?2 WHERE id IN (SELECT value FROM carray(?1))

-- name: add_note
-- What somebody wrote about a group or a letter.
INSERT INTO note (about, at, actor, text) VALUES (?, ?, ?, ?)

-- name: notes_of_letter
-- What was written about a letter and about its group, oldest first.
SELECT at, actor, text, about = ?2 FROM note WHERE about IN (?1, ?2) ORDER BY seq

-- name: notes_of_group
-- What was written about a group, oldest first.
SELECT at, actor, text FROM note WHERE about = ? ORDER BY seq

-- name: forget_notes
-- What was written about letters that are forgotten.
DELETE FROM note WHERE about IN (SELECT value FROM carray(?1))
