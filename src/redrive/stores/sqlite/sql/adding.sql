-- name: known_ids
-- Which of these ids were seen before, and what became of them.
SELECT j.id, j.state FROM carray(?1) AS wanted JOIN job AS j ON j.id = wanted.value
UNION ALL SELECT d.id, 'done' FROM carray(?1) AS wanted JOIN done AS d ON d.id = wanted.value
UNION ALL SELECT t.id, 'purged' FROM carray(?1) AS wanted JOIN tombstone AS t ON t.id = wanted.value

-- name: key_holder
-- The job that holds an idempotency key: it waits, runs or is dead, or is done for less than the key's lifetime.
SELECT id, state FROM job WHERE key = ?1 AND key IS NOT NULL AND state IN ('scheduled', 'ready', 'leased', 'dead')
UNION ALL SELECT id, 'done' FROM done WHERE key = ?1 AND key IS NOT NULL AND ended_at > ?2
LIMIT 1

-- name: add_job
-- A new row.
INSERT INTO job (
  id, task, payload, queue, priority, due_at, key, external_id, headers, batch, item, parent, redrive, needs, expires,
  release, policy, created_at, wire_version, encoding, state, epoch, epoch_at, payload_version, starts, attempts,
  crashes, losses, suspect, fence
) VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
)

-- name: depth_limits
-- The queues that refuse beyond a depth.
SELECT key, depth_limit FROM gate WHERE kind = 'queue' AND depth_limit IS NOT NULL

-- name: waiting_of
-- How many jobs of a queue wait.
SELECT coalesce(sum(n), 0) FROM depth WHERE queue = ? AND state IN ('scheduled', 'ready')
