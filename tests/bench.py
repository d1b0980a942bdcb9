"""How long the tool takes, each time as a ratio to the modal CLI's own command.

uv run python tests/bench.py [pairs]: medians over pairs of runs (15 unless given), one of the
tool and one of modal against the same local Modal, by turns, so that a slow moment of the
machine hits both. The first two rows with each of the modals that gyms lock.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from conftest import SCRIPT, clean_environment
from gym import sample_gym
from local_modal import Call, LocalApp, LocalModal
from old_modals import python_with

sys.path.insert(0, str(SCRIPT.parent))  # where it runs as a script

from run_progress import diagnose

PAIRS = 15
FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"
SILENT = "frozen-ibex-4b7c9d2e6f18"
RUNS_SUMMARY = "training-runs-summary/summary.json"
ROLLOUTS_SUMMARY = "training-rollouts-summary/summary.json"
MANY_RUNS, RUN_BYTES = 2_000, 20_000
MANY_ROWS, ROW_BYTES = 200_000, 350
LOCKED_BY_GYMS = ("1.5.5", "1.6.1")


@dataclass(frozen=True)
class Measured:
    """One line of the table."""

    what: str
    ours: float
    theirs: float
    reach: float


def seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - began


@dataclass(frozen=True)
class Bench:
    """A local Modal, the interpreter that both commands run in, and how often."""

    server: LocalModal
    pairs: int
    python: str = sys.executable

    def tool(self, *words: str) -> list[str]:
        return [self.python, str(SCRIPT), *words]

    def modal(self, *words: str) -> list[str]:
        return [self.python, "-m", "modal", *words]

    def volume_get(self, path: str) -> list[str]:
        return self.modal("volume", "get", "training-gym-metadata", path, "-")

    def measure(
        self,
        what: str,
        ours: list[str],
        theirs: list[str],
        reach: float,
        *,
        than: Bench | None = None,
    ) -> Measured:
        """Time both; `than` is where theirs runs, if elsewhere."""
        commands = (
            (ours, clean_environment(self.server)),
            (theirs, clean_environment((than or self).server)),
        )
        for command, environment in commands:  # the files they read are in memory from here on
            seconds(command, environment)
        timed = [[seconds(*command) for command in commands] for _ in range(self.pairs)]
        ours_took, theirs_took = (statistics.median(times) for times in zip(*timed, strict=True))
        return Measured(what, ours_took, theirs_took, reach)


def small_rows(bench: Bench, name: str = "") -> list[Measured]:
    """A full id, without and with logs."""
    whole, record = bench.tool(FROG, "--no-logs"), bench.volume_get(f"training-runs/{FROG}.json")
    logs = bench.modal("app", "logs", FROG_APP, "--tail", "200")
    return [
        bench.measure(f"full id, --no-logs{name}", whole, record, 0.9),
        bench.measure(f"full id, logs{name}", bench.tool(FROG), logs, 1.45),
    ]


def fill_runs(server: LocalModal) -> None:
    """2,000 runs of 20 KB, beside the sample gym's."""
    filler = {f"option_{n}": "x" * 60 for n in range(RUN_BYTES // 80)}
    records = [json.loads(server.files[f"training-runs/{FROG}.json"])]
    records += [
        {
            "training_run_id": f"filler-run-{n:012x}",
            "modal_app_id": f"ap-{n:022d}",
            "status": "completed",
            "created_at": 1_780_000_000 + n,
            "config": {"recipe": filler, "wandb": {"run_id": f"w{n:07d}"}},
        }
        for n in range(MANY_RUNS)
    ]
    for record in records:
        server.files[f"training-runs/{record['training_run_id']}.json"] = json.dumps(
            record
        ).encode()
    server.files[RUNS_SUMMARY] = json.dumps({"items": records}).encode()


def fill_rollouts(server: LocalModal) -> None:
    """200,000 rollout rows of 350 bytes, those of the sample run among them."""
    items = json.loads(server.files[ROLLOUTS_SUMMARY])["items"]
    rows = [row for row in items if row["training_run_id"] == FROG]
    for n in range(MANY_ROWS - len(rows)):
        row = {
            "training_run_id": f"filler-run-{n // 100:012x}",
            "rollout_id": n % 100,
            "created_at": 1_780_000_000.5 + n,
            "total": 256,
            "mean": 0.5,
            "rollout_time": 230.25,
            "tag_stats": {"exact": {"count": 256, "mean": 0.5, "min": 0.0, "max": 1.0}},
            "summary_key": "",
        }
        row["summary_key"] = "k" * (ROW_BYTES - len(json.dumps(row)))
        rows.append(row)
    rows.sort(key=lambda row: (row["training_run_id"], row["rollout_id"]))
    server.files[ROLLOUTS_SUMMARY] = json.dumps({"items": rows}).encode()


# A process counts the memory of the one that it was forked from: this one holds all the data, so
# that another, small one has to start the command.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak_bytes(server: LocalModal, words: Sequence[str]) -> int:
    """The most memory that the command held at once."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, sys.executable, str(SCRIPT), *words],
        env=clean_environment(server),
        capture_output=True,
        check=True,
    )
    return int(done.stdout) * (1 if sys.platform == "darwin" else 1024)


# The cases of tests/cases, over and over: more failures than any real log holds.
CASES = Path(__file__).parent / "cases"


def judging_seconds(lines: int) -> float:
    """How long so many lines of log take to judge, once the patterns are compiled."""
    cases = [path.read_text().rstrip("\n") for path in sorted(CASES.glob("*/*.txt"))]
    told = "\n".join(itertools.islice(itertools.cycle("\n".join(cases).split("\n")), lines))
    times = []
    for _ in range(5):
        began = time.perf_counter()
        diagnose(told)
        times.append(time.perf_counter() - began)
    return min(times)


def longest_chain(calls: Sequence[Call]) -> list[str]:
    """Calls of which each began after the one before it was answered: who had to wait for whom."""
    chain: list[Call] = []
    for call in sorted(calls, key=lambda call: call.ended or float("inf")):
        if call.ended is not None and (not chain or call.started >= (chain[-1].ended or 0)):
            chain.append(call)
    return [call.method for call in chain]


def chain_of(words: Sequence[str]) -> list[str]:
    """The longest chain of waiting calls, each call slowed so that waiting shows."""
    with LocalModal() as server:
        sample_gym(time.time()).install(server)
        touch(server)
        server.fault("*", delay=0.2)
        seconds([sys.executable, str(SCRIPT), *words], clean_environment(server))
        return longest_chain(server.calls)


def own_rollouts(server: LocalModal) -> None:
    """The run's rollouts in a file of its own."""
    rows = json.loads(server.files[ROLLOUTS_SUMMARY])["items"]
    own = {"items": [row for row in rows if row["training_run_id"] == FROG]}
    server.files[f"training-rollouts-summary/{FROG}/summary.json"] = json.dumps(own).encode()


def touch(server: LocalModal) -> None:
    """Let its first run be well until the end: a time that is yet to come counts as now."""
    path, ahead = f"training-runs/{FROG}.json", time.time() + 3600
    record = json.loads(server.files[path])
    record["updated_at"] = record["metadata"]["framework_progress"]["updated_at"] = ahead
    record["substep_times"]["12"]["generate_rollouts"]["start"] = ahead
    server.files[path] = json.dumps(record).encode()


def filled(server: LocalModal) -> None:
    """The sample gym, its first run live and well."""
    sample_gym(time.time()).install(server)
    touch(server)
    logs = server.apps[FROG_APP].logs
    server.add_app(LocalApp(FROG_APP, FROG, "detached", time.time(), logs=logs))


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    with LocalModal() as small, LocalModal() as server:
        filled(small)
        filled(server)
        bench = Bench(server, pairs)
        lines = small_rows(bench)
        for modal in LOCKED_BY_GYMS:
            old = Bench(server, pairs, python_with(modal))
            lines += small_rows(old, f", modal {modal}")
        silent, healthy = bench.tool(SILENT, "--no-logs"), bench.tool(FROG, "--no-logs")
        lines.append(bench.measure("silent run, --no-logs", silent, healthy, 1.6))
        fill_runs(server)
        scrap, summary = bench.tool("elastic", "--no-logs"), bench.volume_get(RUNS_SUMMARY)
        lines.append(bench.measure("substring, 2,000 runs", scrap, summary, 0.6))
        fill_rollouts(server)
        whole, summary = bench.tool(FROG, "--no-logs"), bench.volume_get(ROLLOUTS_SUMMARY)
        lines.append(bench.measure("full id, 200,000 rollouts", whole, summary, 1.15))
        peak = peak_bytes(server, [FROG, "--no-logs"])
        size = len(server.files[ROLLOUTS_SUMMARY])
        own_rollouts(server)
        own_rollouts(small)
        beside = "full id, own rollouts beside them, against none there"
        lines.append(bench.measure(beside, whole, whole, 1.05, than=Bench(small, pairs)))
    table = Table("what", "tool", "modal", "ratio", "reach")
    for line in lines:
        times = (f"{line.ours:.2f} s", f"{line.theirs:.2f} s", f"{line.ours / line.theirs:.2f}")
        table.add_row(line.what, *times, f"≤ {line.reach:.2f}")
    allowed = (2.5 * size + 80e6) / 1e6
    table.add_row(
        "peak memory there",
        f"{peak / 1e6:.0f} MB",
        f"{size / 1e6:.0f} MB",
        "",
        f"≤ {allowed:.0f} MB",
    )
    for number, allowed in ((20_000, 300), (200, 5)):
        took = f"{1_000 * judging_seconds(number):.1f} ms"
        table.add_row(f"judging {number:,} log lines", took, "", "", f"≤ {allowed} ms")
    chain = chain_of([FROG, "--no-logs"])
    table.add_row("calls that wait", str(len(chain)), "", "", "≤ 4")
    console = Console()
    console.print(table)
    console.print("the waiting calls:", " → ".join(chain))
    cores = os.cpu_count()
    console.print(
        f"{platform.machine()}, {cores} cores, Python {platform.python_version()}, {pairs} pairs"
    )


if __name__ == "__main__":
    main()
