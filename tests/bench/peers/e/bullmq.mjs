// BullMQ on a private Redis with append-only file. PROGRAM MODE N [OPT]; REDIS_PORT;
// REDIS_FSYNC (everysec|always) is only for the label, the driver starts the server.
//   enqueue-single N WIDTH    add(), WIDTH in flight
//   enqueue-batch N BATCH     addBulk() of BATCH
//   process N CONCURRENCY     Worker with that concurrency, removeOnComplete
//   latency N                 idle Worker, one add() at a time
import { require, version, mode, n, opt, now, sleep, payload, emit, rate, latencies, mix, inFlight, fail } from '../d/common.mjs';
const { Queue, Worker } = require('bullmq');
const peer = 'bullmq-' + version('bullmq');
const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
const aof = 'appendfsync=' + process.env.REDIS_FSYNC;
const q = new Queue('q', { connection, defaultJobOptions: { removeOnComplete: true } });
await q.waitUntilReady();
const bulk = (first, size) =>
  Array.from({ length: Math.min(size, n - first) }, (_, i) => ({ name: 't', data: payload(first + i) }));
if (mode === 'enqueue-single') {
  const t0 = now();
  await inFlight(n, Number(opt(0)), (i) => q.add('t', payload(i)));
  emit('E', peer, `enqueue-single;n=${n};conns=${opt(0)};${aof}`, 'tasks_per_s', rate(n, t0));
} else if (mode === 'enqueue-batch') {
  const b = Number(opt(0));
  const t0 = now();
  for (let i = 0; i < n; i += b) await q.addBulk(bulk(i, b));
  emit('E', peer, `enqueue-batch;n=${n};batch=${b};${aof}`, 'tasks_per_s', rate(n, t0));
} else if (mode === 'process') {
  const concurrency = Number(opt(0));
  for (let i = 0; i < n; i += 1000) await q.addBulk(bulk(i, 1000));
  let completed = 0;
  let finished;
  const all = new Promise((ok) => (finished = ok));
  const t0 = now();
  const w = new Worker('q', async () => {}, { connection, concurrency });
  w.on('completed', () => { if (++completed === n) finished(); });
  w.on('error', (e) => fail(e.message));
  await all;
  emit('E', peer, `process;n=${n};concurrency=${concurrency};${aof}`, 'tasks_per_s', rate(n, t0));
} else if (mode === 'latency') {
  const ns = [];
  const w = new Worker('q', async (j) => { ns.push(Number(now() - BigInt(j.data.t))); }, { connection });
  w.on('error', (e) => fail(e.message));
  await w.waitUntilReady();
  await sleep(300);
  for (let i = 0; i < n; i++) {
    await sleep(5 + mix(i) / 1000);
    await q.add('t', payload(i));
    while (ns.length <= i) await sleep(1);
  }
  latencies('E', peer, `latency;n=${n};${aof}`, ns);
} else fail('mode');
process.exit(0);
