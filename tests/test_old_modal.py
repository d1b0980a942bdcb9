"""The oldest modal that is spoken to, and one between: their own SDK and CLI, over the wire."""

import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import Follow, Shown, assert_none_left, needs_proc, recent_gym, tool_for
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


@pytest.fixture(scope="module")
def shown_by_old(old_python: str) -> dict[str, Shown]:
    """What the old modal shows of two runs, and of a third where it can't list its apps."""

    def show(words: tuple[str, ...], message: str = "") -> Shown:
        with LocalModal() as server:
            recent_gym().install(server)
            if message:
                server.fault("AppList", status="PERMISSION_DENIED", message=message)
            shown = tool_for(server)(*words, python=old_python)
            return replace(shown, calls=server.calls)

    with ThreadPoolExecutor(2) as pool:
        live, over, denied = (
            pool.submit(show, ("elastic-frog", "--tail", "3")),
            pool.submit(show, ("hollow-crane", "--no-logs")),
            pool.submit(show, (FROG, "--no-logs"), "the list is not yours"),
        )
        return {"live": live.result(), "over": over.result(), "denied": denied.result()}


def test_an_old_modal_shows_blocks_liveness_and_logs(shown_by_old: dict[str, Shown]) -> None:
    shown = shown_by_old["live"]
    assert (shown.status, shown.err) == (0, "")
    assert shown.line("step") == "12/50"
    assert shown.line("app") == f"{FROG_APP} · live (detached)"
    assert shown.line("recorded") == "11"
    assert "⚠ POSSIBLY STUCK" in shown.out
    assert shown.out.partition("\n\nVerdict\n")[0].count("401 Unauthorized") == 3
    assert "AppList" in {call.method for call in shown.calls}


def test_an_old_modal_tells_a_stopped_app_from_a_live_one(shown_by_old: dict[str, Shown]) -> None:
    shown = shown_by_old["over"]
    assert (shown.status, shown.err) == (0, "")
    assert shown.line("app").endswith("· not live (stopped 14m ago)")
    assert "✗ APP DIED" in shown.out


def test_an_old_modals_boxed_error_is_told_on_one_line(shown_by_old: dict[str, Shown]) -> None:
    shown = shown_by_old["denied"]
    assert shown.status == 1
    assert shown.line("app") == f"{FROG_APP} · unknown (the list is not yours)"


def test_an_old_modal_follows(server: LocalModal, start: Follow, old_python: str) -> None:
    following = start(FROG, "--follow", python=old_python)
    server.wait_for("AppGetLogs")
    server.emit(FROG_APP, "(RolloutManager pid=1188) rollout 11: fresh\n")
    following.line_with("rollout 11: fresh")
    server.finish(FROG_APP)
    assert following.end() == (0, "")


@needs_proc
@pytest.mark.parametrize("deadly", [signal.SIGINT, signal.SIGKILL])
def test_a_list_of_apps_that_hangs_does_not_outlive_the_tool(
    server: LocalModal, start: Follow, old_python: str, deadly: signal.Signals
) -> None:
    server.fault("AppList", hang=True)
    following = start(FROG, "--no-logs", python=old_python)
    server.wait_for("AppList")
    following.process.send_signal(deadly)
    status, err = following.end()
    assert (status, err) == (130 if deadly == signal.SIGINT else -deadly, "")
    assert_none_left("modal app list")
