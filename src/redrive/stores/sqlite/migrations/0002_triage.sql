-- compatible_from: 2
-- What it takes to trust a redrive: letters that need a person, a ledger that adds up, operations that are resumed.

-- Every job enters and leaves it; those that are ready are found among all by their ids, or by their places in line.
DROP INDEX job_listed_ready;

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

-- The letters of a redrive that begins with the oldest, whose turns are below zero.
CREATE INDEX redrive_item_age ON redrive_item (redrive, turn) WHERE state = 'pending' AND turn < 0;
