-- The tables of the SQLite store. A migration begins at a line `-- migration N`, is applied in one transaction of its own, and is never
-- changed once it was released: a database is opened only if its schema is, to the letter, what these make of an empty one.
--
-- A task is one row of `task`, with its texts in it as long as they are short: a step of its life then writes one leaf of the table and one
-- or two of the one index `task_place`. That one has every task at exactly one place, so that what a claim, a timer, a rescue or a purge
-- looks for is never behind what it does not look for, and a count by phase reads nothing but the index. Of a place, by phase:
--   ready               place: type            rank: -priority
--   delayed, suspended  place: due_at          rank: 0
--   running             place: node            rank: claim
--   ended               place: tree_ended_at   rank: 0
-- where a time that never comes is the largest number. The phases descend, so that those who end are put down beside those who run, often
-- in one leaf. There is no row that every commit would have to write: what is counted is counted when somebody asks, and the next numbers
-- follow from the greatest ones there are, or were (`counter`).
-- Times are milliseconds since 1970; phase, woken_by, until and key_scope are numbered as in nocter/tasks/model.hpp.

-- migration 1
CREATE TABLE type (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE task (
  number INTEGER PRIMARY KEY,
  id BLOB NOT NULL,
  root INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  type INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  woken_by INTEGER NOT NULL,
  resumed INTEGER NOT NULL,
  cancel_requested INTEGER NOT NULL,
  key_scope INTEGER NOT NULL,
  has_key INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  deliveries INTEGER NOT NULL,
  rescues INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  token INTEGER NOT NULL,
  settled_token INTEGER NOT NULL,
  settled_status INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  until INTEGER NOT NULL,
  wake_on_failure INTEGER NOT NULL,
  need_all INTEGER NOT NULL,
  open INTEGER NOT NULL,
  need INTEGER NOT NULL,
  children INTEGER NOT NULL,
  open_children INTEGER NOT NULL,
  failed_children INTEGER NOT NULL,
  failed_children_seen INTEGER NOT NULL,
  mail INTEGER NOT NULL,
  mail_bytes INTEGER NOT NULL,
  tree_open INTEGER NOT NULL,
  texts INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  phase INTEGER NOT NULL,
  claim INTEGER NOT NULL,
  node INTEGER NOT NULL,
  due_at INTEGER,
  ended_at INTEGER NOT NULL,
  tree_ended_at INTEGER,
  place INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  payload TEXT NOT NULL,
  key TEXT NOT NULL,
  result TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX task_id ON task (id);
CREATE INDEX task_place ON task (phase DESC, place, rank);
CREATE INDEX task_child ON task (parent, number) WHERE parent <> 0;
CREATE INDEX task_open_child ON task (parent, number) WHERE parent <> 0 AND ended_at = 0;
CREATE INDEX task_member ON task (root, number) WHERE parent <> 0;
CREATE INDEX task_forgotten ON task (number) WHERE phase = 4 AND (mail > 0 OR (need <= 0 AND until IN (1, 2)));
CREATE TABLE task_payload (
  task INTEGER PRIMARY KEY,
  payload TEXT NOT NULL
) STRICT;
CREATE TABLE task_state (
  task INTEGER PRIMARY KEY,
  state TEXT NOT NULL
) STRICT;
CREATE TABLE task_result (
  task INTEGER PRIMARY KEY,
  result TEXT NOT NULL
) STRICT;
CREATE TABLE task_failure (
  task INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  message TEXT NOT NULL,
  detail TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  node TEXT NOT NULL,
  failed_at INTEGER NOT NULL
) STRICT;
CREATE TABLE edge (
  waiter INTEGER NOT NULL,
  target INTEGER NOT NULL,
  PRIMARY KEY (waiter, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX edge_target ON edge (target, waiter);
CREATE TABLE message (
  task INTEGER NOT NULL,
  number INTEGER NOT NULL,
  sender BLOB NOT NULL,
  sent_at INTEGER NOT NULL,
  bound_fence INTEGER NOT NULL,
  deliveries INTEGER NOT NULL,
  key TEXT NOT NULL,
  payload TEXT NOT NULL,
  PRIMARY KEY (task, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE message_key (
  task INTEGER NOT NULL,
  key TEXT NOT NULL,
  PRIMARY KEY (task, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE step (
  task INTEGER NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (task, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE key (
  scope INTEGER NOT NULL,
  owner INTEGER NOT NULL,
  key TEXT NOT NULL,
  task INTEGER NOT NULL,
  PRIMARY KEY (scope, owner, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_task ON key (task);
CREATE TABLE shared (
  scope TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE lock (
  name TEXT PRIMARY KEY,
  fence INTEGER NOT NULL,
  token INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE event (
  sequence INTEGER PRIMARY KEY,
  happened_at INTEGER NOT NULL,
  task BLOB NOT NULL,
  kind INTEGER NOT NULL,
  status INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  type INTEGER NOT NULL,
  data TEXT NOT NULL
) STRICT;
CREATE TABLE node (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  instance TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  dead INTEGER NOT NULL
) STRICT;
CREATE TABLE cascade (
  task INTEGER PRIMARY KEY,
  told INTEGER NOT NULL
) STRICT;
CREATE TABLE counter (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
