"""What nocter wants to reach beside its peers. A goal is a ratio, or a count, within one run; it never fails the run."""

from dataclasses import dataclass

# Libraries and standard means that run a job on a thread of the operating system; not the hand-written floors and limits, nor
# goroutines, which switch without the kernel.
POOLS = (
    "libuv|boost-asio|glib-pool-.*|onetbb-.*|tokio-spawn-blocking|rust-blocking-unblock|rust-crossbeam-channel"
    "|rust-std-condvar-mpsc|go-channel-osthread|java-threadpoolexecutor"
)
SIGNALS = (
    "cxx-condvar|cxx-atomic-wait.*|raw-futex|eventfd-blocking|rust-std-park|tokio-watch-2threads|java-.*|go-channel-osthread"
)


@dataclass
class Goal:
    part: str
    text: str
    key: str
    metric: str
    against: str  # a pattern on peers' names; "" when the bound is absolute
    bound: float
    at_most: bool  # of nocter / peer, else at least
    peer: str = "nocter"

    def check(self, results):
        """(verdict, detail); the verdict is "reached", "short" or "not measured"."""
        ours = results.value(self.key, self.peer, self.metric)
        if ours is None:
            return "not measured", f"no {self.peer} in {self.key}"
        if self.against:
            best = results.best(self.key, self.metric, self.against)
            if best is None:
                return "not measured", f"no peer to compare with in {self.key}"
            name, value = best
            figure = ours / value
            detail = f"{figure:.3g} x {name}"
        else:
            figure = ours
            detail = f"{figure:.3g}"
        reached = figure <= self.bound if self.at_most else figure >= self.bound
        return "reached" if reached else "short", f"{detail}, wanted {'<=' if self.at_most else '>='} {self.bound:g}"


def faster(part, text, key, metric, against, bound, peer="nocter"):
    return Goal(part, text, key, metric, against, bound, False, peer)


def shorter(part, text, key, metric, against, bound):
    return Goal(part, text, key, metric, against, bound, True)


GOALS = [
    faster("blocking", "W=1024 beside libuv", "A W=1024", "jobs_per_s", "libuv", 1.4),
    faster("blocking", "W=1024 beside the fastest pool", "A W=1024", "jobs_per_s", POOLS, 1.0),
    faster("blocking", "W=1024 beside the limit", "A W=1024", "jobs_per_s", "limit-cxx-mpmc-yield", 0.75),
    faster("blocking", "W=64 beside the fastest pool", "A W=64", "jobs_per_s", POOLS, 1.5),
    faster("blocking", "W=64 beside libuv", "A W=64", "jobs_per_s", "libuv", 3.0),
    shorter("blocking", "W=1 median latency beside the fastest pool", "A W=1", "p50_ns", POOLS, 1.0),
    shorter("blocking", "W=64 context switches a job", "A W=64", "ctxsw_per_job", "", 0.02),
    shorter("blocking", "W=1024 context switches a job", "A W=1024", "ctxsw_per_job", "", 0.02),
    faster("blocking", "one core, W=1024 beside the fastest pool", "A W=1024;cpus=1", "jobs_per_s", POOLS, 1.0),
    faster("blocking", "one core, W=64 beside the fastest pool", "A W=64;cpus=1", "jobs_per_s", POOLS, 1.0),
    shorter("blocking", "one core, W=1 median latency beside the fastest pool", "A W=1;cpus=1", "p50_ns", POOLS, 1.0),
    faster("blocking", "Python, W=64 beside ThreadPoolExecutor", "A W=64", "jobs_per_s", "python-threadpool", 1.5,
           "nocter-python-executor"),
    faster("blocking", "Python asyncio, W=64 beside run_in_executor", "A W=64", "jobs_per_s", "python-asyncio-executor", 2.0,
           "nocter-python-asyncio"),
    faster("blocking", "Rust, W=64 beside spawn_blocking", "A W=64", "jobs_per_s", "tokio-spawn-blocking", 1.5,
           "nocter-rust"),
    faster("blocking", "Rust futures, W=64 beside spawn_blocking", "A W=64", "jobs_per_s", "tokio-spawn-blocking", 1.5,
           "nocter-rust-future"),
    shorter("retirement", "giving up an owner that nobody waits for, ns", "R drop", "drop_ns", "", 100),
    shorter("retirement", "allocations of giving up an owner", "R drop", "allocations_per_drop", "", 0),
    *(
        faster("keyed", f"{keys} keys, {producers} producers beside client-go",
               f"B producers={producers};keys={keys};key=str", "notifications_per_s", "go-client-go-workqueue", bound)
        for keys, producers, bound in ((100_000, 1, 4.0), (100_000, 4, 4.0), (100, 1, 1.0), (100, 4, 1.5), (1, 1, 0.7), (1, 4, 1.0))
    ),
    *(
        faster("sqlite", f"one caller, {sync}, beside the hand-written loop", f"E cycle-single;batch=1;sync={sync}", "tasks_per_s",
               "limit-c-sqlite3", 0.8) for sync in ("full", "normal")
    ),
    *(
        faster("sqlite", f"64 callers, {sync}, beside the hand-written group", f"E cycle-callers;batch=64;sync={sync}", "tasks_per_s",
               "limit-c-sqlite3", 0.6) for sync in ("full", "normal")
    ),
    *(
        shorter("curves", f"{call} among a million rows of each kind beside a thousand, {store}",
                f"K rows=1000000;store={store}", call + "_growth", "", 1.2)
        for store in ("memory", "sqlite-normal") for call in ("claim", "notify", "finish")
    ),
    shorter("curves", "a million suspended tasks opened again, ms", "K suspended=1000000;store=sqlite-normal", "open_ms", "", 2000),
    shorter("signal", "publish that nobody waits for, ns", "C publish;pin=none", "publish_ns", "", 10),
    shorter("signal", "ping-pong median beside the yielding futex", "C pingpong;pin=none", "p50_ns", "limit-futex-yield", 2.0),
    shorter("signal", "ping-pong median beside the raw futex", "C pingpong;pin=none", "p50_ns", "raw-futex", 1 / 50),
    shorter("signal", "one core, ping-pong median beside the fastest", "C pingpong;pin=same", "p50_ns", SIGNALS, 1.0),
]  # fmt: skip


def report(results, parts):
    lines = ["\nGoals (ratios of this run; no test passes or fails by them)"]
    for goal in GOALS:
        if goal.part in parts:
            verdict, detail = goal.check(results)
            lines.append(f"  {verdict:<13}{goal.part}: {goal.text}: {detail}")
    return "\n".join(lines)
