-- name: letters_to_edit
-- These letters with what their jobs have.
SELECT l.id, l.state, l.version, l.task, l.queue, l.priority, l.epochs, l.attempts, j.seq, j.payload_version, j.payload,
  l.fingerprint
FROM carray(?1) AS wanted JOIN letter AS l ON l.id = wanted.value LEFT JOIN job AS j ON j.id = l.id

-- name: keep_payload
-- What a job was given until now.
INSERT INTO letter_payload (letter, version, replaced_at, actor, payload, operation, epoch) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: edit_job
-- Another payload, and so another idempotency key.
UPDATE job SET payload = ?2, payload_version = payload_version + 1 WHERE seq = ?1

-- name: edit_letters
-- Whoever has read them before has read something else.
UPDATE letter SET version = version + 1 WHERE id IN (SELECT value FROM carray(?1))

-- name: payloads_of
-- What a job was given before, the original first.
SELECT version, payload, replaced_at, actor FROM letter_payload WHERE letter = ? ORDER BY version

-- name: forget_payloads
-- What the jobs of letters that are gone were given.
DELETE FROM letter_payload WHERE letter IN (SELECT value FROM carray(?1))
