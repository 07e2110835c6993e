// better-sqlite3: the smallest task loop in Node.js on one thread. PROGRAM full|normal
// MODE N [BATCH]; modes as in sqlite_limit.c, without latency. BENCH_DIR: the folder.
import fs from 'node:fs';
import { require, version, now, emit, rate, payload, fail } from '../d/common.mjs';
const Database = require('better-sqlite3');
const [sync, mode, N, B] = process.argv.slice(2);
const n = Number(N);
const b = Number(B ?? 1);
const peer = 'better-sqlite3-' + version('better-sqlite3');
const path = (process.env.BENCH_DIR ?? '.') + '/better.db';
for (const s of ['', '-wal', '-shm']) fs.rmSync(path + s, { force: true });
const db = new Database(path);
db.pragma('journal_mode=WAL');
db.pragma('synchronous=' + sync);
db.exec(`CREATE TABLE task(id INTEGER PRIMARY KEY, queue INTEGER NOT NULL DEFAULT 1,
  state INTEGER NOT NULL DEFAULT 0, run_at INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0, lease_until INTEGER, payload TEXT NOT NULL);
  CREATE INDEX task_ready ON task(queue, run_at, id) WHERE state=0`);
const ins = db.prepare('INSERT INTO task(payload) VALUES(?)');
const claim = db.prepare(`UPDATE task SET state=1, attempts=attempts+1, lease_until=@now WHERE id IN
  (SELECT id FROM task WHERE queue=1 AND state=0 AND run_at<=@now ORDER BY run_at, id LIMIT @limit)
  RETURNING id, payload`);
const done = db.prepare('DELETE FROM task WHERE id=? AND state=1');
const insert = (i) => ins.run(JSON.stringify(payload(i)));
const insertMany = db.transaction((from, to) => { for (let i = from; i < to; i++) insert(i); });
const take = (limit) => claim.all({ now: Date.now(), limit });
const finish = (t) => { JSON.parse(t.payload); if (done.run(t.id).changes !== 1) fail('complete'); };
const finishMany = db.transaction((ts) => ts.forEach(finish));
const turn = db.transaction((ts, limit) => { ts.forEach(finish); return take(limit); });
const load = (size) => { for (let i = 0; i < n; i += size) insertMany(i, Math.min(n, i + size)); };
if (mode.startsWith('process')) { load(1000); db.pragma('wal_checkpoint(TRUNCATE)'); }
let total = 0;
const t0 = now();
if (mode === 'enqueue-single') for (let i = 0; i < n; i++) insert(i);
else if (mode === 'enqueue-batch') load(b);
else if (mode === 'process-single') for (let t; (t = take(1)).length; total++) finish(t[0]);
else if (mode === 'process-batch') for (let t; (t = take(b)).length; total += t.length) finishMany(t);
else if (mode === 'process-fused') {
  let t = [];
  do { t = turn(t, b); total += t.length; } while (t.length);
} else if (mode === 'cycle-single') {
  for (let i = 0; i < n; i++, total++) { insert(i); finish(take(1)[0]); }
} else fail('mode');
const r = rate(n, t0);
const left = db.prepare('SELECT count(*) AS c FROM task').get().c;
if (mode.startsWith('enqueue') ? left !== n : total !== n || left) fail(`count ${total} ${left}`);
emit('E', peer, `${mode};n=${n};batch=${b};sync=${sync}`, 'tasks_per_s', r);
