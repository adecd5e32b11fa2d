-- compatible_from: 2
-- What it takes to trust a redrive: letters that need a person, a ledger that adds up, operations that are resumed.

-- Every job enters and leaves it; those that are ready are found among all by their ids, or by their places in line.
DROP INDEX job_listed_ready;

-- The ids of finished jobs are about the order in which they end; the few others are met on the way through all.
DROP INDEX done_keep;

-- What people look for is open: indexes of nothing else are left alone by what ends, and are half as long.
DROP INDEX letter_open;
DROP INDEX letter_of_state;
DROP INDEX letter_of_queue;
DROP INDEX letter_of_task;
DROP INDEX letter_of_reason;
DROP INDEX letter_of_group;
CREATE INDEX letter_open ON letter (failed_at, id) WHERE state = 'open';
CREATE INDEX letter_open_of_queue ON letter (queue, failed_at, id) WHERE state = 'open';
CREATE INDEX letter_open_of_task ON letter (task, failed_at, id) WHERE state = 'open';
CREATE INDEX letter_open_of_reason ON letter (reason, failed_at, id) WHERE state = 'open';
CREATE INDEX letter_open_of_group ON letter (fingerprint, failed_at, id) WHERE state = 'open';
CREATE INDEX letter_ended_of_state ON letter (state, failed_at, id) WHERE state <> 'open';
CREATE INDEX letter_ended_of_group ON letter (fingerprint, failed_at) WHERE state <> 'open';

-- The letters of a redrive that begins with the oldest, whose turns are below zero.
CREATE INDEX redrive_item_age ON redrive_item (redrive, turn) WHERE state = 'pending' AND turn < 0;

-- Bulk operations that whoever is there carries on, and what they have done to which groups.
CREATE TABLE operation (
  id BLOB PRIMARY KEY,
  verb TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'finished', 'cancelled')),
  query TEXT NOT NULL,
  filter TEXT NOT NULL,
  actor TEXT NOT NULL,
  reason TEXT NOT NULL,
  change TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  cut INTEGER NOT NULL, -- the last failure before it was opened
  mark_at INTEGER, -- how far it has come
  mark_id BLOB,
  moved_at INTEGER NOT NULL DEFAULT 0,
  ended_at INTEGER,
  done INTEGER NOT NULL DEFAULT 0,
  rest TEXT NOT NULL DEFAULT '{}' -- how many letters were left, by why
) STRICT, WITHOUT ROWID;
CREATE INDEX operation_of_state ON operation (state, id);
CREATE TABLE operation_part (
  operation BLOB NOT NULL,
  fingerprint TEXT NOT NULL,
  into_group TEXT NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (operation, fingerprint, into_group)
) STRICT, WITHOUT ROWID;
CREATE INDEX operation_part_group ON operation_part (fingerprint, operation);
-- An edit of many letters can be taken back from those that were not touched since.
ALTER TABLE letter_payload ADD COLUMN operation BLOB;
ALTER TABLE letter_payload ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
CREATE INDEX letter_payload_operation ON letter_payload (operation, letter) WHERE operation IS NOT NULL;
-- What fingerprints are made of, so that rules can be applied to what is there.
ALTER TABLE failure ADD COLUMN frame TEXT NOT NULL DEFAULT '';
ALTER TABLE failure ADD COLUMN plain TEXT NOT NULL DEFAULT '';
ALTER TABLE failure ADD COLUMN plain_title TEXT NOT NULL DEFAULT '';

-- Letters that need a person, how often in a row they came back with the same cause, and which rule has dealt with them.
ALTER TABLE letter ADD COLUMN review TEXT;
ALTER TABLE letter ADD COLUMN returns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE letter ADD COLUMN rule TEXT;
ALTER TABLE letter_total ADD COLUMN review INTEGER NOT NULL DEFAULT 0;
CREATE INDEX letter_review ON letter (state, failed_at, id) WHERE coalesce(review, '') <> '';

