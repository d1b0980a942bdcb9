"""The oldest modal that is spoken to, and one between: their own SDK and CLI, over the wire."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator

import pytest

from conftest import ROOT, Follow, Tool, assert_none_left, needs_proc
from local_modal import LocalModal

FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"


# One test at a time: three processes that import an old modal at once keep a core busy for long.
ONE_AT_A_TIME = {"1.4.0": threading.Lock(), "1.5.0": threading.Lock()}
old = pytest.mark.parametrize("modal", ONE_AT_A_TIME)
oldest = pytest.mark.parametrize("modal", ["1.4.0"])
pytestmark = pytest.mark.last


@contextlib.contextmanager
def python_with(modal: str) -> Iterator[str]:
    """The interpreter of an environment with this modal, made once and kept in pytest's cache."""
    uv = os.environ.get("UV") or shutil.which("uv")
    assert uv, "run the tests with `uv run pytest`: this one makes environments of its own"
    home = ROOT / ".pytest_cache" / f"modal-{modal}"
    python = home / "bin" / "python"
    with ONE_AT_A_TIME[modal]:
        if not (home / "complete").exists():
            subprocess.run([uv, "venv", "--quiet", "--clear", str(home)], check=True)
            into = ["--quiet", "--compile-bytecode", "--python", str(python)]
            subprocess.run([uv, "pip", "install", *into, f"modal=={modal}", "rich"], check=True)
            (home / "complete").touch()
        yield str(python)


@old
def test_an_old_modal_shows_blocks_liveness_and_logs(
    server: LocalModal, tool: Tool, modal: str
) -> None:
    with python_with(modal) as python:
        shown = tool("elastic-frog", "--tail", "3", python=python)
    assert (shown.status, shown.err) == (0, "")
    assert shown.line("step") == "12/50"
    assert shown.line("app") == f"{FROG_APP} · live (detached)"
    assert shown.line("recorded") == "11"
    assert "⚠ POSSIBLY STUCK" in shown.out
    assert shown.out.partition("\n\nVerdict\n")[0].count("401 Unauthorized") == 3
    assert "AppList" in {call.method for call in server.calls}


@old
def test_an_old_modal_tells_a_stopped_app_from_a_live_one(tool: Tool, modal: str) -> None:
    with python_with(modal) as python:
        shown = tool("hollow-crane", "--no-logs", python=python)
    assert (shown.status, shown.err) == (0, "")
    assert shown.line("app").endswith("· not live (stopped 14m ago)")
    assert "✗ APP DIED" in shown.out


@oldest
def test_an_old_modals_boxed_error_is_told_on_one_line(
    server: LocalModal, tool: Tool, modal: str
) -> None:
    server.fault("AppList", status="PERMISSION_DENIED", message="the list is not yours")
    with python_with(modal) as python:
        shown = tool(FROG, "--no-logs", python=python)
    assert shown.status == 1
    assert shown.line("app") == f"{FROG_APP} · unknown (the list is not yours)"


@old
def test_an_old_modal_follows(server: LocalModal, start: Follow, modal: str) -> None:
    with python_with(modal) as python:
        following = start(FROG, "--follow", python=python)
        server.wait_for("AppGetLogs")
        server.emit(FROG_APP, "(RolloutManager pid=1188) rollout 11: fresh\n")
        following.line_with("rollout 11: fresh")
        server.finish(FROG_APP)
        assert following.end() == (0, "")


@oldest
@needs_proc
@pytest.mark.parametrize("deadly", [signal.SIGINT, signal.SIGKILL])
def test_a_list_of_apps_that_hangs_does_not_outlive_the_tool(
    server: LocalModal, start: Follow, modal: str, deadly: signal.Signals
) -> None:
    server.fault("AppList", hang=True)
    with python_with(modal) as python:
        following = start(FROG, "--no-logs", python=python)
        server.wait_for("AppList")
        following.process.send_signal(deadly)
        status, err = following.end()
    assert (status, err) == (130 if deadly == signal.SIGINT else -deadly, "")
    assert_none_left(server)
