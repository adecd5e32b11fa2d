-- name: prove_counts
-- What the counters say of how jobs came and went.
SELECT queue, name, sum(n) FROM counter
WHERE name IN ('enqueued', 'imported', 'restored', 'moved_in', 'done', 'discarded', 'dead_purged', 'moved_out')
GROUP BY queue, name

-- name: prove_rows
-- How many jobs there are in each state.
SELECT queue, state, count(*) FROM job GROUP BY queue, state

-- name: prove_depths
-- How many there are said to be.
SELECT queue, state, n FROM depth

-- name: prove_carried
-- What was there beyond what had been counted, when the books were opened, and when that was.
SELECT queue, n, (SELECT applied_at FROM migration WHERE number = 2) FROM carried

-- name: prove_dead_without_letter
-- Dead jobs that have no open letter.
SELECT j.id FROM job AS j WHERE j.state = 'dead'
  AND NOT EXISTS (SELECT 1 FROM letter AS l WHERE l.id = j.id AND l.state = 'open')
ORDER BY j.id

-- name: prove_letter_without_dead
-- Open letters that have no dead job.
SELECT l.id FROM letter AS l WHERE l.state = 'open'
  AND NOT EXISTS (SELECT 1 FROM job AS j WHERE j.id = l.id AND j.state = 'dead')

-- name: prove_redriven_without_job
-- Letters that were brought back, and no job that waits or runs.
SELECT l.id FROM letter AS l WHERE l.state = 'redriven'
  AND NOT EXISTS (SELECT 1 FROM job AS j WHERE j.id = l.id AND j.state IN ('scheduled', 'ready', 'leased'))

-- name: prove_alive_without_letter
-- Jobs that were brought back, and no letter that says so.
SELECT j.id FROM job AS j WHERE j.state IN ('scheduled', 'ready', 'leased') AND j.epoch > 1
  AND NOT EXISTS (SELECT 1 FROM letter AS l WHERE l.id = j.id AND l.state = 'redriven')

-- name: prove_in_two_states
-- Jobs that are there twice: as rows, as finished, as purged.
SELECT d.id FROM done AS d WHERE EXISTS (SELECT 1 FROM job AS j WHERE j.id = d.id)
  OR EXISTS (SELECT 1 FROM tombstone AS t WHERE t.id = d.id)
UNION ALL SELECT t.id FROM tombstone AS t WHERE EXISTS (SELECT 1 FROM job AS j WHERE j.id = t.id)

-- name: prove_letter_of_purged
-- Letters of jobs that were purged.
SELECT t.id FROM tombstone AS t WHERE EXISTS (SELECT 1 FROM letter AS l WHERE l.id = t.id)

-- name: prove_letter_without_failure
-- Letters of which no failure is kept.
SELECT l.id FROM letter AS l WHERE NOT EXISTS (SELECT 1 FROM failure AS f WHERE f.job = l.id)

-- name: prove_failure_without_job
-- Failures of which nothing else is kept.
SELECT DISTINCT f.job FROM failure AS f WHERE NOT EXISTS (SELECT 1 FROM letter AS l WHERE l.id = f.job)
  AND NOT EXISTS (SELECT 1 FROM job AS j WHERE j.id = f.job) AND NOT EXISTS (SELECT 1 FROM done AS d WHERE d.id = f.job)

-- name: prove_payload_without_letter
-- Payloads before an edit, of letters that are gone.
SELECT DISTINCT p.letter FROM letter_payload AS p WHERE NOT EXISTS (SELECT 1 FROM letter AS l WHERE l.id = p.letter)

-- name: prove_item_without_job
-- Letters that a redrive has released, and no job that waits or runs in the epoch it gave.
SELECT i.id FROM redrive_item AS i WHERE i.state = 'released'
  AND i.redrive NOT IN (SELECT id FROM forgotten_redrive) AND NOT EXISTS (
  SELECT 1 FROM job AS j WHERE j.id = i.id AND j.epoch = i.epoch AND j.state IN ('scheduled', 'ready', 'leased'))

-- name: prove_redrive_total
-- Redrives that have more letters than they say, or fewer.
SELECT r.id FROM redrive AS r WHERE r.total <> (SELECT count(*) FROM redrive_item AS i WHERE i.redrive = r.id)

