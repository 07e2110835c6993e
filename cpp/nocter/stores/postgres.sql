-- The tables of the PostgreSQL store, all in the schema nocter. A migration begins at a line `-- migration N`, is one transaction, and is
-- never changed once it was released.
--
-- The row of a task is narrow, since a step of its life writes a new version of it; its texts lie in task_text, which a claim or a renewal
-- does not touch. Each index that a look-up uses has only what the look-up may find: what is ready, what may come due, what runs.
-- Times are milliseconds since 1970, and one that never comes is the largest bigint; phase, woken_by, until and key_scope are numbered as in
-- nocter/tasks/model.hpp. Numbers are given out by whoever has the turn to write (nocter.counter), so they rise in the order of commits.

-- migration 1
CREATE TABLE nocter.type (
  number integer PRIMARY KEY,
  name text NOT NULL UNIQUE COLLATE "C"
);
CREATE TABLE nocter.task (
  number bigint PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  root bigint NOT NULL,
  parent bigint NOT NULL,
  type integer NOT NULL,
  created_at bigint NOT NULL,
  woken_by smallint NOT NULL CHECK (woken_by BETWEEN 1 AND 7),
  resumed boolean NOT NULL,
  cancel_requested boolean NOT NULL,
  key_scope smallint NOT NULL CHECK (key_scope BETWEEN 0 AND 2),
  has_key boolean NOT NULL,
  attempt bigint NOT NULL,
  failures bigint NOT NULL,
  max_attempts bigint NOT NULL,
  deliveries bigint NOT NULL,
  rescues bigint NOT NULL,
  fence bigint NOT NULL,
  token bigint NOT NULL,
  settled_token bigint NOT NULL,
  settled_status integer NOT NULL,
  started_at bigint NOT NULL,
  until smallint NOT NULL CHECK (until BETWEEN 0 AND 3),
  wake_on_failure boolean NOT NULL,
  need_all boolean NOT NULL,
  open bigint NOT NULL,
  need bigint NOT NULL,
  children bigint NOT NULL,
  open_children bigint NOT NULL,
  failed_children bigint NOT NULL,
  failed_children_seen bigint NOT NULL,
  mail bigint NOT NULL,
  mail_bytes bigint NOT NULL,
  tree_open bigint NOT NULL,
  priority integer NOT NULL,
  phase smallint NOT NULL CHECK (phase BETWEEN 1 AND 7),
  claim bigint NOT NULL,
  node bigint NOT NULL,
  due_at bigint NOT NULL,
  ended_at bigint NOT NULL,
  tree_ended_at bigint NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX task_ready ON nocter.task (type, priority DESC, number) WHERE phase = 1;
CREATE INDEX task_due ON nocter.task (due_at, number) WHERE phase IN (2, 4) AND due_at < 9223372036854775807;
CREATE INDEX task_running ON nocter.task (node, claim, number) WHERE phase = 3;
CREATE INDEX task_child ON nocter.task (parent, number) WHERE parent <> 0;
CREATE INDEX task_open_child ON nocter.task (parent, number) WHERE parent <> 0 AND ended_at = 0;
CREATE INDEX task_member ON nocter.task (root, number);
CREATE INDEX task_ended_tree ON nocter.task (tree_ended_at, number) WHERE tree_ended_at < 9223372036854775807;
CREATE INDEX task_forgotten ON nocter.task (number) WHERE phase = 4 AND (mail > 0 OR (need <= 0 AND until IN (1, 2)));
CREATE TABLE nocter.task_text (
  task bigint PRIMARY KEY,
  payload text NOT NULL,
  key text NOT NULL,
  state text NOT NULL DEFAULT '',
  result text NOT NULL DEFAULT '',
  failure_kind text NOT NULL DEFAULT '',
  failure_message text NOT NULL DEFAULT '',
  failure_detail text NOT NULL DEFAULT '',
  failure_attempt bigint NOT NULL DEFAULT 0,
  failure_node text NOT NULL DEFAULT '',
  failed_at bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 90);
CREATE TABLE nocter.edge (
  waiter bigint NOT NULL,
  target bigint NOT NULL,
  PRIMARY KEY (waiter, target)
);
CREATE INDEX edge_target ON nocter.edge (target, waiter);
CREATE TABLE nocter.message (
  task bigint NOT NULL,
  number bigint NOT NULL,
  sender uuid NOT NULL,
  sent_at bigint NOT NULL,
  bound_fence bigint NOT NULL,
  deliveries bigint NOT NULL,
  key text NOT NULL,
  payload text NOT NULL,
  PRIMARY KEY (task, number)
);
CREATE TABLE nocter.message_key (
  task bigint NOT NULL,
  key text NOT NULL COLLATE "C",
  PRIMARY KEY (task, key)
);
CREATE TABLE nocter.step (
  task bigint NOT NULL,
  name text NOT NULL COLLATE "C",
  value text NOT NULL,
  PRIMARY KEY (task, name)
);
CREATE TABLE nocter.key (
  scope smallint NOT NULL,
  owner bigint NOT NULL,
  key text NOT NULL COLLATE "C",
  task bigint NOT NULL,
  PRIMARY KEY (scope, owner, key)
);
CREATE INDEX key_task ON nocter.key (task);
CREATE TABLE nocter.shared (
  scope text NOT NULL COLLATE "C",
  key text NOT NULL COLLATE "C",
  value text NOT NULL,
  PRIMARY KEY (scope, key)
);
CREATE TABLE nocter.lock (
  name text PRIMARY KEY COLLATE "C",
  fence bigint NOT NULL,
  token bigint NOT NULL,
  expires_at bigint NOT NULL
);
CREATE TABLE nocter.event (
  sequence bigint PRIMARY KEY,
  happened_at bigint NOT NULL,
  task uuid NOT NULL,
  kind smallint NOT NULL CHECK (kind BETWEEN 1 AND 11),
  status smallint NOT NULL CHECK (status BETWEEN 1 AND 6),
  attempt bigint NOT NULL,
  type integer NOT NULL,
  data text NOT NULL
);
CREATE TABLE nocter.node (
  number bigint PRIMARY KEY,
  name text NOT NULL,
  instance text NOT NULL,
  expires_at bigint NOT NULL,
  dead boolean NOT NULL
);
CREATE TABLE nocter.cascade (
  task bigint PRIMARY KEY,
  told bigint NOT NULL
);
CREATE TABLE nocter.counter (
  name text PRIMARY KEY COLLATE "C",
  value bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE nocter.commit_mark (
  writer uuid PRIMARY KEY,
  mark uuid NOT NULL,
  marked_at bigint NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE nocter.type IS 'Names of task types, by number';
COMMENT ON TABLE nocter.task IS 'Durable tasks: where each stands, without its texts';
COMMENT ON TABLE nocter.task_text IS 'What tasks were given and what they said: payload, key, state, result, last failure';
COMMENT ON TABLE nocter.edge IS 'Who waits for whom by name';
COMMENT ON TABLE nocter.message IS 'Mailboxes; bound_fence: the claim that a message was handed to';
COMMENT ON TABLE nocter.message_key IS 'Dedupe keys of messages, also of those that were used up';
COMMENT ON TABLE nocter.step IS 'Remembered steps of runs';
COMMENT ON TABLE nocter.key IS 'Keys of tasks, each taken once in its scope';
COMMENT ON TABLE nocter.shared IS 'Values that tasks share';
COMMENT ON TABLE nocter.lock IS 'Leased locks; the row stays, so that fences rise for ever';
COMMENT ON TABLE nocter.event IS 'The log of what happened to tasks, without gaps';
COMMENT ON TABLE nocter.node IS 'Processes that work on tasks, each with one lease';
COMMENT ON TABLE nocter.cascade IS 'Cancels that are still on their way down a tree';
COMMENT ON TABLE nocter.counter IS 'Numbers that were given out last, and what is counted';
COMMENT ON TABLE nocter.commit_mark IS 'The last transaction of each writer: how one learns of a commit whose reply was lost';
