// Every statement of the SQLite store. No value is ever a part of one (SEC-01). A statement's place in a connection's table is the line it
// stands in here, so each has a line of its own.
#pragma once

#include "nocter/stores/sqlite_connection.hpp"

namespace nocter::stores::sql {

// clang-format off
// The columns of a task in groups. A claim and the end of a task without children change those of "living", "tree", "moving" and "ending"
// alone, and most statements are one of these two: each value that is not bound is time saved.
#define NOCTER_TASK_MADE "number, id, root, parent, type, created_at"
#define NOCTER_TASK_LIVING "attempt, deliveries, fence, token, settled_token, settled_status, started_at"
#define NOCTER_TASK_TREE "tree_open, texts"
#define NOCTER_TASK_GIVEN "key_scope, has_key, max_attempts"
#define NOCTER_TASK_RARE "woken_by, resumed, cancel_requested, failures, rescues, until, wake_on_failure, need_all, open, need, children, open_children, failed_children, failed_children_seen, mail, mail_bytes"
#define NOCTER_TASK_MOVING "priority, phase, claim, node, due_at"
#define NOCTER_TASK_ENDING "ended_at, tree_ended_at"
#define NOCTER_TASK_PLACE "place, rank"
#define NOCTER_TASK_TEXTS "payload, key, result"
#define NOCTER_TASK NOCTER_TASK_MADE ", " NOCTER_TASK_LIVING ", " NOCTER_TASK_TREE ", " NOCTER_TASK_GIVEN ", " NOCTER_TASK_RARE ", " NOCTER_TASK_MOVING ", " NOCTER_TASK_ENDING
#define NOCTER_SET_LIVING "attempt = ?, deliveries = ?, fence = ?, token = ?, settled_token = ?, settled_status = ?, started_at = ?, tree_open = ?, texts = ?"
#define NOCTER_SET_RARE ", key_scope = ?, has_key = ?, max_attempts = ?, woken_by = ?, resumed = ?, cancel_requested = ?, failures = ?, rescues = ?, until = ?, wake_on_failure = ?, need_all = ?, open = ?, need = ?, children = ?, open_children = ?, failed_children = ?, failed_children_seen = ?, mail = ?, mail_bytes = ?"
#define NOCTER_SET_MOVING ", priority = ?, phase = ?, claim = ?, node = ?, due_at = ?, place = ?, rank = ?"
// A result that is not given stays as it is.
#define NOCTER_SET_ENDING ", ended_at = ?, tree_ended_at = ?, result = ifnull(?, result)"

// ---- Transactions
inline constexpr Sql kBeginWrite{__LINE__, "BEGIN IMMEDIATE"};
inline constexpr Sql kBeginRead{__LINE__, "BEGIN"};
inline constexpr Sql kRollBack{__LINE__, "ROLLBACK"};
inline constexpr Sql kCommit{__LINE__, "COMMIT"};
inline constexpr Sql kMark{__LINE__, "SAVEPOINT mark"};
inline constexpr Sql kBackToMark{__LINE__, "ROLLBACK TO mark"};
inline constexpr Sql kDropMark{__LINE__, "RELEASE mark"};
inline constexpr Sql kDataVersion{__LINE__, "PRAGMA data_version"};
inline constexpr Sql kLastTask{__LINE__, "SELECT max(number) FROM task"};
inline constexpr Sql kLastEvent{__LINE__, "SELECT max(sequence) FROM event"};
inline constexpr Sql kCountPhase{__LINE__, "SELECT count(*) FROM task INDEXED BY task_place WHERE phase = ?1"};
inline constexpr Sql kReadCounter{__LINE__, "SELECT value FROM counter WHERE name = ?1"};
inline constexpr Sql kWriteCounter{__LINE__, "INSERT INTO counter (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value"};

// ---- Types
inline constexpr Sql kFindType{__LINE__, "SELECT number FROM type WHERE name = ?1"};
inline constexpr Sql kMakeType{__LINE__, "INSERT INTO type (name) VALUES (?1)"};
inline constexpr Sql kTypeName{__LINE__, "SELECT name FROM type WHERE number = ?1"};

// ---- Rows
inline constexpr Sql kFindTask{__LINE__, "SELECT " NOCTER_TASK " FROM task WHERE id = ?1"};
inline constexpr Sql kLoadTask{__LINE__, "SELECT " NOCTER_TASK ", " NOCTER_TASK_TEXTS " FROM task WHERE number = ?1"};
inline constexpr Sql kInsertTask{__LINE__, "INSERT INTO task (" NOCTER_TASK_MADE ", " NOCTER_TASK_TREE ", " NOCTER_TASK_GIVEN ", " NOCTER_TASK_MOVING ", " NOCTER_TASK_PLACE ", payload, key, " NOCTER_TASK_LIVING ", " NOCTER_TASK_RARE ", " NOCTER_TASK_ENDING ", result) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '')"};
// One that nothing has happened to yet: the values are those of TaskRow.
inline constexpr Sql kInsertFresh{__LINE__, "INSERT INTO task (" NOCTER_TASK_MADE ", " NOCTER_TASK_TREE ", " NOCTER_TASK_GIVEN ", " NOCTER_TASK_MOVING ", " NOCTER_TASK_PLACE ", payload, key, " NOCTER_TASK_LIVING ", " NOCTER_TASK_RARE ", " NOCTER_TASK_ENDING ", result) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, '')"};
// Three of them, so that what does not move in an index does not touch it; and of two, one without what changes seldom.
inline constexpr Sql kUpdateQuiet{__LINE__, "UPDATE task SET " NOCTER_SET_LIVING NOCTER_SET_RARE " WHERE number = ?"};
inline constexpr Sql kUpdateMoving{__LINE__, "UPDATE task SET " NOCTER_SET_LIVING NOCTER_SET_MOVING " WHERE number = ?"};
inline constexpr Sql kUpdateMovingRare{__LINE__, "UPDATE task SET " NOCTER_SET_LIVING NOCTER_SET_RARE NOCTER_SET_MOVING " WHERE number = ?"};
inline constexpr Sql kUpdateEnding{__LINE__, "UPDATE task SET " NOCTER_SET_LIVING NOCTER_SET_MOVING NOCTER_SET_ENDING " WHERE number = ?"};
inline constexpr Sql kUpdateEndingRare{__LINE__, "UPDATE task SET " NOCTER_SET_LIVING NOCTER_SET_RARE NOCTER_SET_MOVING NOCTER_SET_ENDING " WHERE number = ?"};
inline constexpr Sql kUpdateTexts{__LINE__, "UPDATE task SET texts = ?2, result = ifnull(?3, result) WHERE number = ?1"};
inline constexpr Sql kReadWhich{__LINE__, "SELECT texts FROM task WHERE number = ?1"};
inline constexpr Sql kDeleteTask{__LINE__, "DELETE FROM task WHERE number = ?1"};

// ---- Look-ups by index: whoever asks takes as many as wanted, in the order of the index
// Numbers alone, from the index alone: most of these rows are known.
inline constexpr Sql kReady{__LINE__, "SELECT number FROM task INDEXED BY task_place WHERE phase = 1 AND place = ?1 ORDER BY rank, number"};
inline constexpr Sql kNextReadyType{__LINE__, "SELECT place FROM task INDEXED BY task_place WHERE phase = 1 AND place > ?1 ORDER BY place LIMIT 1"};
inline constexpr Sql kFirstReady{__LINE__, "SELECT rank, created_at FROM task INDEXED BY task_place WHERE phase = 1 AND place = ?1 AND rank >= ?2 ORDER BY rank, number LIMIT 1"};
inline constexpr Sql kDue{__LINE__, "SELECT " NOCTER_TASK " FROM task INDEXED BY task_place WHERE phase = ?1 AND place <= ?2 ORDER BY place, rank, number"};
inline constexpr Sql kNextDue{__LINE__, "SELECT place FROM task INDEXED BY task_place WHERE phase = ?1 ORDER BY place LIMIT 1"};
inline constexpr Sql kRunningOn{__LINE__, "SELECT " NOCTER_TASK " FROM task INDEXED BY task_place WHERE phase = 3 AND place = ?1"};
inline constexpr Sql kClaimedAs{__LINE__, "SELECT " NOCTER_TASK " FROM task INDEXED BY task_place WHERE phase = 3 AND place = ?1 AND rank = ?2 ORDER BY number"};
inline constexpr Sql kChildren{__LINE__, "SELECT " NOCTER_TASK " FROM task INDEXED BY task_child WHERE parent = ?1 AND parent <> 0 AND number > ?2 ORDER BY number"};
inline constexpr Sql kOpenChildren{__LINE__, "SELECT " NOCTER_TASK " FROM task INDEXED BY task_open_child WHERE parent = ?1 AND parent <> 0 AND ended_at = 0 AND number > ?2 ORDER BY number"};
inline constexpr Sql kLastMembers{__LINE__, "SELECT " NOCTER_TASK " FROM task INDEXED BY task_member WHERE root = ?1 AND parent <> 0 ORDER BY number DESC"};
inline constexpr Sql kEndedTrees{__LINE__, "SELECT " NOCTER_TASK " FROM task INDEXED BY task_place WHERE phase = ?1 AND place < ?2 ORDER BY place, rank, number"};
inline constexpr Sql kForgotten{__LINE__, "SELECT " NOCTER_TASK " FROM task INDEXED BY task_forgotten WHERE phase = 4 AND (mail > 0 OR (need <= 0 AND until IN (1, 2))) ORDER BY number"};
#define NOCTER_FILTER " AND (?3 = 0 OR type = ?3) AND phase BETWEEN ?4 AND ?5 AND (?6 = 0 OR parent = ?6) AND (?7 = 0 OR root = ?7) AND (?8 = 0 OR parent = 0) AND created_at < ?9 ORDER BY id LIMIT ?2"
inline constexpr Sql kList{__LINE__, "SELECT " NOCTER_TASK " FROM task INDEXED BY task_id WHERE id > ?1" NOCTER_FILTER};
inline constexpr Sql kListChildren{__LINE__, "SELECT " NOCTER_TASK " FROM task INDEXED BY task_child WHERE parent = ?6 AND parent <> 0 AND id > ?1" NOCTER_FILTER};
inline constexpr Sql kListMembers{__LINE__, "SELECT " NOCTER_TASK " FROM task WHERE number IN (SELECT ?7 UNION ALL SELECT number FROM task INDEXED BY task_member WHERE root = ?7 AND parent <> 0) AND id > ?1" NOCTER_FILTER};

// ---- Texts
inline constexpr Sql kReadShort{__LINE__, "SELECT payload, key, result FROM task WHERE number = ?1"};
inline constexpr Sql kReadPayload{__LINE__, "SELECT payload FROM task_payload WHERE task = ?1"};
inline constexpr Sql kReadState{__LINE__, "SELECT state FROM task_state WHERE task = ?1"};
inline constexpr Sql kReadResult{__LINE__, "SELECT result FROM task_result WHERE task = ?1"};
inline constexpr Sql kReadFailure{__LINE__, "SELECT kind, message, detail, attempt, node, failed_at FROM task_failure WHERE task = ?1"};
inline constexpr Sql kPutPayload{__LINE__, "INSERT INTO task_payload (task, payload) VALUES (?1, ?2)"};
inline constexpr Sql kPutState{__LINE__, "INSERT INTO task_state (task, state) VALUES (?1, ?2) ON CONFLICT (task) DO UPDATE SET state = excluded.state"};
inline constexpr Sql kPutResult{__LINE__, "INSERT INTO task_result (task, result) VALUES (?1, ?2) ON CONFLICT (task) DO UPDATE SET result = excluded.result"};
inline constexpr Sql kPutFailure{__LINE__, "INSERT OR REPLACE INTO task_failure (task, kind, message, detail, attempt, node, failed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"};
inline constexpr Sql kDeletePayload{__LINE__, "DELETE FROM task_payload WHERE task = ?1"};
inline constexpr Sql kDeleteState{__LINE__, "DELETE FROM task_state WHERE task = ?1"};
inline constexpr Sql kDeleteResult{__LINE__, "DELETE FROM task_result WHERE task = ?1"};
inline constexpr Sql kDeleteFailure{__LINE__, "DELETE FROM task_failure WHERE task = ?1"};

// ---- Edges
inline constexpr Sql kAddEdge{__LINE__, "INSERT OR IGNORE INTO edge (waiter, target) VALUES (?1, ?2)"};
inline constexpr Sql kTargetsOf{__LINE__, "SELECT target FROM edge WHERE waiter = ?1 ORDER BY target"};
inline constexpr Sql kWaitersOf{__LINE__, "SELECT waiter FROM edge WHERE target = ?1 ORDER BY waiter"};
inline constexpr Sql kRemoveEdgesFrom{__LINE__, "DELETE FROM edge WHERE waiter = ?1"};
inline constexpr Sql kRemoveEdgesTo{__LINE__, "DELETE FROM edge WHERE target = ?1"};

// ---- Mailboxes
inline constexpr Sql kAddMessage{__LINE__, "INSERT INTO message (task, number, sender, sent_at, bound_fence, deliveries, key, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"};
inline constexpr Sql kAddMessageKey{__LINE__, "INSERT OR IGNORE INTO message_key (task, key) VALUES (?1, ?2)"};
inline constexpr Sql kHasMessageKey{__LINE__, "SELECT 1 FROM message_key WHERE task = ?1 AND key = ?2"};
inline constexpr Sql kMessages{__LINE__, "SELECT number, sender, sent_at, bound_fence, deliveries, key, payload FROM message WHERE task = ?1 AND (?2 = 0 OR bound_fence = 0) ORDER BY number LIMIT ?3"};
inline constexpr Sql kBindMessage{__LINE__, "UPDATE message SET bound_fence = ?3, deliveries = deliveries + 1 WHERE task = ?1 AND number = ?2"};
inline constexpr Sql kUnbindMessages{__LINE__, "UPDATE message SET bound_fence = 0 WHERE task = ?1 AND bound_fence <> 0"};
inline constexpr Sql kRemoveBound{__LINE__, "DELETE FROM message WHERE task = ?1 AND bound_fence = ?2 RETURNING length(CAST(payload AS BLOB))"};
inline constexpr Sql kDeleteMessages{__LINE__, "DELETE FROM message WHERE task = ?1"};
inline constexpr Sql kDeleteMessageKeys{__LINE__, "DELETE FROM message_key WHERE task = ?1"};

// ---- Steps, keys, shared values, locks
inline constexpr Sql kFindStep{__LINE__, "SELECT value FROM step WHERE task = ?1 AND name = ?2"};
inline constexpr Sql kAddStep{__LINE__, "INSERT INTO step (task, name, value) VALUES (?1, ?2, ?3)"};
inline constexpr Sql kDeleteSteps{__LINE__, "DELETE FROM step WHERE task = ?1"};
inline constexpr Sql kFindKey{__LINE__, "SELECT task FROM key WHERE scope = ?1 AND owner = ?2 AND key = ?3"};
inline constexpr Sql kAddKey{__LINE__, "INSERT INTO key (scope, owner, key, task) VALUES (?1, ?2, ?3, ?4)"};
inline constexpr Sql kRemoveKeysOf{__LINE__, "DELETE FROM key WHERE task = ?1"};
inline constexpr Sql kFindShared{__LINE__, "SELECT value FROM shared WHERE scope = ?1 AND key = ?2"};
inline constexpr Sql kPutShared{__LINE__, "INSERT INTO shared (scope, key, value) VALUES (?1, ?2, ?3) ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value"};
inline constexpr Sql kAllShared{__LINE__, "SELECT key, value FROM shared WHERE scope = ?1 ORDER BY key"};
inline constexpr Sql kClearShared{__LINE__, "DELETE FROM shared WHERE scope = ?1"};
inline constexpr Sql kFindLock{__LINE__, "SELECT fence, token, expires_at FROM lock WHERE name = ?1"};
inline constexpr Sql kPutLock{__LINE__, "INSERT INTO lock (name, fence, token, expires_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, token = excluded.token, expires_at = excluded.expires_at"};

// ---- Events
inline constexpr Sql kAddEvent{__LINE__, "INSERT INTO event (sequence, happened_at, task, kind, status, attempt, type, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"};
inline constexpr Sql kEvents{__LINE__, "SELECT sequence, happened_at, task, kind, status, attempt, type, data FROM event WHERE sequence > ?1 ORDER BY sequence LIMIT ?2"};
inline constexpr Sql kRemoveEvents{__LINE__, "DELETE FROM event WHERE sequence IN (SELECT sequence FROM (SELECT sequence, happened_at FROM event ORDER BY sequence LIMIT ?2) WHERE happened_at < ?1)"};

// ---- Nodes, cascades
inline constexpr Sql kInsertNode{__LINE__, "INSERT INTO node (number, name, instance, expires_at, dead) VALUES (?1, ?2, ?3, ?4, ?5)"};
inline constexpr Sql kFindNode{__LINE__, "SELECT number, name, instance, expires_at, dead FROM node WHERE number = ?1"};
inline constexpr Sql kUpdateNode{__LINE__, "UPDATE node SET name = ?2, instance = ?3, expires_at = ?4, dead = ?5 WHERE number = ?1"};
inline constexpr Sql kRemoveNode{__LINE__, "DELETE FROM node WHERE number = ?1"};
inline constexpr Sql kLostNodes{__LINE__, "SELECT number, name, instance, expires_at, dead FROM node WHERE dead <> 0 OR expires_at <= ?1 ORDER BY number LIMIT ?2"};
inline constexpr Sql kNodes{__LINE__, "SELECT number, name, instance, expires_at, dead FROM node ORDER BY number"};
inline constexpr Sql kPutCascade{__LINE__, "INSERT INTO cascade (task, told) VALUES (?1, ?2) ON CONFLICT (task) DO UPDATE SET told = excluded.told"};
inline constexpr Sql kCascades{__LINE__, "SELECT task, told FROM cascade ORDER BY task LIMIT ?1"};
inline constexpr Sql kRemoveCascade{__LINE__, "DELETE FROM cascade WHERE task = ?1"};
inline constexpr Sql kAnyEdge{__LINE__, "SELECT 1 FROM edge LIMIT 1"};
inline constexpr Sql kAnyCascade{__LINE__, "SELECT 1 FROM cascade LIMIT 1"};
// clang-format on

}  // namespace nocter::stores::sql
