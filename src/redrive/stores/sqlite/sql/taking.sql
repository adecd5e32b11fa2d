-- name: ended_letters_of
-- Letters whose job is gone: it was done or discarded long ago.
SELECT l.id, iif(l.state = 'closed', 'done', 'discarded') FROM carray(?1) AS wanted
CROSS JOIN letter AS l ON l.id = wanted.value WHERE l.state IN ('closed', 'discarded')

-- name: add_dead_job
-- A job that died elsewhere.
INSERT INTO job (
  id, task, payload, queue, priority, due_at, external_id, headers, batch, item, parent, needs, expires, release, policy,
  created_at, wire_version, encoding, state, epoch, epoch_at, payload_version, starts, attempts, crashes, losses,
  suspect, fence, ended_at, end_reason, last_error
) VALUES (
  ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'dead', ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, ?
)

-- name: add_letter
-- Its letter.
INSERT INTO letter (
  id, task, queue, priority, state, reason, type, message, fingerprint, attempts, epochs, first_failed_at, failed_at,
  host, worker, release, version, review, returns, rule
) VALUES (?, ?, ?, ?, 'open', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: group_seen_since
-- The cause of letters that are older than those it was known by.
UPDATE letter_group SET first_seen = min(first_seen, ?2) WHERE fingerprint = ?1
