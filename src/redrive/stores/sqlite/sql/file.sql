-- name: tables
-- How many tables there are.
SELECT count(*) FROM sqlite_schema

-- name: meta
-- A value about the file.
SELECT value FROM meta WHERE key = ?

-- name: raise_meta
-- A number about the file, which never falls.
INSERT INTO meta (key, value) VALUES (?1, ?2)
ON CONFLICT DO UPDATE SET value = max(CAST(value AS INTEGER), CAST(excluded.value AS INTEGER))

-- name: applied
-- The migrations that were applied.
SELECT number, checksum FROM migration ORDER BY number

-- name: add_migration
-- A migration is applied.
INSERT INTO migration (number, name, checksum, applied_at) VALUES (?, ?, ?, ?)

-- name: stuck_leases
-- Leases that have ended and that nobody has taken over.
SELECT count(*) FROM job WHERE state = 'leased' AND (lease_boot <> ?1 OR lease_until <= ?2)

-- name: latest_times
-- The last moments that were written.
SELECT (SELECT max(beat_at) FROM worker), (SELECT at FROM journal ORDER BY seq DESC LIMIT 1),
  (SELECT max(minute) FROM counter)
