-- name: waiting_queues
-- The queues that have something to claim, now or later.
SELECT queue, state FROM depth WHERE state IN ('ready', 'scheduled') AND n > 0 ORDER BY queue

-- name: promote
-- Jobs of a queue whose time has come become ready; they keep that time as their place in the line.
UPDATE job SET state = 'ready' WHERE seq IN (
  SELECT seq FROM job WHERE state = 'scheduled' AND queue = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT ?3
)

-- name: next_due
-- When the next job of a queue becomes due.
SELECT min(due_at) FROM job WHERE state = 'scheduled' AND queue = ?

-- name: closed_gates
-- What holds claims back now.
SELECT kind, key, until FROM gate WHERE state = 'closed' AND (until IS NULL OR until > ?)

-- name: line
-- The first of a queue in the order of claims, without reading what they carry; suspects only for who can run one alone.
SELECT priority, due_at, id, seq, queue, expires FROM job
WHERE state = 'ready' AND queue = ?1 AND (?3 OR suspect = 0) AND wire_version <= 1 AND encoding = 0
ORDER BY priority DESC, due_at, id LIMIT ?2

-- name: lanes
-- What differs among the ready jobs of a queue for gates: task and needs, each pair once, however many jobs have it.
WITH RECURSIVE lane (task, needs) AS (
  SELECT * FROM (SELECT task, needs FROM job WHERE state = 'ready' AND queue = ?1 ORDER BY task, needs LIMIT 1)
  UNION ALL
  SELECT next.task, next.needs FROM lane JOIN job AS next ON next.seq = coalesce(
    (SELECT seq FROM job WHERE state = 'ready' AND queue = ?1 AND task = lane.task AND needs > lane.needs
      ORDER BY needs LIMIT 1),
    (SELECT seq FROM job WHERE state = 'ready' AND queue = ?1 AND task > lane.task ORDER BY task, needs LIMIT 1)
  )
)
SELECT task, needs FROM lane

-- name: line_of_lane
-- The first of a queue with this task and these needs.
SELECT priority, due_at, id, seq, queue, expires FROM job
WHERE state = 'ready' AND queue = ?1 AND task = ?4 AND needs = ?5
  AND (?3 OR suspect = 0) AND wire_version <= 1 AND encoding = 0
ORDER BY priority DESC, due_at, id LIMIT ?2

-- name: lease
-- The right to run these jobs, with a start counted and a new fence.
UPDATE job SET state = 'leased', starts = starts + 1, fence = fence + 1, worker = ?2, lease_until = ?3, lease_boot = ?4,
  company = 0
WHERE seq IN (SELECT value FROM carray(?1))

-- name: leased
-- The jobs behind those leases; RETURNING would first keep a copy of every row in a table of its own.
SELECT seq, id, state, queue, priority, due_at, fence, starts, attempts, crashes, losses, suspect, epoch, epoch_at,
  payload_version, wire_version, encoding, created_at, expires, task, key, external_id, batch, item, parent, redrive,
  release, needs, headers, policy, payload
FROM carray(?1) AS wanted JOIN job ON seq = wanted.value

-- name: abouts
-- What the journal and the counters say of these jobs.
SELECT seq, id, queue, task, priority, epoch, attempts, state, worker
FROM carray(?1) AS wanted JOIN job ON seq = wanted.value

-- name: extend
-- A lease that is still held lasts longer.
UPDATE job SET lease_until = ?2, lease_boot = ?3 WHERE seq IN (SELECT value FROM carray(?1))

-- name: held
-- The leases on these jobs.
SELECT j.id, j.fence, j.seq, j.worker FROM carray(?1) AS wanted JOIN job AS j ON j.id = wanted.value
WHERE j.state = 'leased'

-- name: leases
-- Every lease there is, without touching the rows.
SELECT seq, worker, lease_until, lease_boot FROM job WHERE state = 'leased' ORDER BY worker, lease_until

-- name: first_lease_end
-- When the first lease ends, without touching the rows; one of another boot has ended.
SELECT min(iif(lease_boot = ?1, lease_until, 0)) FROM job WHERE state = 'leased'

-- name: companions
-- Which of these lost their holder to a reaper together with others, before now.
SELECT seq FROM carray(?1) AS wanted JOIN job ON seq = wanted.value WHERE company = 1

-- name: take_over
-- The reaper's own lease; no start is counted.
UPDATE job SET fence = fence + 1, worker = ?2, lease_until = ?3, lease_boot = ?4, company = 0
WHERE seq IN (SELECT value FROM carray(?1))
RETURNING seq, id, state, queue, priority, due_at, fence, starts, attempts, crashes, losses, suspect, epoch, epoch_at,
  payload_version, wire_version, encoding, created_at, expires, task, key, external_id, batch, item, parent, redrive,
  release, needs, headers, policy, payload

-- name: mark_company
-- These jobs had neighbours when their holder went; a later reaping must not find them alone.
UPDATE job SET company = 1 WHERE seq IN (SELECT value FROM carray(?1))
