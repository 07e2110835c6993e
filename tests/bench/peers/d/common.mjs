// Shared by the Node.js peers of D and E. NODE_PATH does not work for ES modules, so
// packages are loaded through a require() rooted at BENCH_NODE (the driver sets it).
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
export const require = createRequire(process.env.BENCH_NODE + '/');
export const version = (p) =>
  JSON.parse(readFileSync(process.env.BENCH_NODE + '/node_modules/' + p + '/package.json', 'utf8')).version;
export const mode = process.argv[2];
export const n = Number(process.argv[3] ?? 1000);
export const opt = (i) => process.argv[4 + i];
export const now = () => process.hrtime.bigint();
export const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
export const text = 'sixty-four bytes of text that stand for the arguments of one task';
export const payload = (i) => ({ n: i, t: String(now()), text });
export function emit(bench, peer, workload, metric, value) {
  console.log([bench, peer, workload, metric, Number(value.toPrecision(6))].join(','));
}
export const rate = (n, t0) => (n * 1e9) / Number(now() - t0);
export function latencies(bench, peer, workload, ns) {
  ns.sort((a, b) => a - b);
  const at = (p) => ns[Math.min(ns.length - 1, Math.floor((p / 100) * ns.length))] / 1e3;
  emit(bench, peer, workload, 'p50_us', at(50));
  emit(bench, peer, workload, 'p99_us', at(99));
}
export const mix = (i) => ((i * 2654435761) >>> 8) % 10000; // 0..9999, spread
export function fail(what) {
  console.error('FAILED CHECK: ' + what);
  process.exit(3);
}
export const pgUrl = () =>
  `postgresql://${process.env.PGUSER}@${process.env.PGHOST}:${process.env.PGPORT}/${process.env.PGDATABASE}`;
/** Runs fn(i) for i in 0..n-1 with `width` in flight. */
export async function inFlight(n, width, fn) {
  let i = 0;
  const lane = async () => {
    while (i < n) await fn(i++);
  };
  await Promise.all(Array.from({ length: width }, lane));
}
