"""The oldest modal that is spoken to, and one between: their own SDK and CLI, over the wire."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import Follow, Tool
from local_modal import LocalModal

FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"


@pytest.fixture(scope="module", params=["1.4.0", "1.5.0"])
def old_python(request: pytest.FixtureRequest) -> str:
    """The interpreter of an environment with this modal, made once and kept in pytest's cache."""
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv, "run the tests with `uv run pytest`: this one makes environments of its own"
    home: Path = request.config.cache.mkdir(f"modal-{request.param}")
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        subprocess.run([uv, "venv", "--quiet", "--clear", str(home)], check=True)
        needs = [f"modal=={request.param}", "rich"]
        into = ["--quiet", "--compile-bytecode", "--python", str(python)]
        subprocess.run([uv, "pip", "install", *into, *needs], check=True)
        (home / "complete").touch()
    return str(python)


def test_an_old_modal_shows_blocks_liveness_and_logs(
    server: LocalModal, tool: Tool, old_python: str
) -> None:
    shown = tool("elastic-frog", "--tail", "3", python=old_python)
    assert (shown.status, shown.err) == (0, "")
    assert shown.line("step") == "12/50"
    assert shown.line("app") == f"{FROG_APP} · live (detached)"
    assert shown.line("recorded") == "11"
    assert "⚠ POSSIBLY STUCK" in shown.out
    assert shown.out.partition("\n\nVerdict\n")[0].count("401 Unauthorized") == 3
    assert "AppList" in {call.method for call in server.calls}


def test_an_old_modal_tells_a_stopped_app_from_a_live_one(tool: Tool, old_python: str) -> None:
    shown = tool("hollow-crane", "--no-logs", python=old_python)
    assert (shown.status, shown.err) == (0, "")
    assert shown.line("app").endswith("· not live (stopped 14m ago)")
    assert "✗ APP DIED" in shown.out


def test_an_old_modals_boxed_error_is_told_on_one_line(
    server: LocalModal, tool: Tool, old_python: str
) -> None:
    server.fault("AppList", status="PERMISSION_DENIED", message="the list is not yours")
    shown = tool(FROG, "--no-logs", python=old_python)
    assert shown.status == 1
    assert shown.line("app") == f"{FROG_APP} · unknown (the list is not yours)"


def test_an_old_modal_follows(server: LocalModal, start: Follow, old_python: str) -> None:
    following = start(FROG, "--follow", python=old_python)
    server.wait_for("AppGetLogs")
    server.emit(FROG_APP, "(RolloutManager pid=1188) rollout 11: fresh\n")
    following.line_with("rollout 11: fresh")
    server.finish(FROG_APP)
    assert following.end() == (0, "")
