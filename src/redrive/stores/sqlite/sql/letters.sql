-- name: open_letters_of
-- In which groups and totals these jobs' letters are counted; CROSS keeps SQLite from walking through all that are open.
SELECT l.fingerprint, l.queue, l.task, l.priority, l.reason FROM carray(?1) AS wanted
CROSS JOIN letter AS l ON l.id = wanted.value WHERE l.state = 'open'

-- name: put_letter
-- A new letter, or one more death for the one there is; one that came back ?15 times with the same cause needs a person.
INSERT INTO letter (
  id, task, queue, priority, state, reason, type, message, fingerprint, attempts, epochs, first_failed_at, failed_at,
  host, worker, release
) VALUES (
  ?1, ?2, ?3, ?4, 'open', ?5, ?6, ?7, ?8, ?9, ?10, ?16, ?11, ?12, ?13, ?14
)
ON CONFLICT (id) DO UPDATE SET queue = excluded.queue, priority = excluded.priority, state = 'open',
  reason = excluded.reason, type = excluded.type, message = excluded.message, fingerprint = excluded.fingerprint,
  attempts = excluded.attempts, epochs = excluded.epochs, failed_at = excluded.failed_at, host = excluded.host,
  worker = excluded.worker, release = excluded.release, ended_at = NULL, version = version + 1, rule = NULL,
  returns = iif(fingerprint = excluded.fingerprint, returns + 1, 0),
  review = coalesce(review, iif(fingerprint = excluded.fingerprint AND returns + 1 >= ?15, ?17, NULL))

-- name: first_failures
-- When each of these jobs failed first; asked for all at once, because inside `put_letter` it took six times as long.
SELECT f.job, f.at FROM carray(?1) AS wanted
JOIN failure AS f ON f.seq = (SELECT min(seq) FROM failure WHERE job = wanted.value)

-- name: end_letter
-- The letter of a job that has been redriven, or has ended otherwise than by dying.
UPDATE letter SET state = ?2, ended_at = ?3, version = version + 1 WHERE id IN (SELECT value FROM carray(?1))

-- name: join_group
-- More letters of one cause; a closed group opens again.
INSERT INTO letter_group (fingerprint, title, task, reason, type, count, first_seen, last_seen, sample)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (fingerprint) DO UPDATE SET count = count + excluded.count,
  last_seen = max(last_seen, excluded.last_seen), state = iif(state = 'closed', 'reopened', state)

-- name: leave_group
-- Letters that are not open any more.
UPDATE letter_group SET count = count - ?2 WHERE fingerprint = ?1

-- name: add_letter_total
-- So many more open letters of a kind, or less.
INSERT INTO letter_total (queue, task, priority, reason, n) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n

-- name: letter_totals
-- How many open letters there are of each kind.
SELECT queue, task, priority, reason, n, review FROM letter_total WHERE n > 0 ORDER BY queue, task, priority DESC, reason

-- name: letter_span
-- When the open letters failed that have waited longest and shortest.
SELECT (SELECT failed_at FROM letter WHERE state = 'open' ORDER BY failed_at LIMIT 1),
  (SELECT failed_at FROM letter WHERE state = 'open' ORDER BY failed_at DESC LIMIT 1)

-- name: dead_jobs
-- Which of these are dead.
SELECT j.seq, j.id, j.queue, j.task, j.priority, j.epoch FROM carray(?1) AS wanted
JOIN job AS j ON j.id = wanted.value WHERE j.state = 'dead'

-- name: revive
-- A new epoch, from zero.
UPDATE job SET state = 'ready', epoch = epoch + 1, epoch_at = ?2, due_at = ?2, starts = 0, attempts = 0, crashes = 0,
  losses = 0, suspect = 0, ended_at = NULL, end_reason = NULL, unknown_since = NULL, redrive = NULL
WHERE seq IN (SELECT value FROM carray(?1))

-- name: letters
-- Letters as they are, with what their jobs still have.
SELECT l.id, l.task, l.queue, l.priority, l.state, l.reason, l.type, l.message, l.fingerprint, l.attempts, l.epochs,
  l.first_failed_at, l.failed_at, l.host, l.worker, l.release, l.version,
  coalesce(l.owner, (SELECT g.owner FROM letter_group AS g WHERE g.fingerprint = l.fingerprint)), l.review, l.returns,
  l.rule,
  j.batch, j.payload, j.headers, coalesce(j.payload_version, 1)
FROM carray(?1) AS wanted JOIN letter AS l ON l.id = wanted.value LEFT JOIN job AS j ON j.id = l.id

