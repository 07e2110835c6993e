"""Medians, the lines of the output file, and a table for each workload with the ratio of nocter to each peer."""

import collections
import re
import statistics

from runner import DISTANT, DISTURBED_PERCENT, disturbed

# Of these less is better; of every other metric more is.
LESS_IS_BETTER = {"p50_ns", "p99_ns", "cpu_ns_per_job", "ctxsw_per_job", "publish_ns", "passes", "drop_ns", "allocations_per_drop"}
MAIN_METRICS = ("jobs_per_s", "roundtrips_per_s", "notifications_per_s", "tasks_per_s", "publish_ns", "drop_ns", "p50_ns")
COLUMNS = {
    "jobs_per_s": ("jobs/s", 1),
    "roundtrips_per_s": ("trips/s", 1),
    "notifications_per_s": ("notif/s", 1),
    "tasks_per_s": ("tasks/s", 1),
    "publish_ns": ("publish ns", 1),
    "drop_ns": ("drop ns", 1),
    "allocations_per_drop": ("allocations", 1),
    "p50_ns": ("p50 µs", 1000),
    "p99_ns": ("p99 µs", 1000),
    "cpu_ns_per_job": ("CPU ns/job", 1),
    "ctxsw_per_job": ("switches/job", 1),
}


def workload_key(bench, workload):
    """The workload without its number of operations, in which the languages differ."""
    pairs = [pair for pair in workload.split(";") if not re.match(r"(jobs|n|workers)=", pair)]
    return bench + " " + ";".join(pairs)


class Results:
    """Medians by workload, peer and metric."""

    def __init__(self, measurements):
        grouped = collections.OrderedDict()
        nearest = min((m.handoff_ns for m in measurements), default=0)
        for m in measurements:
            grouped.setdefault((m.bench, m.workload, m.peer, m.metric), []).append(m)
        self.medians = []  # (bench, peer, workload, metric, median, spread in percent, rounds)
        self.by_key = collections.OrderedDict()  # workload key -> peer -> metric -> median
        for (bench, workload, peer, metric), rows in grouped.items():
            quiet = [m.value for m in rows if not disturbed(m, nearest)]
            values = quiet or [m.value for m in rows]
            median = statistics.median(values)
            spread = 100 * (max(values) - min(values)) / median if median else 0
            self.medians.append((bench, peer, workload, metric, median, spread, len(values)))
            peers = self.by_key.setdefault(workload_key(bench, workload), collections.OrderedDict())
            peers.setdefault(peer, {})[metric] = median

    def value(self, key, peer, metric):
        return self.by_key.get(key, {}).get(peer, {}).get(metric)

    def best(self, key, metric, pattern):
        """(peer, value) of the best peer whose name matches, or None."""
        found = [
            (values[metric], peer)
            for peer, values in self.by_key.get(key, {}).items()
            if metric in values and re.fullmatch(pattern, peer)
        ]
        if not found:
            return None
        value, peer = min(found) if metric in LESS_IS_BETTER else max(found)
        return peer, value


def short(value, divisor):
    value /= divisor
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:
        return f"{value / 1e3:.0f} k"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def table(results):
    """One block a workload. The ratios are nocter / peer: of rates more than 1 is better for nocter, of times less."""
    lines = []
    for key, peers in results.by_key.items():
        metrics = [metric for metric in COLUMNS if any(metric in values for values in peers.values())]
        main = next((metric for metric in MAIN_METRICS if metric in metrics), None)
        if main is None:
            continue
        ours = peers.get("nocter", {})
        ratios = [metric for metric in (main, "p50_ns") if metric in ours]
        ratios = list(dict.fromkeys(ratios))
        order = sorted(peers, key=lambda peer: peers[peer].get(main, 0), reverse=main not in LESS_IS_BETTER)
        lines.append(f"\n{key}")
        header = "".join(f"{COLUMNS[metric][0]:>14}" for metric in metrics)
        header += "".join(f"{'nocter/peer ' + COLUMNS[metric][0]:>22}" for metric in ratios)
        lines.append(f"  {'peer':<30}{header}")
        for peer in order:
            values = peers[peer]
            cells = [short(values[metric], COLUMNS[metric][1]) if metric in values else "" for metric in metrics]
            row = "".join(f"{cell:>14}" for cell in cells)
            for metric in ratios:
                row += f"{ours[metric] / values[metric]:>22.2f}" if values.get(metric) else f"{'':>22}"
            lines.append(f"  {peer:<30}{row}")
    return "\n".join(lines)


def machine(measurements):
    """What else used the machine."""
    if not measurements:
        return "nothing was measured"
    others = [m.others_percent for m in measurements]
    stolen = [m.stolen_percent for m in measurements]
    rounds = {(m.bench, m.peer, m.workload, m.repetition): m for m in measurements}
    nearest = min(m.handoff_ns for m in measurements)
    crowded = sum(1 for m in rounds.values() if m.others_percent > DISTURBED_PERCENT)
    far = sum(1 for m in rounds.values() if m.handoff_ns > DISTANT * nearest)
    return (
        f"Other processes took {statistics.median(others):.0f} % of the CPU time of a round in the median, {max(others):.0f} % at"
        f" most; the hypervisor {statistics.median(stolen):.0f} % and {max(stolen):.0f} %. {crowded} of {len(rounds)} rounds had"
        f" others at more than {DISTURBED_PERCENT} %; in {far} two cores took more than {DISTANT} times the shortest {nearest:.0f} ns to hand a"
        f" cache line over. Both are left out where a quieter round of the same kind exists."
    )


def write(path, results, measurements):
    """PATH has the medians, PATH with -raw before its ending every round."""
    with open(path, "w") as file:
        file.write("bench,peer,workload,metric,value\n")
        for bench, peer, workload, metric, median, *_ in results.medians:
            file.write(f"{bench},{peer},{workload},{metric},{median:.6g}\n")
    with open(re.sub(r"\.csv$", "", path) + "-raw.csv", "w") as file:
        file.write("bench,peer,workload,metric,value,repetition,others_percent,stolen_percent,handoff_ns\n")
        for m in measurements:
            file.write(
                f"{m.bench},{m.peer},{m.workload},{m.metric},{m.value:.6g},{m.repetition},"
                f"{m.others_percent:.1f},{m.stolen_percent:.1f},{m.handoff_ns:.0f}\n"
            )
