-- compatible_from: 1
-- The first schema. Ids are the 16 bytes of a UUID; times are microseconds of UTC, those named steady of the boot clock.

PRAGMA application_id = 0x52647276;

CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE migration (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  checksum TEXT NOT NULL,
  applied_at INTEGER NOT NULL
) STRICT;

-- A job that waits, runs, is dead or was discarded; the payload comes last, so that the rest is read without it.
CREATE TABLE job (
  seq INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  state TEXT NOT NULL CHECK (state IN ('scheduled', 'ready', 'leased', 'dead', 'discarded')),
  queue TEXT NOT NULL,
  priority INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  worker TEXT,
  lease_until INTEGER,
  lease_boot TEXT,
  fence INTEGER NOT NULL,
  starts INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  losses INTEGER NOT NULL,
  suspect INTEGER NOT NULL,
  company INTEGER NOT NULL DEFAULT 0,
  epoch INTEGER NOT NULL,
  epoch_at INTEGER NOT NULL,
  payload_version INTEGER NOT NULL,
  wire_version INTEGER NOT NULL,
  encoding INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires INTEGER,
  unknown_since INTEGER,
  ended_at INTEGER,
  keep_until INTEGER,
  end_reason TEXT,
  last_error TEXT,
  task TEXT NOT NULL,
  key TEXT,
  external_id TEXT,
  batch TEXT,
  item TEXT,
  parent TEXT,
  redrive TEXT,
  release TEXT,
  needs TEXT NOT NULL, -- a JSON list, or nothing
  headers BLOB,
  policy BLOB,
  payload BLOB NOT NULL
) STRICT;

CREATE INDEX job_ready ON job (queue, priority DESC, due_at, id) WHERE state = 'ready';
CREATE INDEX job_lane ON job (queue, task, needs, priority DESC, due_at, id) WHERE state = 'ready';
CREATE INDEX job_scheduled ON job (queue, due_at) WHERE state = 'scheduled';
CREATE INDEX job_leased ON job (worker, lease_until, lease_boot) WHERE state = 'leased';
CREATE INDEX job_listed_ready ON job (id) WHERE state = 'ready';
CREATE INDEX job_listed_scheduled ON job (id) WHERE state = 'scheduled';
CREATE INDEX job_listed_dead ON job (id) WHERE state = 'dead';
CREATE INDEX job_listed_discarded ON job (id) WHERE state = 'discarded';
CREATE INDEX job_discarded ON job (keep_until) WHERE state = 'discarded';
CREATE UNIQUE INDEX job_key ON job (key)
  WHERE key IS NOT NULL AND state IN ('scheduled', 'ready', 'leased', 'dead');

-- The narrow row that a finished job leaves.
CREATE TABLE done (
  id BLOB PRIMARY KEY,
  task TEXT NOT NULL,
  queue TEXT NOT NULL,
  ended_at INTEGER NOT NULL,
  keep_until INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  duration INTEGER NOT NULL,
  key TEXT,
  result BLOB
) STRICT, WITHOUT ROWID;

CREATE INDEX done_keep ON done (keep_until);
CREATE INDEX done_key ON done (key, ended_at) WHERE key IS NOT NULL;

-- Text that many failures share.
CREATE TABLE traceback (
  hash BLOB PRIMARY KEY,
  text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE failure (
  seq INTEGER PRIMARY KEY,
  job BLOB NOT NULL,
  epoch INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  at INTEGER NOT NULL,
  duration INTEGER NOT NULL,
  reason TEXT NOT NULL,
  type TEXT NOT NULL,
  message TEXT NOT NULL,
  traceback BLOB REFERENCES traceback (hash),
  fingerprint TEXT NOT NULL,
  title TEXT NOT NULL,
  retryable INTEGER NOT NULL,
  step TEXT,
  host TEXT NOT NULL,
  process INTEGER NOT NULL,
  release TEXT,
  worker TEXT NOT NULL,
  cause TEXT,
  truncated INTEGER NOT NULL
) STRICT;

CREATE INDEX failure_job ON failure (job);
CREATE INDEX failure_traceback ON failure (traceback) WHERE traceback IS NOT NULL;

-- One letter per job, with the counts of the epoch in which it last died.
CREATE TABLE letter (
  id BLOB PRIMARY KEY,
  task TEXT NOT NULL,
  queue TEXT NOT NULL,
  priority INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'redriven', 'closed', 'discarded')),
  reason TEXT NOT NULL,
  type TEXT NOT NULL,
  message TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  epochs INTEGER NOT NULL,
  first_failed_at INTEGER NOT NULL,
  failed_at INTEGER NOT NULL,
  ended_at INTEGER,
  host TEXT NOT NULL,
  worker TEXT NOT NULL,
  release TEXT,
  version INTEGER NOT NULL DEFAULT 1,
  owner TEXT,
  died_at INTEGER -- of one that was discarded as a letter: when its job had died
) STRICT, WITHOUT ROWID;

