-- name: open_redrive
-- A new one; what fails from here on comes after its cut.
INSERT INTO redrive (id, state, plan, judge, actor, reason, opened_at, cut)
VALUES (?, 'freezing', ?, ?, ?, ?, ?, (SELECT coalesce(max(seq), 0) FROM failure))

-- name: redrive
-- One of them.
SELECT id, plan, actor, reason, state, opened_at, version, frozen_at, ended_at, total, stage, stage_left, stage_at, why,
  begun_at, cut, mark_at, mark_id, paced_at
FROM redrive WHERE id = ?

-- name: redrives
-- The newest of them.
SELECT id, plan, actor, reason, state, opened_at, version, frozen_at, ended_at, total, stage, stage_left, stage_at, why,
  begun_at
FROM redrive ORDER BY id DESC LIMIT ?

-- name: redrives_of_actor
-- The newest that somebody has opened.
SELECT id, plan, actor, reason, state, opened_at, version, frozen_at, ended_at, total, stage, stage_left, stage_at, why,
  begun_at
FROM redrive WHERE actor = ?1 ORDER BY id DESC LIMIT ?2

-- name: open_redrive_of_actor
-- One that somebody has opened and that is not over.
SELECT id FROM redrive WHERE actor = ?1 AND state IN ('freezing', 'running', 'paused') LIMIT 1

-- name: places_of_redrive
-- In which queues the letters that are not released would run, and as which tasks.
SELECT DISTINCT coalesce(?2, l.queue), l.task FROM redrive_item AS i
CROSS JOIN letter AS l ON l.id = i.id WHERE i.redrive = ?1 AND i.state = 'pending' ORDER BY 1, 2

-- name: begin_redrive
-- One that has waited begins.
UPDATE redrive SET begun_at = ?2, stage_at = ?2 WHERE id = ?1

-- name: redrives_of_state
-- The newest in a state.
SELECT id, plan, actor, reason, state, opened_at, version, frozen_at, ended_at, total, stage, stage_left, stage_at, why,
  begun_at
FROM redrive WHERE state = ?1 ORDER BY id DESC LIMIT ?2

-- name: died_later
-- Which of these letters have a failure behind the cut.
SELECT DISTINCT f.job FROM carray(?1) AS wanted JOIN failure AS f ON f.job = wanted.value AND f.seq > ?2

-- name: held_by_redrives
-- Which of these letters another open redrive will still release; `IN` is there for the index, which says the same.
SELECT i.id, i.redrive FROM carray(?1) AS wanted
CROSS JOIN redrive_item AS i ON i.id = wanted.value AND i.state IN ('pending', 'released') AND i.state = 'pending'
CROSS JOIN redrive AS r ON r.id = i.redrive AND r.state IN ('freezing', 'running', 'paused')
CROSS JOIN redrive_cause AS c ON c.redrive = i.redrive AND c.cause = i.cause AND c.stopped IS NULL
WHERE i.redrive <> ?2

