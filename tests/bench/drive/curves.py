"""Durable tasks among ever more rows (K): what a call costs there, a join over many children, a million suspended tasks."""

import os
import shutil

from local import program
from runner import BUILD

STORES = ("memory", "sqlite-normal", "sqlite-full")
CALLS = ("submit", "claim", "suspend", "notify", "claim_again", "finish")


def curves(runner, chosen, repetitions, quick):
    """One repetition: filling a store with three million rows takes far longer than looking at it."""
    folder = os.path.join(BUILD, f"curves-{os.getpid()}")
    most = 100_000 if quick else 1_000_000

    def fresh():
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)

    def run(*arguments):
        fresh()
        runner.run(0, [program("k_nocter"), *arguments], timeout=3600, again=fresh)

    try:
        for store in STORES:
            # With its disk at every commit the largest fill would take hours; what it costs beside the disk is the same.
            run("rows", store, folder, str(min(most, 10_000) if store == "sqlite-full" else most))
        for store in STORES[:2]:
            for children in (1_000, 10_000, 100_000):
                run("join", store, folder, str(children))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def line(name, values, form="{:.3g}"):
    return f"  {name:<30}" + "".join(f"{form.format(value) if value is not None else '-':>12}" for value in values)


def report(results):
    lines = ["\nCPU time of a call, in µs, by ended, delayed and suspended rows (each so many);\nand how many times that of a store of 1,000 measured in turn with the largest"]
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    for store in STORES:
        keys = [f"K rows={size};store={store}" for size in sizes]
        lines.append(line(store, sizes, "{:,}"))
        for call in CALLS:
            values = [results.value(key, "nocter", call + "_cpu_ns") for key in keys]
            growths = [results.value(key, "nocter", call + "_growth") for key in keys]
            measured = [growth for growth in growths if growth is not None]
            lines.append(
                line(call, [None if value is None else value / 1000 for value in values])
                + (f"{measured[-1]:>10.2f} x" if measured else "")
            )
        lines.append(line("memory of the process, MiB", [
            None if value is None else value / 1024 for value in (results.value(key, "nocter", "rss_grown_kib") for key in keys)
        ]))  # fmt: skip
    lines.append("CPU time of a child's claim and end, and of the last 500 ends alone, in µs, by children")
    for store in STORES[:2]:
        keys = [f"K children={children};store={store}" for children in sizes[:3]]
        lines.append(line(store, sizes[:3], "{:,}"))
        for metric in ("child_cpu_ns", "last_ends_cpu_ns"):
            values = [results.value(key, "nocter", metric) for key in keys]
            lines.append(line(metric, [None if value is None else value / 1000 for value in values]))
    for key, peers in results.by_key.items():
        if key.startswith("K suspended="):
            said = ", ".join(f"{metric} {value:.4g}" for metric, value in peers["nocter"].items())
            lines.append(f"opened again, {key[2:]}: {said}")
    return "\n".join(lines)
