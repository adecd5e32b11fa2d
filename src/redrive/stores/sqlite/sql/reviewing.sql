-- name: letters_to_review
-- What these letters are now.
SELECT l.id, l.state, l.review, l.task, l.queue, l.epochs, l.attempts FROM carray(?1) AS wanted
JOIN letter AS l ON l.id = wanted.value

-- name: review_letters
-- They need a person, or with NULL none any more: then what they came back before does not count.
UPDATE letter SET review = ?2, returns = iif(?2 IS NULL, 0, returns), version = version + 1, rule = coalesce(?3, rule)
WHERE id IN (SELECT value FROM carray(?1))

-- name: untold_letters
-- Which of these are open, and no rule has told of them since they died.
SELECT l.id, l.fingerprint FROM carray(?1) AS wanted CROSS JOIN letter AS l ON l.id = wanted.value
WHERE l.state = 'open' AND l.rule IS NULL

-- name: rule_letters
-- A rule has dealt with them.
UPDATE letter SET rule = ?2 WHERE id IN (SELECT value FROM carray(?1))

-- name: held_letters
-- Which of these need a person, and which have expired.
SELECT l.id, l.review, j.expires FROM carray(?1) AS wanted
JOIN letter AS l ON l.id = wanted.value LEFT JOIN job AS j ON j.id = l.id
WHERE l.review IS NOT NULL OR j.expires <= ?2

-- name: without_end
-- These jobs run although their time was over.
UPDATE job SET expires = NULL WHERE seq IN (SELECT value FROM carray(?1)) AND expires <= ?2