-- name: add_item
-- A letter is in it.
INSERT INTO redrive_item (redrive, id, cause, turn, epoch, state, why, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: add_to_cause
-- So many more letters of a cause.
INSERT INTO redrive_cause (redrive, cause, total, skipped) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET total = total + excluded.total, skipped = skipped + excluded.skipped

-- name: frozen_so_far
-- How far the freezing has come.
UPDATE redrive SET total = total + ?2, mark_at = ?3, mark_id = ?4 WHERE id = ?1

-- name: frozen
-- Its letters are all there.
UPDATE redrive SET state = 'running', frozen_at = ?2, stage_at = ?2, version = version + 1 WHERE id = ?1

-- name: causes_of_redrive
-- How each cause does, most letters first.
SELECT c.cause, coalesce(g.title, ''), c.total, c.skipped, c.released, c.succeeded, c.recurred, c.otherwise, c.discarded,
  c.passed, c.relapsed, c.strayed, c.dropped, c.stopped
FROM redrive_cause AS c LEFT JOIN letter_group AS g ON g.fingerprint = c.cause
WHERE c.redrive = ? ORDER BY c.total DESC, c.cause

-- name: stages_of_redrive
-- The stages so far.
SELECT number, at, released, passed, relapsed, strayed, dropped FROM redrive_stage WHERE redrive = ? ORDER BY number

-- name: next_items
-- The first of a cause that are not released yet.
SELECT id, cause, epoch FROM redrive_item WHERE redrive = ?1 AND cause = ?2 AND state = 'pending' ORDER BY turn LIMIT ?3

-- name: oldest_items
-- The first of all causes that go on, where the oldest letter comes first.
SELECT i.id, i.cause, i.epoch FROM redrive_item AS i INDEXED BY redrive_item_age
CROSS JOIN redrive_cause AS c ON c.redrive = i.redrive AND c.cause = i.cause AND c.stopped IS NULL
WHERE i.redrive = ?1 AND i.state = 'pending' AND i.turn < 0 ORDER BY i.turn, i.id LIMIT ?2

-- name: letters_due
-- What these letters are now and how long the payloads of their jobs are; only where a job is still dead.
SELECT wanted.value, l.version, l.task, length(j.payload) FROM carray(?1) AS wanted
CROSS JOIN letter AS l ON l.id = wanted.value AND l.state = 'open'
CROSS JOIN job AS j ON j.id = wanted.value AND j.state = 'dead'

-- name: payload_due
-- What the job of a letter was given.
SELECT payload FROM job WHERE id = ?

-- name: redrivable
-- What these letters and their jobs are now.
SELECT wanted.value, l.state, j.seq, j.state, j.queue, j.task, j.priority, j.epoch, j.attempts, j.policy, j.key
FROM carray(?1) AS wanted LEFT JOIN letter AS l ON l.id = wanted.value LEFT JOIN job AS j ON j.id = wanted.value

-- name: key_taker
-- Another job that has taken an idempotency key since its holder died.
SELECT id FROM job WHERE key = ?1 AND key IS NOT NULL AND state IN ('scheduled', 'ready', 'leased', 'dead') AND id <> ?3
UNION ALL SELECT id FROM done WHERE key = ?1 AND key IS NOT NULL AND ended_at > ?2 AND id <> ?3
LIMIT 1

-- name: redrive_jobs
-- A new epoch from a redrive, from zero.
UPDATE job SET state = 'ready', epoch = epoch + 1, epoch_at = ?2, due_at = ?2, starts = 0, attempts = 0, crashes = 0,
  losses = 0, suspect = 0, ended_at = NULL, end_reason = NULL, unknown_since = NULL, redrive = ?3,
  queue = coalesce(?4, queue), priority = coalesce(?5, priority)
WHERE seq IN (SELECT value FROM carray(?1))

-- name: carry_over
-- Attempts that count on, and another limit.
UPDATE job SET attempts = ?2, policy = ?3 WHERE seq = ?1

-- name: release_items
-- These letters have a new epoch.
UPDATE redrive_item SET state = 'released', stage = ?3, epoch = epoch + 1, at = ?4
WHERE redrive = ?1 AND id IN (SELECT value FROM carray(?2))

-- name: skip_item
-- This letter is passed by.
UPDATE redrive_item SET state = 'skipped', why = ?3, at = ?4 WHERE redrive = ?1 AND id = ?2

-- name: released_of_cause
-- So many of a cause are released or skipped.
UPDATE redrive_cause SET released = released + ?3, skipped = skipped + ?4 WHERE redrive = ?1 AND cause = ?2

-- name: begin_stage
-- The next stage.
INSERT INTO redrive_stage (redrive, number, at) VALUES (?, ?, ?)

-- name: released_of_stage
-- So many more of a stage.
UPDATE redrive_stage SET released = released + ?3 WHERE redrive = ?1 AND number = ?2

-- name: released_so_far
-- How far the releasing has come.
UPDATE redrive SET stage = ?2, stage_left = ?3, stage_at = ?4, paced_at = ?5 WHERE id = ?1

-- name: stop_cause
-- Nothing more of this cause.
UPDATE redrive_cause SET stopped = ?3 WHERE redrive = ?1 AND cause = ?2 AND stopped IS NULL RETURNING cause

-- name: change_redrive
-- Another state.
UPDATE redrive SET state = ?2, why = ?3, ended_at = ?4, version = version + 1, stage_at = coalesce(?5, stage_at)
WHERE id = ?1

-- name: patterns_of_redrive
-- Letters of a redrive in a state, by why.
SELECT i.state, i.why, count(*), min(i.id), coalesce((SELECT title FROM letter_group WHERE fingerprint = i.why), '')
FROM redrive_item AS i WHERE i.redrive = ?1 AND i.state IN ('skipped', 'recurred', 'otherwise', 'discarded')
GROUP BY i.state, i.why ORDER BY count(*) DESC, i.why

-- name: items_of_redrive
-- A page of its letters.
SELECT id, cause, state, stage, why, at FROM redrive_item WHERE redrive = ?1 AND id > ?2 ORDER BY id LIMIT ?3

-- name: items_of_state
-- A page of its letters in a state.
SELECT id, cause, state, stage, why, at FROM redrive_item INDEXED BY redrive_item_state
WHERE redrive = ?1 AND state = ?4 AND id > ?2 ORDER BY id LIMIT ?3

-- name: items_under_way
-- Which of these jobs a redrive has brought back and waits for.
SELECT i.redrive, i.id, i.cause, i.epoch, i.verdict, i.stage, r.judge,
  (SELECT l.fingerprint FROM letter AS l WHERE l.id = i.id)
FROM carray(?1) AS wanted
JOIN redrive_item AS i ON i.id = wanted.value AND i.state IN ('pending', 'released') AND i.state = 'released'
JOIN redrive AS r ON r.id = i.redrive

-- name: tell_item
-- What its job has come to.
UPDATE redrive_item SET state = coalesce(?3, state), verdict = coalesce(verdict, ?4), why = ?5, at = ?6
WHERE redrive = ?1 AND id = ?2

-- name: tell_cause
-- What jobs of a cause have come to.
UPDATE redrive_cause SET succeeded = succeeded + ?3, recurred = recurred + ?4, otherwise = otherwise + ?5,
  discarded = discarded + ?6, passed = passed + ?7, relapsed = relapsed + ?8, strayed = strayed + ?9,
  dropped = dropped + ?10
WHERE redrive = ?1 AND cause = ?2

-- name: tell_stage
-- What jobs of a stage have answered.
UPDATE redrive_stage SET passed = passed + ?3, relapsed = relapsed + ?4, strayed = strayed + ?5, dropped = dropped + ?6
WHERE redrive = ?1 AND number = ?2
