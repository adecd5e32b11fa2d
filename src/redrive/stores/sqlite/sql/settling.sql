-- name: drop_jobs
-- The rows of finished jobs go.
DELETE FROM job WHERE seq IN (SELECT value FROM carray(?))

-- name: add_done
-- The narrow row that a finished job leaves.
INSERT INTO done (id, task, queue, ended_at, keep_until, attempts, epoch, duration, key, result)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: put_back
-- Back in line, or aside until its time.
UPDATE job SET state = ?2, due_at = ?3, attempts = attempts + ?4, crashes = crashes + ?5, losses = losses + ?6,
  suspect = ?7, unknown_since = CASE WHEN ?8 IS NULL THEN NULL ELSE coalesce(unknown_since, ?8) END,
  last_error = coalesce(?9, last_error), worker = NULL, lease_until = NULL, lease_boot = NULL
WHERE seq = ?1

-- name: bury
-- Given up on.
UPDATE job SET state = 'dead', attempts = attempts + ?2, crashes = crashes + ?3, losses = losses + ?4, suspect = 0,
  unknown_since = NULL, last_error = ?5, ended_at = ?6, end_reason = ?7,
  worker = NULL, lease_until = NULL, lease_boot = NULL
WHERE seq = ?1

-- name: discard
-- Ended on purpose; the key is free.
UPDATE job SET state = 'discarded', end_reason = ?2, ended_at = ?3, keep_until = ?4, unknown_since = NULL,
  worker = NULL, lease_until = NULL, lease_boot = NULL
WHERE seq = ?1

-- name: add_failure
-- One attempt that failed.
INSERT INTO failure (
  job, epoch, attempt, at, duration, reason, type, message, traceback, fingerprint, title, retryable, step, host,
  process, release, worker, cause, truncated, frame, plain, plain_title
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_traceback
-- A traceback is kept once, however many failures share it.
INSERT INTO traceback (hash, text) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: failures_of
-- Every failure of a job, oldest first.
SELECT f.reason, f.type, f.message, t.text, f.fingerprint, f.title, f.retryable, f.epoch, f.attempt, f.at, f.duration,
  f.step, f.host, f.process, f.release, f.worker, f.cause, f.truncated, f.frame, f.plain, f.plain_title
FROM failure AS f LEFT JOIN traceback AS t ON t.hash = f.traceback
WHERE f.job = ? ORDER BY f.seq
