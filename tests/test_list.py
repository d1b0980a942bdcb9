"""The list of runs: which of them needs somebody, by its record and the state of its app."""

import json
import os
import pty
import signal
import subprocess
import sys
from datetime import datetime
from typing import Any

from conftest import PATIENCE, SCRIPT, Follow, Tool, clean_environment
from local_modal import LocalModal

OTTER = "brisk-otter-5c0d9e8f7a61"
PANDA_APP = "ap-3b3dd511526cc07c862be9"


def many(server: LocalModal) -> None:
    """30 runs that say running, each with an app that takes its time to be looked up."""
    app = next(iter(server.apps.values()))
    record = json.loads(server.files[f"training-runs/{OTTER}.json"])
    for number in range(30):
        app_id = f"ap-{number:022d}"
        run = {**record, "training_run_id": f"many-{number:012x}", "modal_app_id": app_id}
        server.files[f"training-runs/many-{number:012x}.json"] = json.dumps(run).encode()
        server.apps[app_id] = type(app)(app_id, "many", "detached", record["created_at"])
    server.fault("AppGetOrCreate", delay=0.5)


def test_all_apps_are_looked_up_together_but_twenty_at_most(server: LocalModal, tool: Tool) -> None:
    many(server)
    shown = tool("--limit", "60", "--json")
    assert (shown.status, shown.err.count("error")) == (0, 0)
    looked_up = [call for call in shown.calls if call.method == "AppGetOrCreate"]
    rows = json.loads(shown.out)
    assert len(looked_up) == sum(row["status"] == "running" and bool(row["app_id"]) for row in rows)
    beside = [
        sum(other.started <= call.started < (other.ended or 0) for other in looked_up)
        for call in looked_up
    ]
    assert 10 < max(beside) <= 20


def test_apps_that_never_answer_leave_the_list_with_what_is_known(
    server: LocalModal, tool: Tool
) -> None:
    server.fault("AppGetOrCreate", hang=True)
    shown = tool("--limit", "40")
    assert shown.status == 0
    assert shown.err.endswith("apps did not tell their state: no answer in time\n")
    verdicts = {row.split()[0]: row.split()[1] for row in shown.out.splitlines()[2:]}
    assert verdicts["hollow-crane-f20e8d6b4a95"] == "unknown"
    assert verdicts[OTTER] == "running"
    assert verdicts["golden-finch-0a6d3b9c72e1"] == "completed"


def test_only_runs_that_say_running_are_looked_up(tool: Tool) -> None:
    shown = tool("--limit", "40", "--json")
    ended = {row["app_id"] for row in json.loads(shown.out) if row["status"] != "running"}
    assert not ended & {call.subject for call in shown.calls if call.method == "AppGetOrCreate"}


def test_verdicts_have_their_colours(tool: Tool) -> None:
    shown = tool("--limit", "40", FORCE_COLOR="1")
    lines = shown.out.splitlines()
    (died,) = [line for line in lines if "hollow-crane" in line]
    (well,) = [line for line in lines if OTTER in line]
    assert "\x1b[1;31mdied" in died
    assert "\x1b[32mrunning" in well


def change(server: LocalModal, run_id: str, **fields: Any) -> None:
    path = f"training-runs/{run_id}.json"
    server.files[path] = json.dumps({**json.loads(server.files[path]), **fields}).encode()


def test_a_watched_list_tells_a_pipe_what_changes(server: LocalModal, start: Follow) -> None:
    watching = start("--watch", "--interval", "2", "--limit", "40")
    moment, run_id, verdict = watching.line_with(OTTER).strip().split(" ", 2)
    assert datetime.fromisoformat(moment)
    assert (run_id, verdict) == (OTTER, "running: step 30/100, optimizer_step")
    watching.line_with("6f1d2c3b")  # the last of them
    server.finish(PANDA_APP)
    told = watching.line_with(" ")
    assert "gentle-panda-b6920d7f3ce8 died: step 7, training" in told
    change(server, OTTER, status="completed")
    assert f"{OTTER} completed: " in watching.line_with(" ")


def test_a_watched_list_survives_a_call_that_fails(server: LocalModal, start: Follow) -> None:
    watching = start("--watch", "--interval", "2", "--limit", "40")
    watching.line_with("6f1d2c3b")
    server.fault("VolumeGetOrCreate", status="PERMISSION_DENIED", message="not now", times=1)
    server.wait_for("VolumeGetOrCreate", count=3)
    change(server, OTTER, status="completed")
    watching.line_with(f"{OTTER} completed: ")
    watching.process.terminate()
    status, err = watching.end()
    assert (status, err.count("note: "), err.count("not now")) == (-signal.SIGTERM, 1, 1)


def test_a_watched_list_on_a_terminal_is_refreshed_in_place(server: LocalModal) -> None:
    ours, its = pty.openpty()
    command = [sys.executable, str(SCRIPT), "--watch", "--interval", "2", "--limit", "3"]
    window = {"COLUMNS": "160", "LINES": "40", "TERM": "xterm-256color"}
    child = subprocess.Popen(
        command, env=clean_environment(server, **window), stdin=its, stdout=its, stderr=its
    )
    written = b""
    while b"\x1b[1A" not in written:  # up again, over what was shown before
        written += os.read(ours, 65536)
    child.terminate()
    assert child.wait(PATIENCE) == -signal.SIGTERM
    os.close(ours)
    os.close(its)
    assert b"last sign" in written
