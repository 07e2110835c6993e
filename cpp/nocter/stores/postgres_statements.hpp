// Every statement of the PostgreSQL store. No value is ever a part of one (SEC-01). A statement's place in a connection's table is the line it
// stands in here, so each has a line of its own.
#pragma once

#include "nocter/stores/postgres_connection.hpp"

namespace nocter::stores::postgres::sql {

// clang-format off
#define NOCTER_PG_TASK "t.number, t.id, t.root, t.parent, t.type, t.created_at, t.woken_by, t.resumed, t.cancel_requested, t.key_scope, t.has_key, t.attempt, t.failures, t.max_attempts, t.deliveries, t.rescues, t.fence, t.token, t.settled_token, t.settled_status, t.started_at, t.until, t.wake_on_failure, t.need_all, t.open, t.need, t.children, t.open_children, t.failed_children, t.failed_children_seen, t.mail, t.mail_bytes, t.tree_open, t.priority, t.phase, t.claim, t.node, t.due_at, t.ended_at, t.tree_ended_at"
#define NOCTER_PG_TEXT "x.payload, x.key, x.state, x.result, x.failure_kind, x.failure_message, x.failure_detail, x.failure_attempt, x.failure_node, x.failed_at"
#define NOCTER_PG_SET "woken_by = $2, resumed = $3, cancel_requested = $4, key_scope = $5, has_key = $6, attempt = $7, failures = $8, max_attempts = $9, deliveries = $10, rescues = $11, fence = $12, token = $13, settled_token = $14, settled_status = $15, started_at = $16, until = $17, wake_on_failure = $18, need_all = $19, open = $20, need = $21, children = $22, open_children = $23, failed_children = $24, failed_children_seen = $25, mail = $26, mail_bytes = $27, tree_open = $28, priority = $29, phase = $30, claim = $31, node = $32, due_at = $33, ended_at = $34, tree_ended_at = $35"
#define NOCTER_PG_COLUMNS "number, id, root, parent, type, created_at, woken_by, resumed, cancel_requested, key_scope, has_key, attempt, failures, max_attempts, deliveries, rescues, fence, token, settled_token, settled_status, started_at, until, wake_on_failure, need_all, open, need, children, open_children, failed_children, failed_children_seen, mail, mail_bytes, tree_open, priority, phase, claim, node, due_at, ended_at, tree_ended_at"
#define NOCTER_PG_VALUES "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40"
#define NOCTER_PG_MOST "9223372036854775807"
#define NOCTER_PG_PLANS "set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)"

// ---- Transactions. Nothing is set for longer than one, so that a pool may give each to another connection
inline constexpr Sql kBegin{__LINE__, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"};
inline constexpr Sql kBeginRead{__LINE__, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"};
inline constexpr Sql kRollBack{__LINE__, "ROLLBACK"};
inline constexpr Sql kMark{__LINE__, "SAVEPOINT mark"};
inline constexpr Sql kBackToMark{__LINE__, "ROLLBACK TO SAVEPOINT mark"};
inline constexpr Sql kDropMark{__LINE__, "RELEASE SAVEPOINT mark"};
// The plans that indexes make: a prepared statement may be planned while its table is empty, and used when it has millions of rows.
inline constexpr Sql kReadSettings{__LINE__, "SELECT set_config('statement_timeout', $1::bigint::text, true), set_config('idle_in_transaction_session_timeout', $2::bigint::text, true), " NOCTER_PG_PLANS};
inline constexpr Sql kWriteSettings{__LINE__, "SELECT set_config('statement_timeout', $1::bigint::text, true), set_config('idle_in_transaction_session_timeout', $2::bigint::text, true), set_config('lock_timeout', $3::bigint::text, true), set_config('synchronous_commit', CASE WHEN $4 THEN CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END ELSE 'off' END, true), " NOCTER_PG_PLANS};
inline constexpr Sql kTurn{__LINE__, "SELECT pg_advisory_xact_lock($1)"};
inline constexpr Sql kLook{__LINE__, "SELECT name, value FROM nocter.counter UNION ALL SELECT '@now', (extract(epoch FROM clock_timestamp()) * 1000)::bigint UNION ALL (SELECT '@due', due_at FROM nocter.task WHERE phase IN (2, 4) AND due_at < " NOCTER_PG_MOST " ORDER BY due_at LIMIT 1) UNION ALL (SELECT '@cascade', 1 FROM nocter.cascade LIMIT 1) UNION ALL (SELECT '@edge', 1 FROM nocter.edge LIMIT 1)"};
inline constexpr Sql kReadCounter{__LINE__, "SELECT value FROM nocter.counter WHERE name = $1"};
inline constexpr Sql kWriteCounter{__LINE__, "INSERT INTO nocter.counter (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"};
inline constexpr Sql kPutMark{__LINE__, "INSERT INTO nocter.commit_mark (writer, mark, marked_at) VALUES ($1, $2, $3) ON CONFLICT (writer) DO UPDATE SET mark = excluded.mark, marked_at = excluded.marked_at"};
inline constexpr Sql kReadMark{__LINE__, "SELECT mark FROM nocter.commit_mark WHERE writer = $1"};
inline constexpr Sql kNotify{__LINE__, "SELECT pg_notify('nocter', '')"};
inline constexpr Sql kListen{__LINE__, "LISTEN nocter"};
inline constexpr Sql kForgetMarks{__LINE__, "DELETE FROM nocter.commit_mark WHERE marked_at < (extract(epoch FROM now()) * 1000)::bigint - 86400000"};
inline constexpr Sql kCountPhases{__LINE__, "SELECT phase, count(*), min(created_at) FROM nocter.task GROUP BY phase"};

// ---- Types
inline constexpr Sql kFindType{__LINE__, "SELECT number FROM nocter.type WHERE name = $1"};
inline constexpr Sql kMakeType{__LINE__, "INSERT INTO nocter.type (number, name) VALUES ($1, $2)"};
inline constexpr Sql kTypeName{__LINE__, "SELECT name FROM nocter.type WHERE number = $1"};

// ---- Rows
inline constexpr Sql kFindTask{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.id = $1"};
inline constexpr Sql kLoadTask{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.number = $1"};
inline constexpr Sql kInsertTask{__LINE__, "INSERT INTO nocter.task (" NOCTER_PG_COLUMNS ") VALUES (" NOCTER_PG_VALUES ")"};
inline constexpr Sql kInsertText{__LINE__, "INSERT INTO nocter.task_text (task, payload, key) VALUES ($1, $2, $3)"};
inline constexpr Sql kUpdateTask{__LINE__, "UPDATE nocter.task SET " NOCTER_PG_SET " WHERE number = $1"};
inline constexpr Sql kDeleteTask{__LINE__, "DELETE FROM nocter.task WHERE number = $1"};
inline constexpr Sql kDeleteText{__LINE__, "DELETE FROM nocter.task_text WHERE task = $1"};
inline constexpr Sql kDeleteMessages{__LINE__, "DELETE FROM nocter.message WHERE task = $1"};
inline constexpr Sql kDeleteMessageKeys{__LINE__, "DELETE FROM nocter.message_key WHERE task = $1"};
inline constexpr Sql kDeleteSteps{__LINE__, "DELETE FROM nocter.step WHERE task = $1"};
// What a batch names, with the roots and parents of that: one look for all.
inline constexpr Sql kExpected{__LINE__, "WITH named AS (SELECT number, root, parent FROM nocter.task WHERE id = ANY ($1::text::uuid[]) UNION SELECT number, root, parent FROM nocter.task WHERE number = ANY ($2::text::bigint[])) SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.number IN (SELECT number FROM named UNION SELECT root FROM named UNION SELECT parent FROM named)"};

// ---- Look-ups by index
inline constexpr Sql kReady{__LINE__, "SELECT " NOCTER_PG_TASK ", " NOCTER_PG_TEXT " FROM nocter.task AS t JOIN nocter.task_text AS x ON x.task = t.number WHERE t.phase = 1 AND t.type = $1 ORDER BY t.priority DESC, t.number LIMIT $2"};
inline constexpr Sql kNextReadyType{__LINE__, "SELECT type FROM nocter.task WHERE phase = 1 AND type > $1 ORDER BY type LIMIT 1"};
inline constexpr Sql kDue{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.phase IN (2, 4) AND t.due_at < " NOCTER_PG_MOST " AND t.due_at <= $1 ORDER BY t.due_at, t.number LIMIT $2"};
inline constexpr Sql kNextDue{__LINE__, "SELECT due_at FROM nocter.task WHERE phase IN (2, 4) AND due_at < " NOCTER_PG_MOST " ORDER BY due_at LIMIT 1"};
inline constexpr Sql kRunningOn{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.phase = 3 AND t.node = $1 ORDER BY t.claim, t.number LIMIT $2"};
inline constexpr Sql kClaimedAs{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.phase = 3 AND t.node = $1 AND t.claim = $2 ORDER BY t.number"};
inline constexpr Sql kClaimedAmong{__LINE__, "SELECT DISTINCT claim FROM nocter.task WHERE phase = 3 AND node = $1 AND claim = ANY ($2::text::bigint[])"};
inline constexpr Sql kChildren{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.parent = $1 AND t.parent <> 0 AND t.number > $2 ORDER BY t.number LIMIT $3"};
inline constexpr Sql kOpenChildren{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.parent = $1 AND t.parent <> 0 AND t.ended_at = 0 AND t.number > $2 ORDER BY t.number LIMIT $3"};
inline constexpr Sql kLastMembers{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.root = $1 ORDER BY t.number DESC LIMIT $2"};
inline constexpr Sql kEndedTrees{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.tree_ended_at < $1 AND t.tree_ended_at < " NOCTER_PG_MOST " ORDER BY t.tree_ended_at, t.number LIMIT $2"};
inline constexpr Sql kForgotten{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.phase = 4 AND (t.mail > 0 OR (t.need <= 0 AND t.until IN (1, 2))) ORDER BY t.number LIMIT $1"};
#define NOCTER_PG_FILTER " AND t.id > $1 AND ($3 = 0 OR t.type = $3) AND t.phase BETWEEN $4 AND $5 AND (NOT $6 OR t.parent = 0) AND t.created_at < $7 AND ($8 = 0 OR t.parent = $8) AND ($9 = 0 OR t.root = $9) ORDER BY t.id LIMIT $2"
inline constexpr Sql kList{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE true" NOCTER_PG_FILTER};
inline constexpr Sql kListChildren{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.parent = $8 AND t.parent <> 0" NOCTER_PG_FILTER};
inline constexpr Sql kListMembers{__LINE__, "SELECT " NOCTER_PG_TASK " FROM nocter.task AS t WHERE t.root = $9" NOCTER_PG_FILTER};

// ---- Texts
inline constexpr Sql kReadText{__LINE__, "SELECT " NOCTER_PG_TEXT " FROM nocter.task_text AS x WHERE x.task = $1"};
inline constexpr Sql kPutState{__LINE__, "UPDATE nocter.task_text SET state = $2 WHERE task = $1"};
inline constexpr Sql kPutResult{__LINE__, "UPDATE nocter.task_text SET result = $2 WHERE task = $1"};
inline constexpr Sql kPutFailure{__LINE__, "UPDATE nocter.task_text SET failure_kind = $2, failure_message = $3, failure_detail = $4, failure_attempt = $5, failure_node = $6, failed_at = $7 WHERE task = $1"};

// ---- Edges
inline constexpr Sql kAddEdge{__LINE__, "INSERT INTO nocter.edge (waiter, target) VALUES ($1, $2) ON CONFLICT DO NOTHING"};
inline constexpr Sql kTargetsOf{__LINE__, "SELECT target FROM nocter.edge WHERE waiter = $1 ORDER BY target"};
inline constexpr Sql kWaitersOf{__LINE__, "SELECT waiter FROM nocter.edge WHERE target = $1 ORDER BY waiter"};
inline constexpr Sql kRemoveEdgesFrom{__LINE__, "DELETE FROM nocter.edge WHERE waiter = $1"};
inline constexpr Sql kRemoveEdgesTo{__LINE__, "DELETE FROM nocter.edge WHERE target = $1"};

// ---- Mailboxes
inline constexpr Sql kAddMessage{__LINE__, "INSERT INTO nocter.message (task, number, sender, sent_at, bound_fence, deliveries, key, payload) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"};
inline constexpr Sql kAddMessageKey{__LINE__, "INSERT INTO nocter.message_key (task, key) VALUES ($1, $2) ON CONFLICT DO NOTHING"};
inline constexpr Sql kHasMessageKey{__LINE__, "SELECT 1 FROM nocter.message_key WHERE task = $1 AND key = $2"};
inline constexpr Sql kMessages{__LINE__, "SELECT number, sender, sent_at, bound_fence, deliveries, key, payload FROM nocter.message WHERE task = $1 AND (NOT $2 OR bound_fence = 0) ORDER BY number LIMIT $3"};
inline constexpr Sql kBindMessage{__LINE__, "UPDATE nocter.message SET bound_fence = $3, deliveries = deliveries + 1 WHERE task = $1 AND number = $2"};
inline constexpr Sql kUnbindMessages{__LINE__, "UPDATE nocter.message SET bound_fence = 0 WHERE task = $1 AND bound_fence <> 0"};
inline constexpr Sql kRemoveBound{__LINE__, "WITH gone AS (DELETE FROM nocter.message WHERE task = $1 AND bound_fence = $2 RETURNING octet_length(payload) AS bytes) SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone"};

// ---- Steps, keys, shared values, locks
inline constexpr Sql kFindStep{__LINE__, "SELECT value FROM nocter.step WHERE task = $1 AND name = $2"};
inline constexpr Sql kAddStep{__LINE__, "INSERT INTO nocter.step (task, name, value) VALUES ($1, $2, $3)"};
inline constexpr Sql kFindKey{__LINE__, "SELECT task FROM nocter.key WHERE scope = $1 AND owner = $2 AND key = $3"};
inline constexpr Sql kAddKey{__LINE__, "INSERT INTO nocter.key (scope, owner, key, task) VALUES ($1, $2, $3, $4)"};
inline constexpr Sql kRemoveKeysOf{__LINE__, "DELETE FROM nocter.key WHERE task = $1"};
inline constexpr Sql kFindShared{__LINE__, "SELECT value FROM nocter.shared WHERE scope = $1 AND key = $2"};
inline constexpr Sql kPutShared{__LINE__, "INSERT INTO nocter.shared (scope, key, value) VALUES ($1, $2, $3) ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value"};
inline constexpr Sql kAllShared{__LINE__, "SELECT key, value FROM nocter.shared WHERE scope = $1 ORDER BY key"};
inline constexpr Sql kClearShared{__LINE__, "DELETE FROM nocter.shared WHERE scope = $1"};
inline constexpr Sql kFindLock{__LINE__, "SELECT fence, token, expires_at FROM nocter.lock WHERE name = $1"};
inline constexpr Sql kPutLock{__LINE__, "INSERT INTO nocter.lock (name, fence, token, expires_at) VALUES ($1, $2, $3, $4) ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, token = excluded.token, expires_at = excluded.expires_at"};

// ---- Events
inline constexpr Sql kAddEvent{__LINE__, "INSERT INTO nocter.event (sequence, happened_at, task, kind, status, attempt, type, data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"};
inline constexpr Sql kEvents{__LINE__, "SELECT e.sequence, e.happened_at, e.task, e.kind, e.status, e.attempt, t.name, e.data FROM nocter.event AS e JOIN nocter.type AS t ON t.number = e.type WHERE e.sequence > $1 ORDER BY e.sequence LIMIT $2"};
inline constexpr Sql kRemoveEvents{__LINE__, "DELETE FROM nocter.event WHERE sequence IN (SELECT sequence FROM (SELECT sequence, happened_at FROM nocter.event ORDER BY sequence LIMIT $2) AS first WHERE happened_at < $1)"};

// ---- Nodes, cascades
inline constexpr Sql kInsertNode{__LINE__, "INSERT INTO nocter.node (number, name, instance, expires_at, dead) VALUES ($1, $2, $3, $4, $5)"};
inline constexpr Sql kUpdateNode{__LINE__, "UPDATE nocter.node SET name = $2, instance = $3, expires_at = $4, dead = $5 WHERE number = $1"};
inline constexpr Sql kRemoveNode{__LINE__, "DELETE FROM nocter.node WHERE number = $1"};
inline constexpr Sql kLostNodes{__LINE__, "SELECT number, name, instance, expires_at, dead FROM nocter.node WHERE dead OR expires_at <= $1 ORDER BY number LIMIT $2"};
inline constexpr Sql kNodes{__LINE__, "SELECT number, name, instance, expires_at, dead FROM nocter.node ORDER BY number"};
inline constexpr Sql kPutCascade{__LINE__, "INSERT INTO nocter.cascade (task, told) VALUES ($1, $2) ON CONFLICT (task) DO UPDATE SET told = excluded.told"};
inline constexpr Sql kCascades{__LINE__, "SELECT task, told FROM nocter.cascade ORDER BY task LIMIT $1"};
inline constexpr Sql kRemoveCascade{__LINE__, "DELETE FROM nocter.cascade WHERE task = $1"};
inline constexpr Sql kAnyEdge{__LINE__, "SELECT 1 FROM nocter.edge LIMIT 1"};
inline constexpr Sql kAnyCascade{__LINE__, "SELECT 1 FROM nocter.cascade LIMIT 1"};
// clang-format on

}  // namespace nocter::stores::postgres::sql
