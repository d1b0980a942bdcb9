"""The modals that gyms lock, and the oldest that is spoken to: their SDK and CLI, over the wire."""

import pytest

from conftest import Follow, Tool
from local_modal import LocalModal
from old_modals import OLD_MODALS, python_with

FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"


old = pytest.mark.parametrize("modal", OLD_MODALS)
pytestmark = pytest.mark.last


@old
def test_an_old_modal_shows_blocks_liveness_and_logs(
    server: LocalModal, tool: Tool, modal: str
) -> None:
    with python_with(modal) as python:
        shown = tool("elastic-frog", "--tail", "3", python=python)
    assert (shown.status, shown.err) == (0, "")
    assert shown.line("step") == "12/50"
    assert shown.line("app") == f"{FROG_APP} · live"
    assert shown.line("recorded") == "11"
    assert "⚠ POSSIBLY STUCK" in shown.out
    assert shown.out.partition("\n\nVerdict\n")[0].count("401 Unauthorized") == 3
    assert "AppGetLifecycle" in {call.method for call in server.calls}


@old
def test_an_old_modal_tells_a_stopped_app_from_a_live_one(tool: Tool, modal: str) -> None:
    with python_with(modal) as python:
        shown = tool("hollow-crane", "--no-logs", python=python)
    assert (shown.status, shown.err) == (0, "")
    assert shown.line("app").endswith("· not live (stopped 14m ago by maya)")
    assert "✗ APP DIED" in shown.out


@old
def test_an_old_modals_failed_look_up_is_told_beside_the_app(
    server: LocalModal, tool: Tool, modal: str
) -> None:
    server.fault("AppGetLifecycle", status="PERMISSION_DENIED", message="it is not yours")
    with python_with(modal) as python:
        shown = tool(FROG, "--no-logs", python=python)
    assert shown.status == 1
    assert shown.line("app") == f"{FROG_APP} · unknown (it is not yours)"


@old
def test_an_old_modal_follows(server: LocalModal, start: Follow, modal: str) -> None:
    with python_with(modal) as python:
        following = start(FROG, "--follow", python=python)
        server.wait_for("AppGetLogs")
        server.emit(FROG_APP, "(RolloutManager pid=1188) rollout 11: fresh\n")
        following.line_with("rollout 11: fresh")
        server.finish(FROG_APP)
        assert following.end() == (0, "")