CREATE INDEX letter_open ON letter (fingerprint, id) WHERE state = 'open';
-- Letters are found by what people ask for, the last failure first.
CREATE INDEX letter_newest ON letter (failed_at, id);
CREATE INDEX letter_of_state ON letter (state, failed_at, id);
CREATE INDEX letter_of_queue ON letter (queue, state, failed_at, id);
CREATE INDEX letter_of_task ON letter (task, state, failed_at, id);
CREATE INDEX letter_of_reason ON letter (reason, state, failed_at, id);
CREATE INDEX letter_of_group ON letter (fingerprint, state, failed_at, id);
CREATE INDEX letter_ended ON letter (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE letter_group (
  fingerprint TEXT PRIMARY KEY,
  title TEXT NOT NULL,
  task TEXT NOT NULL,
  reason TEXT NOT NULL,
  type TEXT NOT NULL,
  count INTEGER NOT NULL,
  first_seen INTEGER NOT NULL,
  last_seen INTEGER NOT NULL,
  sample BLOB NOT NULL,
  state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'muted', 'closed', 'reopened')),
  owner TEXT,
  muted_until INTEGER,
  closed_in TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX letter_group_count ON letter_group (count DESC, fingerprint);

-- What jobs were given before their letters were edited.
CREATE TABLE letter_payload (
  letter BLOB NOT NULL,
  version INTEGER NOT NULL,
  replaced_at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  payload BLOB NOT NULL,
  PRIMARY KEY (letter, version)
) STRICT, WITHOUT ROWID;