-- Whatever changes a letter, the open ones that need a person are counted; nearly all letters pass by.
CREATE TRIGGER letter_review_put AFTER INSERT ON letter WHEN new.review IS NOT NULL AND new.state = 'open'
BEGIN
  INSERT INTO letter_total (queue, task, priority, reason, n, review)
  VALUES (new.queue, new.task, new.priority, new.reason, 0, 1) ON CONFLICT DO UPDATE SET review = review + 1;
END;
CREATE TRIGGER letter_review_gone AFTER DELETE ON letter WHEN old.review IS NOT NULL AND old.state = 'open'
BEGIN
  UPDATE letter_total SET review = review - 1
  WHERE queue = old.queue AND task = old.task AND priority = old.priority AND reason = old.reason;
END;
CREATE TRIGGER letter_review_changed AFTER UPDATE ON letter WHEN old.review IS NOT NULL OR new.review IS NOT NULL
BEGIN
  UPDATE letter_total SET review = review - 1
  WHERE old.review IS NOT NULL AND old.state = 'open'
    AND queue = old.queue AND task = old.task AND priority = old.priority AND reason = old.reason;
  INSERT INTO letter_total (queue, task, priority, reason, n, review)
  SELECT new.queue, new.task, new.priority, new.reason, 0, 1 WHERE new.review IS NOT NULL AND new.state = 'open'
  ON CONFLICT DO UPDATE SET review = review + 1;
END;

-- A redrive that waits for a release of the application begins when a worker reports it.
ALTER TABLE redrive ADD COLUMN begun_at INTEGER;
CREATE INDEX redrive_of_actor ON redrive (actor, id);
-- The ledger: what was there beyond what had been counted, in a store that was made before moves and purges of dead
-- jobs were.
CREATE TABLE carried (
  queue TEXT PRIMARY KEY,
  n INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO carried (queue, n)
SELECT queue, sum(n) FROM (
  SELECT queue, count(*) AS n FROM job WHERE state <> 'discarded' GROUP BY queue
  UNION ALL
  SELECT queue, sum(iif(name IN ('done', 'discarded'), n, -n)) FROM counter
  WHERE name IN ('enqueued', 'imported', 'restored', 'done', 'discarded') GROUP BY queue
) GROUP BY queue HAVING sum(n) <> 0;

-- The seals on what people did: under each the numbers and digests of its entries, chained by their hashes.
CREATE TABLE seal (
  number INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  n INTEGER NOT NULL,
  upto INTEGER NOT NULL,
  hash BLOB NOT NULL,
  forgotten_at INTEGER, -- when its entries were
  lines BLOB NOT NULL
) STRICT;

CREATE INDEX seal_whole ON seal (number) WHERE forgotten_at IS NULL;

ALTER TABLE journal ADD COLUMN seal INTEGER;
CREATE INDEX journal_sealed ON journal (seal, seq) WHERE seal IS NOT NULL;
CREATE INDEX journal_unsealed ON journal (seq) WHERE seal IS NULL AND actor IS NOT NULL;

-- Retention: what was announced before it acts; per queue; and redrives of which only letters are left to be forgotten.
CREATE TABLE notice (
  queue TEXT PRIMARY KEY, -- nothing: all that have no policy of their own
  after INTEGER NOT NULL,
  but TEXT NOT NULL, -- a JSON list
  announced_at INTEGER NOT NULL,
  acts_at INTEGER NOT NULL,
  letters INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX letter_ended_of_queue ON letter (queue, ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE forgotten_redrive (
  id BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Failures are numbered in their order, and what comes after a cut is later than it: when the last one is removed, its
-- number is not given again.
CREATE TABLE failure_last (
  seq INTEGER NOT NULL
) STRICT;
INSERT INTO failure_last (seq) VALUES (0);

CREATE TRIGGER failure_gone AFTER DELETE ON failure WHEN NOT EXISTS (SELECT 1 FROM failure WHERE seq > old.seq)
BEGIN
  UPDATE failure_last SET seq = max(seq, old.seq);
END;
CREATE TRIGGER failure_put AFTER INSERT ON failure WHEN new.seq <= (SELECT seq FROM failure_last)
BEGIN
  UPDATE failure SET seq = (SELECT seq FROM failure_last) + 1 WHERE seq = new.seq;
END;
