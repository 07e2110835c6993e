"""Runs what tests/bench/run has built: peers interleaved, several repetitions, medians, ratios."""

import argparse
import functools
import os
import sys
import time

import curves
import goals
import local
import report
import stores
from runner import BUILD, Runner

PARTS = {
    "blocking": (local.blocking, functools.partial(local.blocking, one_core=True)),
    "signal": (local.signal, functools.partial(local.signal, one_core=True)),
    "keyed": (local.keyed,),
    "retirement": (local.retirement,),
    "postgresql": (stores.postgresql,),
    "sqlite": (stores.sqlite,),
    "curves": (curves.curves,),
}


def arguments():
    parser = argparse.ArgumentParser(prog="tests/bench/run")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: blocking and signal")
    parser.add_argument("--reps", type=int, default=5, help="repetitions of every program (5)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--peers", metavar="REGEX", help="only programs whose name matches; nocter always takes part")
    parser.add_argument("--out", metavar="FILE", help="write medians to FILE and every round to FILE-raw.csv")
    parser.add_argument("--quiet-budget", type=float, default=0, metavar="SECONDS",
                        help="spend up to so long in all on waiting for others to be idle, and on repeating disturbed rounds")  # fmt: skip
    parser.add_argument("--verbose", action="store_true", help="show every metric of every round")
    return parser.parse_args()


def main():
    options = arguments()
    parts = options.parts or ["blocking", "signal"]
    runner = Runner(options.quiet_budget, options.verbose)
    chosen = local.Choice(options.peers)
    try:
        for part in parts:
            with open("/proc/loadavg") as file:
                print(f"# {part} {time.strftime('%H:%M:%S')} load {file.read().strip()}", flush=True)
            for workloads in PARTS[part]:
                workloads(runner, chosen, options.reps, options.quick)
    except KeyboardInterrupt:
        print("# interrupted: what follows is of the rounds so far", flush=True)
    results = report.Results(runner.measurements)
    print("\nbench,peer,workload,metric,value")
    for bench, peer, workload, metric, median, *_ in results.medians:
        print(f"{bench},{peer},{workload},{metric},{median:.6g}")
    print(report.table(results))
    if "curves" in parts:
        print(curves.report(results))
    print(goals.report(results, parts))
    print("\n" + report.machine(runner.measurements))
    if options.out:
        report.write(options.out, results, runner.measurements)
    skipped = os.path.join(BUILD, "skipped.txt")
    if os.path.exists(skipped):
        with open(skipped) as file:
            print(file.read(), end="")
    for argv, code, error in runner.failed:
        print(f"failed with {code}: {argv}: {error}")
    return 1 if runner.failed or not runner.measurements else 0


if __name__ == "__main__":
    sys.exit(main())