-- What people wrote about a group, by its fingerprint, or about a letter, by its id.
CREATE TABLE note (
  seq INTEGER PRIMARY KEY,
  about ANY NOT NULL,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;

CREATE INDEX note_about ON note (about);

-- How many open letters there are of each kind, kept with every change.
CREATE TABLE letter_total (
  queue TEXT NOT NULL,
  task TEXT NOT NULL,
  priority INTEGER NOT NULL,
  reason TEXT NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (queue, task, priority, reason)
) STRICT, WITHOUT ROWID;

-- A durable bulk operation that gives a frozen selection of letters a new epoch.
CREATE TABLE redrive (
  id BLOB PRIMARY KEY,
  state TEXT NOT NULL CHECK (state IN ('freezing', 'running', 'paused', 'finished', 'cancelled')),
  version INTEGER NOT NULL DEFAULT 1,
  plan TEXT NOT NULL,
  judge TEXT NOT NULL,
  actor TEXT NOT NULL,
  reason TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  frozen_at INTEGER,
  ended_at INTEGER,
  total INTEGER NOT NULL DEFAULT 0,
  stage INTEGER NOT NULL DEFAULT 0,
  stage_left INTEGER NOT NULL DEFAULT 0,
  stage_at INTEGER NOT NULL DEFAULT 0,
  why TEXT NOT NULL DEFAULT '',
  cut INTEGER NOT NULL, -- the last failure before it was opened
  mark_at INTEGER, -- how far the freezing has come
  mark_id BLOB,
  paced_at INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX redrive_of_state ON redrive (state, id);

-- How each cause does in a redrive: where its letters are, and the first answer that each has given.
CREATE TABLE redrive_cause (
  redrive BLOB NOT NULL,
  cause TEXT NOT NULL,
  total INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  released INTEGER NOT NULL DEFAULT 0,
  succeeded INTEGER NOT NULL DEFAULT 0,
  recurred INTEGER NOT NULL DEFAULT 0,
  otherwise INTEGER NOT NULL DEFAULT 0,
  discarded INTEGER NOT NULL DEFAULT 0,
  passed INTEGER NOT NULL DEFAULT 0,
  relapsed INTEGER NOT NULL DEFAULT 0,
  strayed INTEGER NOT NULL DEFAULT 0,
  dropped INTEGER NOT NULL DEFAULT 0,
  stopped INTEGER, -- in which stage
  PRIMARY KEY (redrive, cause)
) STRICT, WITHOUT ROWID;

CREATE TABLE redrive_stage (
  redrive BLOB NOT NULL,
  number INTEGER NOT NULL,
  at INTEGER NOT NULL,
  released INTEGER NOT NULL DEFAULT 0,
  passed INTEGER NOT NULL DEFAULT 0,
  relapsed INTEGER NOT NULL DEFAULT 0,
  strayed INTEGER NOT NULL DEFAULT 0,
  dropped INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (redrive, number)
) STRICT, WITHOUT ROWID;

-- A letter in a redrive, with the epoch in which it died, then the one that it was given.
CREATE TABLE redrive_item (
  redrive BLOB NOT NULL,
  id BLOB NOT NULL,
  cause TEXT NOT NULL,
  turn INTEGER NOT NULL, -- its place among those of its cause
  epoch INTEGER NOT NULL,
  state TEXT NOT NULL,
  verdict TEXT,
  stage INTEGER NOT NULL DEFAULT 0,
  why TEXT NOT NULL DEFAULT '',
  at INTEGER NOT NULL,
  PRIMARY KEY (redrive, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX redrive_item_turn ON redrive_item (redrive, cause, turn) WHERE state = 'pending';
CREATE INDEX redrive_item_letter ON redrive_item (id) WHERE state IN ('pending', 'released');
CREATE INDEX redrive_item_state ON redrive_item (redrive, state, id);

-- A few successes of each task, to compare failures with; each knows the how many-th it was.
CREATE TABLE success (
  task TEXT NOT NULL,
  place INTEGER NOT NULL,
  seen INTEGER NOT NULL,
  at INTEGER NOT NULL,
  host TEXT NOT NULL,
  release TEXT,
  size INTEGER NOT NULL,
  payload BLOB,
  PRIMARY KEY (task, place)
) STRICT, WITHOUT ROWID;

-- Jobs that were purged and must not return.
CREATE TABLE tombstone (
  id BLOB PRIMARY KEY,
  purged_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE gate (
  kind TEXT NOT NULL CHECK (kind IN ('queue', 'dependency', 'task')),
  key TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'trial')),
  reason TEXT,
  until INTEGER,
  depth_limit INTEGER,
  changed_at INTEGER NOT NULL,
  actor TEXT,
  PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE worker (
  id TEXT PRIMARY KEY,
  host TEXT NOT NULL,
  boot TEXT NOT NULL,
  pid INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  beat_at INTEGER NOT NULL,
  alive_until INTEGER NOT NULL, -- steady
  alive_boot TEXT NOT NULL,
  lock_device INTEGER NOT NULL,
  lock_inode INTEGER NOT NULL,
  release TEXT,
  tasks TEXT NOT NULL,
  queues TEXT NOT NULL,
  slots INTEGER NOT NULL,
  stuck INTEGER NOT NULL,
  running TEXT NOT NULL,
  state TEXT NOT NULL,
  told TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE duty (
  name TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  until INTEGER NOT NULL, -- steady
  boot TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE journal (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  event TEXT NOT NULL,
  job BLOB,
  task TEXT,
  queue TEXT,
  epoch INTEGER,
  attempt INTEGER,
  reason TEXT,
  worker TEXT,
  actor TEXT,
  text TEXT
) STRICT;

CREATE INDEX journal_job ON journal (job) WHERE job IS NOT NULL;

CREATE TABLE counter (
  minute INTEGER NOT NULL,
  queue TEXT NOT NULL,
  task TEXT NOT NULL,
  priority INTEGER NOT NULL,
  worker TEXT NOT NULL,
  name TEXT NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (minute, queue, task, priority, worker, name)
) STRICT, WITHOUT ROWID;

-- Those that were not merged yet; a merged row has no worker and the priority -1.
CREATE INDEX counter_loose ON counter (minute) WHERE priority >= 0;

-- How many jobs of a queue are in each state, kept with every change.
CREATE TABLE depth (
  queue TEXT NOT NULL,
  state TEXT NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (queue, state)
) STRICT, WITHOUT ROWID;
