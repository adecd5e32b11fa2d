-- name: unended
-- Jobs among these that have not ended.
SELECT j.seq, j.id, j.queue, j.task, j.priority, j.epoch, j.attempts, j.state, j.worker
FROM carray(?1) AS wanted JOIN job AS j ON j.id = wanted.value
WHERE j.state IN ('scheduled', 'ready', 'leased')

-- name: waiting_in
-- The first jobs of a queue that wait for their turn or their time.
SELECT seq, id, queue, task, priority, epoch, attempts, state, worker FROM (
  SELECT * FROM job WHERE state = 'ready' AND queue = ?1 ORDER BY priority DESC, due_at, id LIMIT ?2
)
UNION ALL SELECT seq, id, queue, task, priority, epoch, attempts, state, worker FROM (
  SELECT * FROM job WHERE state = 'scheduled' AND queue = ?1 ORDER BY due_at LIMIT ?2
)
LIMIT ?2

-- name: move
-- To another queue.
UPDATE job SET queue = ?2 WHERE seq IN (SELECT value FROM carray(?1))

-- name: set_gate
-- One row per gate.
INSERT INTO gate (kind, key, state, reason, until, depth_limit, changed_at, actor) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, key) DO UPDATE SET state = excluded.state, reason = excluded.reason, until = excluded.until,
  depth_limit = excluded.depth_limit, changed_at = excluded.changed_at, actor = excluded.actor

-- name: gates
-- Every gate that was ever set.
SELECT kind, key, state, reason, until, depth_limit, changed_at, actor FROM gate ORDER BY kind, key

-- name: depths
-- How deep the queues are.
SELECT queue, state, n FROM depth WHERE n > 0 ORDER BY queue

-- name: oldest_ready
-- The due time of the first in line.
SELECT due_at FROM job WHERE state = 'ready' AND queue = ? ORDER BY priority DESC, due_at, id LIMIT 1

-- name: job
-- One job that is not done, and what surrounds it.
SELECT seq, id, state, queue, priority, due_at, fence, starts, attempts, crashes, losses, suspect, epoch, epoch_at,
  payload_version, wire_version, encoding, created_at, expires, task, key, external_id, batch, item, parent, redrive,
  release, needs, headers, policy, payload, worker, lease_until, lease_boot, unknown_since, ended_at, end_reason
FROM job WHERE id = ?

-- name: done
-- One finished job.
SELECT task, queue, ended_at, attempts, epoch, key, result, duration FROM done WHERE id = ?

-- name: resolve
-- The ids that end like this.
SELECT id FROM (SELECT id FROM job UNION ALL SELECT id FROM done) WHERE hex(id) LIKE ?1 LIMIT ?2

-- name: find_scheduled
-- A page of jobs that wait for their time, newest first.
SELECT id, task, queue, state, priority, attempts, epoch, coalesce(ended_at, due_at), last_error FROM job
WHERE state = 'scheduled' AND id < ?1 AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3)
ORDER BY id DESC LIMIT ?4

-- name: find_ready
-- A page of jobs that wait for their turn, newest first, where many do: among all jobs.
SELECT id, task, queue, state, priority, attempts, epoch, coalesce(ended_at, due_at), last_error FROM job
WHERE +state = 'ready' AND id < ?1 AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3)
ORDER BY id DESC LIMIT ?4

-- name: find_rare_ready
-- The same where few are ready among many others: from their lines.
SELECT id, task, queue, state, priority, attempts, epoch, coalesce(ended_at, due_at), last_error
FROM job INDEXED BY job_ready
WHERE state = 'ready' AND +id < ?1 AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3)
ORDER BY +id DESC LIMIT ?4

-- name: share_of_ready
-- How many jobs are ready, and how many there are.
SELECT coalesce(sum(n) FILTER (WHERE state = 'ready'), 0), coalesce(sum(n), 0) FROM depth

-- name: find_leased
-- A page of jobs that run, newest first; they are few, and `+` has them looked for among the leased alone.
SELECT id, task, queue, state, priority, attempts, epoch, coalesce(ended_at, due_at), last_error FROM job
WHERE state = 'leased' AND +id < ?1 AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3)
ORDER BY +id DESC LIMIT ?4

-- name: find_dead
-- A page of dead jobs, newest first.
SELECT id, task, queue, state, priority, attempts, epoch, coalesce(ended_at, due_at), last_error FROM job
WHERE state = 'dead' AND id < ?1 AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3)
ORDER BY id DESC LIMIT ?4

-- name: find_discarded
-- A page of discarded jobs, newest first.
SELECT id, task, queue, state, priority, attempts, epoch, coalesce(ended_at, due_at), last_error FROM job
WHERE state = 'discarded' AND id < ?1 AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3)
ORDER BY id DESC LIMIT ?4

-- name: find_done
-- A page of finished jobs, newest first.
SELECT id, task, queue, 'done', 5, attempts, epoch, ended_at, NULL FROM done
WHERE id < ?1 AND (?2 IS NULL OR queue = ?2) AND (?3 IS NULL OR task = ?3)
ORDER BY id DESC LIMIT ?4

-- name: done_over
-- The finished jobs of a stretch of their ids whose time is over.
SELECT id FROM (SELECT id, keep_until FROM done WHERE id > ?1 ORDER BY id LIMIT ?2) WHERE keep_until <= ?3 LIMIT ?4

-- name: done_stretch
-- Where such a stretch ends; nothing at the end of all.
SELECT id FROM done WHERE id > ?1 ORDER BY id LIMIT 1 OFFSET ?2

-- name: forget_done
-- These are forgotten.
DELETE FROM done WHERE id IN (SELECT value FROM carray(?1))

-- name: forget_discarded
-- Discarded rows whose time is over.
DELETE FROM job WHERE seq IN (
  SELECT seq FROM job WHERE state = 'discarded' AND keep_until <= ?1 ORDER BY keep_until LIMIT ?2
) RETURNING id, queue

-- name: forget_letters
-- Letters that were closed or discarded long ago.
DELETE FROM letter WHERE id IN (
  SELECT id FROM letter WHERE ended_at <= ?1 AND state IN ('closed', 'discarded') ORDER BY ended_at LIMIT ?2
) RETURNING id

-- name: forget_failures
-- Failures of jobs of which nothing else is left.
DELETE FROM failure WHERE job IN (SELECT value FROM carray(?1))
  AND NOT EXISTS (SELECT 1 FROM letter WHERE id = job)
  AND NOT EXISTS (SELECT 1 FROM job AS live WHERE live.id = failure.job)
  AND NOT EXISTS (SELECT 1 FROM done WHERE id = job)
RETURNING traceback

-- name: forget_traceback
-- A traceback that no failure shares any more.
DELETE FROM traceback WHERE hash = ?1 AND NOT EXISTS (SELECT 1 FROM failure WHERE traceback = ?1)

-- name: forget_workers
-- Workers that ended without saying so and hold nothing.
DELETE FROM worker WHERE (alive_until <= ?1 OR alive_boot <> ?2)
  AND NOT EXISTS (SELECT 1 FROM job WHERE state = 'leased' AND worker = worker.id)

-- name: forget_letter_totals
-- Kinds of letters of which none is open any more.
DELETE FROM letter_total WHERE n = 0

-- name: forget_depths
-- Queues and states in which there is nothing any more.
DELETE FROM depth WHERE n = 0
