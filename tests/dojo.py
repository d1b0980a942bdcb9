"""Volumes that the newest gym's own code wrote, replayed as if it had done so just now.

    python tests/dojo.py resumed-rook --no-logs

`release.jsonl` is what its newest release wrote, `next.jsonl` what its next one will. The first
line of each holds the moment at which it was true and the apps; each other line is a file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from local_modal import LocalApp, LocalFunction, LocalModal, LogEntry

CASES = Path(__file__).parent / "cases" / "dojo"
DAY = 86_400
NEW_VOLUME, OLD_VOLUME = "modal-dojo-metadata", "training-gym-metadata"
Layout = Literal["release", "next"]


@dataclass(frozen=True)
class Dojo:
    """What one layout's volume holds, and its apps."""

    files: dict[str, Any]
    apps: tuple[LocalApp, ...]

    def install(self, server: LocalModal, volume: str = NEW_VOLUME) -> None:
        """Put the volume, under this name, and the apps into a server."""
        contents = {path: json.dumps(content).encode() for path, content in self.files.items()}
        server.volumes.setdefault(volume, {}).update(contents)
        for app in self.apps:
            server.add_app(app)


def dojo(layout: Layout, now: float) -> Dojo:
    """The volume of a layout, moved in time so that it is true now."""
    head, *lines = (CASES / f"{layout}.jsonl").read_text().splitlines()
    base = json.loads(head)["base"]
    read = [json.loads(line) for line in lines]
    files = {line["path"]: moved(line["content"], base, now) for line in read}
    apps = moved(json.loads(head)["apps"], base, now)
    return Dojo(files, tuple(app_of(app_id, app) for app_id, app in apps.items()))


def app_of(app_id: str, app: dict[str, Any]) -> LocalApp:
    logs = [LogEntry(entry["ts"], entry["data"], entry["fd"]) for entry in app["logs"]]
    lifecycle = {name: app[name] for name in ("state", "created_at", "stopped_at", "stopped_by")}
    train = LocalFunction(f"fu-{app_id[3:]}", "train", gpus=8)
    return LocalApp(
        app_id=app_id, description=app["name"], logs=logs, functions=[train], **lifecycle
    )


def moved(content: Any, base: float, now: float) -> Any:
    """Every time in it moved by the same: numbers that stand for moments near the base."""
    if isinstance(content, dict):
        return {key: moved(value, base, now) for key, value in content.items()}
    if isinstance(content, list):
        return [moved(value, base, now) for value in content]
    is_number = isinstance(content, int | float) and not isinstance(content, bool)
    if not is_number or not base - 30 * DAY <= content <= base + DAY:
        return content
    return type(content)(content + now - base)


def main(words: list[str]) -> int:
    """Show a run of either layout."""
    from conftest import SCRIPT, clean_environment

    now = time.time()
    with LocalModal(volume=NEW_VOLUME) as server:
        dojo("release", now).install(server)
        dojo("next", now).install(server)
        command = [sys.executable, str(SCRIPT), *words]
        return subprocess.run(command, env=clean_environment(server), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