-- name: find_letters
-- A page of letters, the last failure first; the condition of a filter takes the place of the remark.
SELECT l.id, l.task, l.queue, l.priority, l.state, l.reason, l.type, l.message, l.fingerprint, l.attempts, l.epochs,
  l.first_failed_at, l.failed_at, l.host, l.worker, l.release, l.version,
  coalesce(l.owner, (SELECT g.owner FROM letter_group AS g WHERE g.fingerprint = l.fingerprint)), l.review, l.returns,
  l.rule
FROM letter AS l
WHERE (l.failed_at, l.id) < (?, ?) AND /* condition */ 1
ORDER BY l.failed_at DESC, l.id DESC LIMIT ?

-- name: judge_letters
-- The same with what only the predicate of a filter can judge; notes and traceback only if they are asked for.
SELECT l.id, l.task, l.queue, l.priority, l.state, l.reason, l.type, l.message, l.fingerprint, l.attempts, l.epochs,
  l.first_failed_at, l.failed_at, l.host, l.worker, l.release, l.version,
  coalesce(l.owner, (SELECT g.owner FROM letter_group AS g WHERE g.fingerprint = l.fingerprint)), l.review, l.returns,
  l.rule,
  j.batch, j.payload, j.headers,
  iif(?, (SELECT group_concat(n.text, char(10) ORDER BY n.seq) FROM note AS n WHERE n.about IN (l.id, l.fingerprint)), NULL),
  iif(?, (SELECT (SELECT t.text FROM traceback AS t WHERE t.hash = f.traceback) FROM failure AS f
    WHERE f.job = l.id ORDER BY f.seq DESC LIMIT 1), NULL)
FROM letter AS l LEFT JOIN job AS j ON j.id = l.id
WHERE (l.failed_at, l.id) < (?, ?) AND /* condition */ 1
ORDER BY l.failed_at DESC, l.id DESC LIMIT ?

-- name: judge_all_letters
-- All of them in any order, to be counted: nothing has to be sorted, and so nothing is kept.
SELECT l.id, l.task, l.queue, l.priority, l.state, l.reason, l.type, l.message, l.fingerprint, l.attempts, l.epochs,
  l.first_failed_at, l.failed_at, l.host, l.worker, l.release, l.version,
  coalesce(l.owner, (SELECT g.owner FROM letter_group AS g WHERE g.fingerprint = l.fingerprint)), l.review, l.returns,
  l.rule,
  j.batch, j.payload, j.headers,
  iif(?, (SELECT group_concat(n.text, char(10) ORDER BY n.seq) FROM note AS n WHERE n.about IN (l.id, l.fingerprint)), NULL),
  iif(?, (SELECT (SELECT t.text FROM traceback AS t WHERE t.hash = f.traceback) FROM failure AS f
    WHERE f.job = l.id ORDER BY f.seq DESC LIMIT 1), NULL)
FROM letter AS l LEFT JOIN job AS j ON j.id = l.id
WHERE /* condition */ 1

-- name: count_letters
-- How many letters a filter means.
SELECT count(*) FROM letter AS l WHERE /* condition */ 1

-- name: count_by_group
-- In which groups the letters are that a filter means.
SELECT l.fingerprint, count(*) FROM letter AS l WHERE /* condition */ 1 GROUP BY l.fingerprint

-- name: groups_named
-- These groups; the sample is an open letter as long as there is one, though the one that was noted may have ended.
SELECT g.fingerprint, g.title, g.task, g.reason, g.type, g.count, g.first_seen, g.last_seen,
  coalesce(
    (SELECT l.id FROM letter AS l WHERE l.id = g.sample AND l.state = 'open' AND l.fingerprint = g.fingerprint),
    (SELECT l.id FROM letter AS l WHERE l.state = 'open' AND l.fingerprint = g.fingerprint
      ORDER BY l.failed_at DESC, l.id DESC LIMIT 1),
    g.sample),
  g.state, g.owner, g.muted_until, g.closed_in
FROM carray(?1) AS wanted JOIN letter_group AS g ON g.fingerprint = wanted.value

-- name: groups
-- Groups, most letters first, with a sample as above.
SELECT g.fingerprint, g.title, g.task, g.reason, g.type, g.count, g.first_seen, g.last_seen,
  coalesce(
    (SELECT l.id FROM letter AS l WHERE l.id = g.sample AND l.state = 'open' AND l.fingerprint = g.fingerprint),
    (SELECT l.id FROM letter AS l WHERE l.state = 'open' AND l.fingerprint = g.fingerprint
      ORDER BY l.failed_at DESC, l.id DESC LIMIT 1),
    g.sample),
  g.state, g.owner, g.muted_until, g.closed_in
FROM letter_group AS g ORDER BY g.count DESC, g.fingerprint LIMIT ?

