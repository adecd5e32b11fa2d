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
