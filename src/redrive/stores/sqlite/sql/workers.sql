-- name: beat
-- A worker lives; the order that was left for it stays.
INSERT INTO worker (
  id, host, boot, pid, started_at, beat_at, alive_until, alive_boot, lock_device, lock_inode, release, tasks, queues,
  slots, stuck, running, state
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET host = excluded.host, boot = excluded.boot, pid = excluded.pid,
  started_at = excluded.started_at, beat_at = excluded.beat_at, alive_until = excluded.alive_until,
  alive_boot = excluded.alive_boot, lock_device = excluded.lock_device, lock_inode = excluded.lock_inode,
  release = excluded.release, tasks = excluded.tasks, queues = excluded.queues, slots = excluded.slots,
  stuck = excluded.stuck, running = excluded.running, state = excluded.state
RETURNING told

-- name: leave
-- A worker ends in peace.
DELETE FROM worker WHERE id = ?

-- name: free_duties
-- What it did for all is for another one to do.
DELETE FROM duty WHERE holder = ?

-- name: workers
-- Workers that live, and those that still hold leases.
SELECT id, host, boot, pid, started_at, beat_at, lock_device, lock_inode, release, tasks, queues, slots, stuck, running,
  state, told
FROM worker
WHERE (alive_until > ?1 AND alive_boot = ?2)
  OR EXISTS (SELECT 1 FROM job WHERE job.state = 'leased' AND job.worker = worker.id)
ORDER BY started_at, id

-- name: tell
-- An order for a worker.
UPDATE worker SET told = ?2 WHERE id = ?1 RETURNING id

-- name: duty
-- A duty is taken when it is free, its time is over, or it is ours.
INSERT INTO duty (name, holder, until, boot) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (name) DO UPDATE SET holder = ?2, until = ?3, boot = ?4
WHERE holder = ?2 OR until <= ?5 OR boot <> ?4
RETURNING holder