-- name: prove_redrive_tally
-- Causes in redrives whose tallies are not what their letters say.
SELECT DISTINCT coalesce(c.redrive, i.redrive) FROM redrive_cause AS c FULL JOIN (
  SELECT redrive, cause, count(*) AS total, sum(state = 'skipped') AS skipped,
    sum(state NOT IN ('pending', 'skipped')) AS released, sum(state = 'succeeded') AS succeeded,
    sum(state = 'recurred') AS recurred, sum(state = 'otherwise') AS otherwise, sum(state = 'discarded') AS discarded
  FROM redrive_item WHERE redrive NOT IN (SELECT id FROM forgotten_redrive) GROUP BY redrive, cause
) AS i ON i.redrive = c.redrive AND i.cause = c.cause
WHERE (c.total, c.skipped, c.released, c.succeeded, c.recurred, c.otherwise, c.discarded)
  IS NOT (i.total, i.skipped, i.released, i.succeeded, i.recurred, i.otherwise, i.discarded)

-- name: prove_group_count
-- Groups whose count is not what their letters say, and those that letters speak of and that are not there.
SELECT coalesce(g.fingerprint, l.fingerprint) FROM letter_group AS g FULL JOIN (
  SELECT fingerprint, count(*) AS n FROM letter WHERE state = 'open' GROUP BY fingerprint
) AS l ON l.fingerprint = g.fingerprint
WHERE coalesce(g.count, 0) <> coalesce(l.n, 0)

-- name: prove_letter_totals
-- Queues whose open letters, or those of them that need a person, are counted otherwise than they are.
SELECT DISTINCT coalesce(t.queue, l.queue) FROM letter_total AS t FULL JOIN (
  SELECT queue, task, priority, reason, count(*) AS n, count(review) AS review FROM letter WHERE state = 'open'
  GROUP BY queue, task, priority, reason
) AS l ON l.queue = t.queue AND l.task = t.task AND l.priority = t.priority AND l.reason = t.reason
WHERE coalesce(t.n, 0) <> coalesce(l.n, 0) OR coalesce(t.review, 0) <> coalesce(l.review, 0)

-- name: prove_seals
-- Every seal, the first one first.
SELECT number, at, n, hash, lines, forgotten_at FROM seal ORDER BY number

-- name: last_seal
-- The last one.
SELECT number, upto, hash FROM seal ORDER BY number DESC LIMIT 1

-- name: add_seal
-- One more.
INSERT INTO seal (number, at, n, upto, hash, lines) VALUES (?, ?, ?, ?, ?, ?)

-- name: unsealed_entries
-- What people did since the last seal.
SELECT seq, at, event, job, task, queue, epoch, attempt, reason, worker, actor, text
FROM journal INDEXED BY journal_unsealed WHERE seal IS NULL AND actor IS NOT NULL AND seq > ?1 ORDER BY seq LIMIT ?2

-- name: mark_sealed
-- These are under a seal.
UPDATE journal SET seal = ?2 WHERE seq IN (SELECT value FROM carray(?1))

-- name: prove_sealed
-- What is under a seal.
SELECT seq, at, event, job, task, queue, epoch, attempt, reason, worker, actor, text
FROM journal INDEXED BY journal_sealed WHERE seal = ? ORDER BY seq

-- name: prove_sealed_by_none
-- The first entry under a seal that is not there.
SELECT j.seq, j.seal FROM journal AS j INDEXED BY journal_sealed
WHERE j.seal IS NOT NULL AND NOT EXISTS (SELECT 1 FROM seal AS s WHERE s.number = j.seal) LIMIT 1

-- name: prove_put_in
-- The first entry without a seal before the end of what is sealed.
SELECT seq FROM journal INDEXED BY journal_unsealed
WHERE seal IS NULL AND actor IS NOT NULL AND seq <= ?1 ORDER BY seq LIMIT 1

-- name: prove_unsealed
-- How much nobody has sealed yet.
SELECT count(*) FROM journal INDEXED BY journal_unsealed WHERE seal IS NULL AND actor IS NOT NULL
