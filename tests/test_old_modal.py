"""The modals that gyms lock, and the oldest that is spoken to: their SDK and CLI, over the wire."""

import json
import signal
from typing import Any

import pytest

from conftest import Follow, Tool, assert_none_left, in_time, needs_proc
from local_modal import LocalModal
from old_modals import OLD_MODALS, python_with

FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"


old = pytest.mark.parametrize("modal", OLD_MODALS)
# By one worker alone: each environment is made once, and an old modal is imported beside no other.
pytestmark = pytest.mark.xdist_group("old modals")


@old
def test_an_old_modal_shows_blocks_liveness_and_logs(
    server: LocalModal, fresh_tool: Tool, modal: str
) -> None:
    python = python_with(modal)
    shown = fresh_tool("elastic-frog", "--tail", "3", python=python)
    assert (shown.status, shown.err) == (0, "")
    assert shown.line("step") == "12/50"
    assert shown.line("app") == f"{FROG_APP} · live"
    assert shown.line("recorded") == "11"
    assert "⚠ POSSIBLY STUCK" in shown.out
    assert shown.out.partition("\n\nVerdict\n")[0].count("401 Unauthorized") == 3
    assert "AppGetLifecycle" in {call.method for call in server.calls}


@old
def test_an_old_modal_tells_a_stopped_app_from_a_live_one(fresh_tool: Tool, modal: str) -> None:
    python = python_with(modal)
    shown = fresh_tool("hollow-crane", "--no-logs", python=python)
    assert (shown.status, shown.err) == (0, "")
    assert shown.line("app").endswith("· not live (stopped 14m ago by maya)")
    assert "✗ APP DIED" in shown.out


@old
def test_an_old_modals_failed_look_up_is_told_beside_the_app(
    server: LocalModal, fresh_tool: Tool, modal: str
) -> None:
    server.fault("AppGetLifecycle", status="PERMISSION_DENIED", message="it is not yours")
    python = python_with(modal)
    shown = fresh_tool(FROG, "--no-logs", python=python)
    assert shown.status == 1
    assert shown.line("app") == f"{FROG_APP} · unknown (it is not yours)"


@old
def test_an_old_modal_follows(server: LocalModal, start: Follow, modal: str) -> None:
    python = python_with(modal)
    following = start(FROG, "--follow", python=python)
    server.wait_for("AppGetLogs")
    server.emit(FROG_APP, "(RolloutManager pid=1188) rollout 11: fresh\n")
    following.line_with("rollout 11: fresh")
    server.finish(FROG_APP)
    assert following.end() == (0, "")


# ---- What Modal knows beside it ----------------------------------------------------------------


def known(tool: Tool, python: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    told = in_time(tool, name, python=python)
    return told["modal"], told["verdict"]


def test_before_modal_1_6_0_the_list_of_containers_is_all_that_is_told(
    server: LocalModal, fresh_tool: Tool
) -> None:
    python = python_with("1.5.5")
    waits, verdict = known(fresh_tool, python, "stranded-seal")
    assert (verdict["word"], verdict["text"]) == ("waiting", "no container runs")
    assert (waits["containers"], waits["waiting_inputs"]) == (0, None)
    assert waits["unknown"] == "modal 1.5.5 tells of containers alone"
    hangs, verdict = known(fresh_tool, python, "frozen-ibex")
    assert (hangs["containers"], verdict["word"]) == (2, "stuck")
    asked = len(server.calls)
    died, verdict = known(fresh_tool, python, "weary-bison")
    assert (died["call_status"], verdict["word"]) == (None, "died")
    assert "TaskList" not in {call.method for call in server.calls[asked:]}


def test_from_modal_1_6_0_on_its_functions_tell(server: LocalModal, fresh_tool: Tool) -> None:
    python = python_with("1.6.1")
    waits, verdict = known(fresh_tool, python, "stranded-seal")
    assert verdict["text"] == "no container runs, 1 input waits for one"
    assert (waits["container_errors_last_hour"], waits["unknown"]) == (1, None)
    idle, verdict = known(fresh_tool, python, "frozen-ibex")
    assert 20 * 60 <= idle["gpu_idle_seconds"] <= 22 * 60  # of the silence but its beginning
    assert "GPUs at 0 % for the last 21m (Modal, train, 2 containers)" in verdict["text"]
    busy, _ = known(fresh_tool, python, "spinning-newt")
    assert busy["gpu_idle_seconds"] == 0
    died, _ = known(fresh_tool, python, "weary-bison")
    assert died["call_status"] == "timeout after 24h"


@needs_proc
@pytest.mark.parametrize("deadly", [signal.SIGINT, signal.SIGKILL])
def test_a_list_of_containers_that_hangs_does_not_outlive_the_tool(
    server: LocalModal, start: Follow, deadly: signal.Signals
) -> None:
    server.fault("TaskList", hang=True)
    python = python_with("1.5.5")
    following = start(FROG, "--no-logs", python=python)
    server.wait_for("TaskList")
    following.process.send_signal(deadly)
    status, err = following.end()
    assert (status, err) == (-deadly, "")
    assert_none_left(server)


def test_a_list_of_containers_that_hangs_is_given_up_in_time(
    server: LocalModal, fresh_tool: Tool
) -> None:
    server.fault("TaskList", hang=True)
    python = python_with("1.5.5")
    shown = fresh_tool(FROG, "--json", "--no-logs", python=python)
    told = json.loads(shown.out)
    assert (told["modal"]["containers"], told["verdict"]["word"]) == (None, "stuck")
    assert " within " in told["modal"]["unknown"]
    assert_none_left(server)
