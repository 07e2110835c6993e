-- The tables of the SQLite store. A migration begins at a line `-- migration N`, is applied in one transaction of its own, and is never
-- changed once it was released: a database is opened only if its schema is, to the letter, what these make of an empty one.
--
-- A task is one narrow row of `task`, whose state decides which of the partial indexes it stands in: each index is a queue, and what a
-- claim, a timer or a rescue looks for is never behind what it does not look for. Texts lie apart, so that no transition copies them.
-- Times are milliseconds since 1970; phase, woken_by, until and key_scope are numbered as in nocter/tasks/model.hpp.

-- migration 1
CREATE TABLE totals (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  commits INTEGER NOT NULL,
  last_task INTEGER NOT NULL,
  last_message INTEGER NOT NULL,
  last_event INTEGER NOT NULL,
  last_node INTEGER NOT NULL,
  ready INTEGER NOT NULL,
  delayed INTEGER NOT NULL,
  running INTEGER NOT NULL,
  suspended INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  rescues INTEGER NOT NULL,
  repairs INTEGER NOT NULL,
  purged INTEGER NOT NULL,
  clock INTEGER NOT NULL
) STRICT;
INSERT INTO totals VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
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
  tree_ended_at INTEGER
) STRICT;
CREATE UNIQUE INDEX task_id ON task (id);
CREATE INDEX task_ready ON task (type, priority DESC, number) WHERE phase = 1;
CREATE INDEX task_running ON task (node, claim) WHERE phase = 3;
CREATE INDEX task_due ON task (due_at, number) WHERE due_at IS NOT NULL;
CREATE INDEX task_child ON task (parent, number) WHERE parent <> 0;
CREATE INDEX task_open_child ON task (parent, number) WHERE parent <> 0 AND ended_at = 0;
CREATE INDEX task_member ON task (root, number) WHERE parent <> 0;
CREATE INDEX task_tree ON task (tree_ended_at, number) WHERE tree_ended_at IS NOT NULL;
CREATE INDEX task_forgotten ON task (number) WHERE phase = 4 AND (mail > 0 OR (need <= 0 AND until IN (1, 2)));
CREATE TABLE task_payload (
  task INTEGER PRIMARY KEY,
  payload TEXT NOT NULL,
  key TEXT NOT NULL
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
