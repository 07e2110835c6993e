"""The workloads of one process: blocking round trips (A), keyed queue (B), signal (C), retirement (R)."""

import os
import re
import sys

from runner import BIN, BUILD, PEERS

JAVA = ["java", "-cp", os.path.join(BUILD, "java"), "Bench"]


class Choice:
    """Which programs take part: built, and matched by the expression. nocter's own always take part."""

    def __init__(self, expression):
        self.expression = re.compile(expression) if expression else None

    def __call__(self, name, path=None):
        if path is not None and not os.path.exists(path):
            return False
        return "nocter" in name or self.expression is None or self.expression.search(name) is not None

    def built(self, name):
        return self(name, os.path.join(BIN, name))

    def java(self, name):
        return self(name, os.path.join(BUILD, "java", "Bench.class"))


def program(name):
    return os.path.join(BIN, name)


A_NATIVE = (
    "a_nocter a_limit_mpmc a_floor_condvar a_floor_condvar_batch a_floor_condvar_eventfd a_libuv a_asio a_glib_main a_glib_aq"
    " a_tbb a_tbb_group a_tokio a_blocking a_crossbeam a_std_mpsc a_nocter_rust"
    " a_nocter_rust_future"
).split()


def blocking_programs(chosen, one_core):
    """[(argv, env, is_python)] of benchmark A, without the two numbers at the end."""
    # On one core the task group hangs: its caller blocks, which oneTBB does not foresee.
    native = [name for name in A_NATIVE if chosen.built(name) and not (one_core and name == "a_tbb_group")]
    programs = [([program(name)], {}, False) for name in native]
    if "a_limit_mpmc" in native:
        programs += [([program("a_limit_mpmc")], {"WAIT": how}, False) for how in ("spin", "sleep")]
    if chosen.built("a_go"):
        programs += [([program("a_go"), how], {}, False) for how in ("goroutine", "osthread")]
    if chosen.java("a_java"):
        programs.append(([*JAVA, "A", "executor"], {}, False))
    if chosen("a_python"):
        script = os.path.join(PEERS, "lang/python/a_python.py")
        programs += [([sys.executable, script, how], {}, True) for how in ("executor", "asyncio")]
    script = os.path.join(os.path.dirname(PEERS), "nocter", "a_nocter_python.py")
    if os.environ.get("BENCH_NOCTER_PYTHON") and os.path.exists(script):
        env = {"PYTHONPATH": os.environ["BENCH_NOCTER_PYTHON"]}
        programs += [([sys.executable, script, how], env, True) for how in ("executor", "asyncio")]
    return programs


def blocking(runner, chosen, repetitions, quick, one_core=False):
    """With one_core every program runs on core 0 alone and the workload says cpus=1: the cost of the software, without the
    price of waking the other core."""
    divisor = 10 if quick else 1
    prefix = ["taskset", "-c", "0"] if one_core else []
    label = (lambda workload: workload + ";cpus=1") if one_core else None
    programs = blocking_programs(chosen, one_core)
    for window in (1, 64, 1024):
        jobs = (100_000 if window == 1 else 1_000_000) // divisor
        python_jobs = (20_000 if window == 1 else 100_000) // divisor
        for repetition in range(repetitions):
            for argv, env, is_python in programs:
                tail = [str(window), str(python_jobs if is_python else jobs)]
                runner.run(repetition, prefix + argv + tail, env, label=label)


def signal(runner, chosen, repetitions, quick, one_core=False):
    """With one_core the ping-pong has both threads on core 0 (pin=same)."""
    divisor = 10 if quick else 1
    prefix = ["taskset", "-c", "0"] if one_core else []
    label = (lambda workload: workload.replace("pin=none", "pin=same")) if one_core else None
    plan = [("pingpong", 200_000 // divisor, "none")]
    if not one_core:
        plan += [("pingpong", 20_000 // divisor, "cross"), ("publish", 5_000_000 // divisor, "none")]
    for mode, count, pin in plan:
        tail = [mode, str(count), pin]
        programs = [[program("c_nocter"), *tail]] if chosen.built("c_nocter") else []
        if chosen.built("c_signal"):
            kinds = ("futex-yield", "futex", "condvar", "atomic", "atomic-int", "eventfd")
            programs += [[program("c_signal"), kind, *tail] for kind in kinds]
        if chosen.built("c_tokio_watch"):
            programs.append([program("c_tokio_watch"), *tail])
            if mode == "pingpong" and pin == "none":
                programs.append([program("c_tokio_watch"), "pingpong-mt", str(count), pin])
        if chosen.built("c_std_park"):
            programs.append([program("c_std_park"), *tail])
        if pin == "none" and chosen.built("c_go"):
            kinds = ("goroutine", "osthread", "cond") if mode == "pingpong" else ("close", "cond", "send")
            programs += [
                [program("c_go"), mode, kind, str(count // 10 if kind == "osthread" else count)] for kind in kinds
            ]
        if pin == "none" and chosen.java("c_java"):
            kinds = ("lock", "park") if mode == "pingpong" else ("lock",)
            programs += [[*JAVA, "C", mode, kind, str(count)] for kind in kinds]
        for repetition in range(repetitions):
            for argv in programs:
                runner.run(repetition, prefix + argv, label=label)


def keyed(runner, chosen, repetitions, quick):
    notifications = 100_000 if quick else 1_000_000
    programs = [program(name) for name in ("b_nocter", "b_floor", "b_limit", "b_workqueue") if chosen.built(name)]
    for kind in ("str", "u64"):
        for producers in (1, 4):
            for keys in (1, 100, 100_000):
                for repetition in range(repetitions):
                    for path in programs:
                        tail = [kind, str(producers), str(keys), str(notifications)]
                        runner.run(repetition, [path, *tail])
                        if path == program("b_nocter"):
                            runner.run(repetition, [path, *tail, "5", "pull"])


def retirement(runner, chosen, repetitions, quick):
    drops = 200_000 if quick else 2_000_000
    programs = [program(name) for name in ("r_nocter", "r_limit", "r_floor") if chosen.built(name)]
    for repetition in range(repetitions):
        for path in programs:
            runner.run(repetition, ["taskset", "-c", "0", path, str(drops)])
