"""Try run_progress.py without a Modal account, on a sample gym behind a Modal of one's own.

    uv run python tests/demo.py                       list the sample runs
    uv run python tests/demo.py elastic-frog          show one
    uv run python tests/demo.py brisk-otter --follow  watch one

All arguments go to run_progress.py, and its exit status comes back.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from dojo import Layout
    from gym import Gym, SampleRun
    from local_modal import LocalModal

SCRIPT = (
    Path(__file__).resolve().parents[1] / ".claude/skills/rollout-progress/scripts/run_progress.py"
)

LAYOUT: Layout = "release"

# Seconds between two new log lines of a healthy app.
LINE_EVERY = 1.5

# Seconds a child gets to end of itself after Ctrl-C. A terminal sends it the signal too, and a
# second one would interrupt its good-bye; one that is still there after this wasn't sent any.
CTRL_C_GRACE = 2.0


def query_for(run: SampleRun) -> str:
    """The shortest thing to type that finds the run: the two words of its id."""
    return "-".join(run.run_id.split("-")[:2])


def list_runs(gym: Gym) -> None:
    """Print what there is to try."""
    print("Sample runs: uv run python tests/demo.py RUN [--no-logs | --tail N | --follow]\n")
    for run in gym.runs:
        print(f"  {query_for(run):<18}{run.about}")
    print("\nAs the newest gym wrote them, on a volume of their own:\n")
    for run_id, about in replayed().items():
        print(f"  {'-'.join(run_id.split('-')[:2]):<18}{about}")


def replayed() -> dict[str, str]:
    """The runs of the newest gym's layout, and what is true of each."""
    from dojo import CASES

    truth: dict[str, str] = json.loads((CASES / f"{LAYOUT}-truth.json").read_text())
    return truth


def new_lines(run: SampleRun) -> Iterator[str]:
    """What a healthy run goes on to write, without end."""
    for number in itertools.count(1):
        if run.record["framework_status"] == "prepare_dataset":
            yield f"Tokenizing prompts: {7300 + number}/7473 examples"
            continue
        yield (
            "(SGLangEngine pid=1400) Decode batch. #running-req: 31, "
            f"#token: {40000 + 31 * number}, token usage: 0.21, cuda graph: True, "
            f"gen throughput (token/s): {1900 + number % 7 * 13}.20, #queue-req: 0"
        )


def keep_writing(server: LocalModal, gym: Gym, over: threading.Event) -> None:
    """Let the healthy apps write a line now and then until it is over."""
    healthy = [run for run in gym.runs if run.verdict in ("running", "slow")]
    lines = {run.record["modal_app_id"]: new_lines(run) for run in healthy}
    while not over.wait(LINE_EVERY):
        for app_id, source in lines.items():
            server.emit(app_id, next(source) + "\n")


def wait_for(child: subprocess.Popen[bytes]) -> int:
    """Wait for the child, hand on what only this process was sent, and return its status."""

    def pass_on(signum: int, frame: FrameType | None) -> None:
        child.send_signal(signum)

    def pass_on_late(signum: int, frame: FrameType | None) -> None:
        timer = threading.Timer(CTRL_C_GRACE, pass_on, (signum, None))
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on_late)
    status = child.wait()
    return status if status >= 0 else 128 - status


def show(server: LocalModal, arguments: list[str]) -> int:
    """Run the real script against the server, on this terminal."""
    # Settings for a real account must not leak in.
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MODAL_")}
    child = subprocess.Popen([sys.executable, str(SCRIPT), *arguments], env=outside | server.env)
    return wait_for(child)


def main(arguments: list[str]) -> int:
    """List the runs, or show the one asked for."""
    # Until there is a child to wait for, Ctrl-C just ends this, imports included.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from dojo import dojo
    from gym import sample_gym
    from local_modal import LocalModal

    gym = sample_gym(time.time())
    if not arguments:
        list_runs(gym)
        return 0
    with LocalModal() as server:
        gym.install(server)
        dojo(LAYOUT, time.time()).install(server)
        over = threading.Event()
        writer = threading.Thread(target=keep_writing, args=(server, gym, over))
        writer.start()
        try:
            return show(server, arguments)
        finally:
            over.set()
            writer.join()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
