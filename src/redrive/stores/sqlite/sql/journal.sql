-- name: add_entry
-- One thing that happened.
INSERT INTO journal (at, event, job, task, queue, epoch, attempt, reason, worker, actor, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_count
-- So many more in this minute.
INSERT INTO counter (minute, queue, task, priority, worker, name, n) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: add_depth
-- So many more, or less, in this state.
INSERT INTO depth (queue, state, n) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: entries
-- Entries after one, oldest first.
SELECT seq, at, event, job, task, queue, epoch, attempt, reason, worker, actor, text FROM journal
WHERE seq > ?1 ORDER BY seq LIMIT ?2

-- name: entries_of_job
-- The same of one job.
SELECT seq, at, event, job, task, queue, epoch, attempt, reason, worker, actor, text FROM journal
WHERE job = ?3 AND job IS NOT NULL AND seq > ?1 ORDER BY seq LIMIT ?2

-- name: latest_entries
-- The last entries, newest first.
SELECT seq, at, event, job, task, queue, epoch, attempt, reason, worker, actor, text FROM journal
ORDER BY seq DESC LIMIT ?1

-- name: counts
-- Counts per minute, queue, task and name.
SELECT minute, queue, task, name, sum(n) FROM counter WHERE minute >= ?
GROUP BY minute, queue, task, name ORDER BY minute, queue, task, name

-- name: sample
-- How deep the queues are in this minute; what is nothing has no row, unless it was something earlier in the minute.
INSERT INTO counter (minute, queue, task, priority, worker, name, n)
SELECT ?1, queue, '', -1, '', iif(state = 'dead', 'letters_open', 'depth_' || state), n FROM depth
WHERE state IN ('scheduled', 'ready', 'leased', 'dead') AND (n > 0 OR EXISTS (
  SELECT 1 FROM counter AS c WHERE c.minute = ?1 AND c.queue = depth.queue AND c.task = '' AND c.priority = -1
    AND c.worker = '' AND c.name = iif(depth.state = 'dead', 'letters_open', 'depth_' || depth.state)
))
ON CONFLICT DO UPDATE SET n = excluded.n

-- name: loose_counts
-- Counts of minutes that are over, as the workers wrote them.
SELECT minute, queue, task, priority, worker, name, n FROM counter
WHERE priority >= 0 AND minute < ?1 ORDER BY minute LIMIT ?2

-- name: drop_count
-- One of these.
DELETE FROM counter WHERE minute = ? AND queue = ? AND task = ? AND priority = ? AND worker = ? AND name = ?
