"""The workloads on a database: PostgreSQL (D), SQLite and Redis (E). Servers run on 127.0.0.1 at a free port."""

import glob
import os
import shutil
import socket
import subprocess
import time

from local import program
from runner import BUILD, PEERS

NODE = os.path.join(BUILD, "node")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Postgres:
    """A private cluster with default durability."""

    def __init__(self):
        self.programs = max(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
        self.folder = os.path.join(BUILD, f"postgresql-{os.getpid()}")
        self.port = free_port()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.become = []
        if os.getuid() == 0:  # it refuses to run as root
            shutil.chown(self.folder, "postgres")
            self.become = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        self.call("initdb", "-D", self.folder + "/data", "-A", "trust", "-U", "postgres", "--no-instructions")
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
        self.call("pg_ctl", "-D", self.folder + "/data", "-w", "-l", self.folder + "/log", "-o", options, "start")
        with open(self.folder + "/data/postmaster.pid") as file:
            self.pid = int(file.readline())
        self.env = {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(self.port),
            "PGUSER": "postgres",
            "PGDATABASE": "bench",
            "PGOPTIONS": "-c client_min_messages=warning",
        }
        for setting in ("server_version", "fsync", "synchronous_commit", "wal_sync_method", "shared_buffers"):
            print(f"# postgresql {setting} = " + self.sql("show " + setting).strip(), flush=True)

    def call(self, name, *arguments):
        command = [*self.become, os.path.join(self.programs, name), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def sql(self, *commands):
        argv = [os.path.join(self.programs, "psql"), "-qXAt", "-d", "postgres"]
        for command in commands:
            argv += ["-c", command]
        env = dict(os.environ, **self.env)
        return subprocess.run(argv, env=env, check=True, text=True, stdout=subprocess.PIPE).stdout

    def fresh(self):
        self.sql("drop database if exists bench with (force)", "create database bench", "checkpoint")

    def stop(self):
        self.call("pg_ctl", "-D", self.folder + "/data", "-m", "fast", "-w", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


class Redis:
    def __init__(self, fsync):
        self.folder = os.path.join(BUILD, f"redis-{os.getpid()}")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.port = free_port()
        self.log = open(self.folder + "/log", "w")
        where = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder]
        how = ["--appendonly", "yes", "--appendfsync", fsync, "--save", ""]
        self.process = subprocess.Popen(["redis-server", *where, *how], stdout=self.log, stderr=self.log)
        self.pid = self.process.pid
        self.env = {"REDIS_PORT": str(self.port), "REDIS_FSYNC": fsync}
        for _ in range(100):
            time.sleep(0.1)
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                pass
        raise RuntimeError("redis-server did not start")

    def fresh(self):
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.sendall(b"FLUSHALL SYNC\r\n")
            connection.recv(100)

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def node(script):
    return ["node", os.path.join(PEERS, script)]


def has_node(package):
    there = os.path.exists(os.path.join(NODE, "node_modules", package, "package.json"))
    if not there:
        print(f"skip {package}: npm package not installed (--install-stores)", flush=True)
    return there and shutil.which("node") is not None


def scaler(quick):
    return lambda count: str(max(10, count // (10 if quick else 1)))


def postgresql_plan(chosen, n):
    limit = [
        ["enqueue-single", n(5000), "1"],
        ["enqueue-single", n(10000), "10"],
        ["enqueue-batch", n(100000), "1000"],
        ["enqueue-pipe", n(50000), "1000"],
        ["process-single", n(3000), "1", "delete"],
        ["process-single", n(6000), "10", "delete"],
        ["process-batch", n(100000), "1000", "delete"],
        ["process-batch", n(100000), "1000", "update"],
        ["process-pipe", n(100000), "100", "delete"],
        ["process-pipe", n(100000), "1000", "delete"],
        ["process-pipe", n(100000), "1000", "update"],
        ["enqueue-batch", n(100000), "1000", "-", "2"],
        ["process-pipe", n(100000), "1000", "delete", "2"],
        ["process-pipe", n(100000), "5000", "delete"],
        ["latency", n(500)],
    ]
    boss = [
        ["enqueue-single", n(3000), "1"],
        ["enqueue-single", n(10000), "10"],
        ["enqueue-batch", n(50000), "1000"],
        ["process-fetch", n(50000), "1000"],
        ["process-fetch", n(50000), "10000"],
        ["process-work", n(50000), "1000"],
        ["process-work", n(50000), "10000"],
        ["latency", n(40)],
    ]
    graphile = [
        ["enqueue-single", n(3000), "1"],
        ["enqueue-single", n(10000), "10"],
        ["enqueue-batch", n(50000), "1000"],
        ["process-nobatch", n(10000)],
        ["process-best", n(50000), "500"],
        ["process-best", n(50000), "2000"],
        ["latency", n(300)],
    ]
    dbos = [
        ["enqueue-single", n(2000), "1"],
        ["enqueue-single", n(5000), "10"],
        ["enqueue-batch", n(10000), "1000"],
        ["process", n(10000), "100"],
        ["process", n(10000), "1000"],
        ["process", n(10000), "0"],
        ["latency", n(30), "1000"],
        ["latency", n(200), "10"],
    ]
    plan = [[program(name), *tail] for name in ("d_nocter", "d_limit") if chosen.built(name) for tail in limit]
    for name, package, script, tails in (
        ("pg-boss", "pg-boss", "d/pgboss.mjs", boss),
        ("graphile-worker", "graphile-worker", "d/graphile.mjs", graphile),
        ("dbos", "@dbos-inc/dbos-sdk", "d/dbos.mjs", dbos),
    ):
        if chosen(name) and has_node(package):
            plan += [node(script) + tail for tail in tails]
    return plan


def postgresql(runner, chosen, repetitions, quick):
    if not glob.glob("/usr/lib/postgresql/*/bin/initdb"):
        print("skip postgresql: no postgresql", flush=True)
        return
    plan = postgresql_plan(chosen, scaler(quick))
    if not plan:
        return
    server = Postgres()
    runner.server = server.pid
    try:
        for repetition in range(repetitions):
            for argv in plan:
                server.fresh()
                runner.run(repetition, argv, server.env, again=server.fresh)
    finally:
        runner.server = None
        server.stop()


def sqlite(runner, chosen, repetitions, quick):
    n = scaler(quick)
    folder = os.path.join(BUILD, f"sqlite-{os.getpid()}")
    os.makedirs(folder, exist_ok=True)
    env = {"BENCH_DIR": folder}
    native = [[program(name)] for name in ("e_nocter", "e_limit") if chosen.built(name)]
    everyone = native + ([node("e/better.mjs")] if chosen("better-sqlite3") and has_node("better-sqlite3") else [])
    modes = (
        ("enqueue-single", 5000, "1"),
        ("enqueue-batch", 100000, "1000"),
        ("process-single", 5000, "1"),
        ("process-batch", 100000, "1000"),
        ("process-fused", 100000, "1000"),
        ("cycle-single", 3000, "1"),
        ("cycle-callers", 20000, "8"),
        ("cycle-callers", 60000, "64"),
    )
    try:
        for sync, more in (("full", 1), ("normal", 4)):
            for repetition in range(repetitions):
                for mode, count, batch in modes:
                    total = n(count * more if "-single" in mode else count)
                    for argv in native if mode == "cycle-callers" else everyone:
                        runner.run(repetition, [*argv, sync, mode, total, batch], env)
                for argv in native:
                    runner.run(repetition, [*argv, sync, "latency", n(500), "1"], env)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    redis(runner, chosen, repetitions, n)


def redis(runner, chosen, repetitions, n):
    if not chosen("bullmq") or not (has_node("bullmq") and has_node("ioredis")):
        return
    if not shutil.which("redis-server"):
        print("skip bullmq: no redis-server", flush=True)
        return
    tails = (
        ["enqueue-single", n(5000), "1"],
        ["enqueue-single", n(20000), "50"],
        ["enqueue-batch", n(50000), "1000"],
        ["process", n(20000), "50"],
        ["process", n(20000), "200"],
        ["latency", n(300)],
    )
    for fsync in ("everysec", "always"):
        server = Redis(fsync)
        runner.server = server.pid
        try:
            for repetition in range(repetitions):
                for tail in tails:
                    server.fresh()
                    runner.run(repetition, node("e/bullmq.mjs") + tail, server.env, again=server.fresh)
        finally:
            runner.server = None
            server.stop()
