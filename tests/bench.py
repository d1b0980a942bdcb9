"""How long the tool takes, each time as a ratio to the modal CLI's own command.

uv run python tests/bench.py [pairs]: medians over pairs of runs (15 unless given), one of the
tool and one of modal against the same local Modal, by turns, so that a slow moment of the
machine hits both.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from conftest import SCRIPT, clean_environment
from gym import sample_gym
from local_modal import Call, LocalApp, LocalModal

PAIRS = 15
FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"
RUNS_SUMMARY = "training-runs-summary/summary.json"
ROLLOUTS_SUMMARY = "training-rollouts-summary/summary.json"
MANY_RUNS, RUN_BYTES = 2_000, 20_000
MANY_ROWS, ROW_BYTES = 200_000, 350
MODAL = [sys.executable, "-m", "modal"]


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


def measure(
    server: LocalModal,
    what: str,
    words: Sequence[str],
    against: Sequence[str],
    *,
    reach: float,
    pairs: int,
) -> Measured:
    environment = clean_environment(server)
    commands = [[sys.executable, str(SCRIPT), *words], [*MODAL, *against]]
    for command in commands:  # the files they read are in memory from here on
        seconds(command, environment)
    timed = [[seconds(command, environment) for command in commands] for _ in range(pairs)]
    ours, theirs = (statistics.median(column) for column in zip(*timed, strict=True))
    return Measured(what, ours, theirs, reach)


def volume_get(path: str) -> list[str]:
    return ["volume", "get", "training-gym-metadata", path, "-"]


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
        server.fault("*", delay=0.2)
        seconds([sys.executable, str(SCRIPT), *words], clean_environment(server))
        return longest_chain(server.calls)


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    with LocalModal() as server:
        sample_gym(time.time()).install(server)
        server.add_app(
            LocalApp(FROG_APP, FROG, "detached", time.time(), logs=server.apps[FROG_APP].logs)
        )
        record = volume_get(f"training-runs/{FROG}.json")
        logs = ["app", "logs", FROG_APP, "--tail", "200"]
        lines = [
            measure(
                server, "full id, --no-logs", [FROG, "--no-logs"], record, reach=0.9, pairs=pairs
            ),
            measure(server, "full id, logs", [FROG], logs, reach=1.45, pairs=pairs),
        ]
        fill_runs(server)
        summary = volume_get(RUNS_SUMMARY)
        substring = ["elastic", "--no-logs"]
        lines.append(
            measure(server, "substring, 2,000 runs", substring, summary, reach=1.2, pairs=pairs)
        )
        fill_rollouts(server)
        summary = volume_get(ROLLOUTS_SUMMARY)
        whole = [FROG, "--no-logs"]
        lines.append(
            measure(server, "full id, 200,000 rollouts", whole, summary, reach=1.15, pairs=pairs)
        )
        peak = peak_bytes(server, whole)
        size = len(server.files[ROLLOUTS_SUMMARY])
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
    chain = chain_of(whole)
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
