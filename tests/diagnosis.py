"""How well log tails are read: the cause of those that fail, and silence about those that don't.

uv run python tests/diagnosis.py [folder]: of NAME.txt and expected.json, tests/cases/reports
unless given. Each healthy tail is also cut after each of its lines.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

SCRIPTS = Path(__file__).parent.parent / ".claude" / "skills" / "rollout-progress" / "scripts"
sys.path.insert(0, str(SCRIPTS))  # where it runs as a script; pytest has it there already

import run_progress as tool  # noqa: E402

REPORTS = Path(__file__).parent / "cases" / "reports"


@dataclass(frozen=True)
class Reading:
    """What was said of one tail, and whether that is right."""

    name: str
    expected: dict[str, Any]
    blocker: tool.Blocker | None
    cuts: int = 0
    alarms: int = 0

    @property
    def healthy(self) -> bool:
        return self.expected["kinds"] is None

    @property
    def line_right(self) -> bool:
        said = self.blocker.line if self.blocker else ""
        return any(part in said for part in self.expected["any_of"])

    @property
    def kind_right(self) -> bool:
        return self.blocker is not None and self.blocker.kind in (self.expected["kinds"] or ())


def readings(folder: Path = REPORTS) -> list[Reading]:
    """Each case of a folder as it is read."""
    expected: dict[str, dict[str, Any]] = json.loads((folder / "expected.json").read_text())
    return [
        read(name, case, (folder / f"{name}.txt").read_text()) for name, case in expected.items()
    ]


def read(name: str, expected: dict[str, Any], tail: str) -> Reading:
    blocker = tool.diagnose(tail).blocker
    if expected["kinds"] is not None:
        return Reading(name, expected, blocker)
    lines = tail.splitlines(keepends=True)
    cuts = ["".join(lines[: n + 1]) for n in range(len(lines))]
    alarms = sum(tool.diagnose(cut).blocker is not None for cut in cuts)
    return Reading(name, expected, blocker, len(cuts), alarms)


@dataclass(frozen=True)
class Score:
    """Shares of the failures, and alarms about healthy tails."""

    failing: int
    lines: int
    kinds: int
    healthy: int
    false_alarms: int
    cuts: int
    alarms: int


def score(read: list[Reading]) -> Score:
    """What the readings come to."""
    failing = [reading for reading in read if not reading.healthy]
    healthy = [reading for reading in read if reading.healthy]
    return Score(
        len(failing),
        sum(reading.line_right for reading in failing),
        sum(reading.kind_right for reading in failing),
        len(healthy),
        sum(reading.blocker is not None for reading in healthy),
        sum(reading.cuts for reading in healthy),
        sum(reading.alarms for reading in healthy),
    )


def said(reading: Reading) -> str:
    """What was said of a tail, in a line."""
    told = f"{reading.blocker.kind}: {reading.blocker.line}" if reading.blocker else "no blocker"
    return told[:200]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else REPORTS
    read = readings(folder)
    told = score(read)
    table = Table("what", "of", "share", title=folder.name)
    for what, number, whole in (
        ("line right", told.lines, told.failing),
        ("kind right", told.kinds, told.failing),
        ("false alarms", told.false_alarms, told.healthy),
        ("alarms at a cut", told.alarms, told.cuts),
    ):
        table.add_row(what, f"{number}/{whole}", f"{number / max(whole, 1):.0%}")
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(table)
    for reading in read:
        if reading.healthy and reading.blocker:
            console.print(f"FALSE ALARM {reading.name}: {said(reading)}")
        elif reading.healthy and reading.alarms:
            console.print(f"at {reading.alarms} of {reading.cuts} cuts: {reading.name}")
        elif not reading.healthy and not (reading.line_right and reading.kind_right):
            missed = " and ".join(
                [
                    *(["LINE"] if not reading.line_right else []),
                    *(["KIND"] if not reading.kind_right else []),
                ]
            )
            wanted = f"{reading.expected['kinds']} {reading.expected['any_of']}"
            console.print(f"{missed} {reading.name}: {said(reading)}\n    wanted {wanted}"[:700])


if __name__ == "__main__":
    main()
