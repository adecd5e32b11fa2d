-- name: outline_letters
-- How many letters a filter means, in how many groups, and between which times they failed.
SELECT count(*), count(DISTINCT l.fingerprint), min(l.failed_at), max(l.failed_at) FROM letter AS l
WHERE /* condition */ 1

-- name: letters_to_dispose
-- These letters with what is left of their jobs.
SELECT l.id, l.state, l.failed_at, l.died_at, l.task, l.queue, l.priority, l.epochs, l.attempts, l.reason, l.fingerprint,
  j.seq, j.state, j.queue, j.key, l.ended_at
FROM carray(?1) AS wanted JOIN letter AS l ON l.id = wanted.value LEFT JOIN job AS j ON j.id = l.id

-- name: keep_deaths
-- When the jobs of these letters died, for the day that they are restored.
UPDATE letter SET died_at = (SELECT j.ended_at FROM job AS j WHERE j.id = letter.id)
WHERE id IN (SELECT value FROM carray(?1))

-- name: discard_dead
-- Ended on purpose; the keys are free.
UPDATE job SET state = 'discarded', end_reason = 'discarded', ended_at = ?2, keep_until = ?3
WHERE seq IN (SELECT value FROM carray(?1))

-- name: restore_jobs
-- Dead again, as they were.
UPDATE job SET state = 'dead', keep_until = NULL,
  (ended_at, end_reason) = (SELECT l.died_at, l.reason FROM letter AS l WHERE l.id = job.id)
WHERE seq IN (SELECT value FROM carray(?1))

-- name: restore_letters
-- Open again.
UPDATE letter SET state = 'open', ended_at = NULL, died_at = NULL, version = version + 1
WHERE id IN (SELECT value FROM carray(?1))

-- name: rejoin_group
-- Letters that are open again; that is no new failure.
UPDATE letter_group SET count = count + ?2 WHERE fingerprint = ?1

-- name: purge_letters
-- They are removed.
DELETE FROM letter WHERE id IN (SELECT value FROM carray(?1))

-- name: purge_done
-- The narrow rows of jobs that were finished.
DELETE FROM done WHERE id IN (SELECT value FROM carray(?1))

-- name: purge_failures
-- Every failure of these jobs.
DELETE FROM failure WHERE job IN (SELECT value FROM carray(?1)) RETURNING traceback

-- name: add_tombstone
-- An id that must not return.
INSERT INTO tombstone (id, purged_at) VALUES (?, ?) ON CONFLICT DO NOTHING
