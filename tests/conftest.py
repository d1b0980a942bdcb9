"""The tool run as a command, by the real interpreter, against the local Modal."""

import contextlib
import functools
import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import forkserver
from pathlib import Path
from typing import IO, Any

import pytest

from gym import Gym, sample_gym
from local_modal import ABSENT_CONFIG, Call, LocalModal
from ready import run as run_ready

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / ".claude" / "skills" / "rollout-progress" / "scripts" / "run_progress.py"
# What a terminal shows once there is an answer: the verdict, or the line under followed logs.
ANSWERED = re.compile("step 12/50 · |Verdict".encode())
# Seconds after which a command that ought to have ended counts as hung.
PATIENCE = 60


@dataclass(frozen=True)
class Shown:
    """What a user got: the status first, then both streams apart."""

    status: int
    out: str
    err: str
    calls: list[Call] = field(default_factory=list)

    def lines(self, label: str) -> list[str]:
        """The values of the lines with this label."""
        start = f"  {label:<9}  "
        return [
            line.removeprefix(start) for line in self.out.splitlines() if line.startswith(start)
        ]

    def line(self, label: str) -> str:
        (value,) = self.lines(label)
        return value


def clean_environment(server: LocalModal, **changes: str) -> dict[str, str]:
    """This machine's environment without what would change the output, and the server's."""
    dropped = ("MODAL_", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, **server.env, **changes}


Tool = Callable[..., Shown]


@pytest.fixture(scope="session")
def ready() -> None:
    """Start the interpreter that the tool is forked from, without this machine's settings."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("MODAL_")]:
            patch.delenv(name)
        patch.setenv("MODAL_CONFIG_PATH", ABSENT_CONFIG)
        forkserver.ensure_running()


@pytest.fixture
def tool(server: LocalModal, ready: None, tmp_path: Path) -> Tool:
    """What runs the tool to its end against the test's own server."""
    out, err = tmp_path / "out", tmp_path / "err"

    def run(*words: str, **changes: str) -> Shown:
        before = len(server.calls)
        environment = clean_environment(server, **changes)
        status = run_ready([str(SCRIPT), *words], environment, out, err, patience=PATIENCE)
        shown = Shown(status, out.read_text(), err.read_text(), server.calls[before:])
        assert "Traceback" not in shown.err, shown.err
        return shown

    return run


@pytest.fixture
def fresh_tool(server: LocalModal) -> Tool:
    """The same in an interpreter that starts with it, for what is read only as one starts."""

    def run(*words: str, python: str = sys.executable, **changes: str) -> Shown:
        before = len(server.calls)
        done = subprocess.run(
            [python, str(SCRIPT), *words],
            env=clean_environment(server, **changes),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        calls = server.calls[before:]
        shown = Shown(done.returncode, done.stdout.decode(), done.stderr.decode(), calls)
        assert "Traceback" not in shown.err, shown.err
        return shown

    return run


def in_time(tool: Tool, *words: str, **environment: str) -> dict[str, Any]:
    """The object of --json, with what Modal knows: a busy machine may not tell that in 3 s."""
    for _ in range(5):
        shown = tool(*words, "--json", "--no-logs", **environment)
        assert (shown.status, shown.err) == (0, "")
        told: dict[str, Any] = json.loads(shown.out)
        if " within " not in (told["modal"]["unknown"] or ""):
            return told
    pytest.fail("this machine is too busy")


# ---- Commands that a test steers -------------------------------------------------------------


@functools.cache
def gym_of(moment: int) -> Gym:
    return sample_gym(float(moment))


def recent_gym() -> Gym:
    """A gym of at most 15 seconds ago: building one takes longer than starting a server."""
    return gym_of(int(time.time()) // 15 * 15)


@pytest.fixture
def gym() -> Gym:
    return recent_gym()


@pytest.fixture
def server() -> Iterator[LocalModal]:
    """A local Modal of the test's own that holds the sample gym."""
    with LocalModal() as local:
        recent_gym().install(local)
        yield local


class Following:
    """The tool with --follow, its output read line by line."""

    def __init__(self, server: LocalModal, *words: str, python: str = sys.executable) -> None:
        self.process = subprocess.Popen(
            [python, str(SCRIPT), *words],
            env=clean_environment(server),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        hung = threading.Timer(PATIENCE, self.process.kill)
        hung.daemon = True
        hung.start()

    def line_with(self, text: str) -> str:
        """The next line that holds this text; fails where the output ends or hangs before."""
        for line in self.out:
            if text in line.decode():
                return line.decode()
        pytest.fail(f"never shown: {text}; stderr: {self.err.read().decode()}")

    @property
    def out(self) -> IO[bytes]:
        assert self.process.stdout
        return self.process.stdout

    @property
    def err(self) -> IO[bytes]:
        assert self.process.stderr
        return self.process.stderr

    def end(self) -> tuple[int, str]:
        """The exit status and what stderr held."""
        _, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, err.decode()


Follow = Callable[..., Following]


@pytest.fixture
def start(server: LocalModal) -> Iterator[Follow]:
    """What starts the tool; nothing that it started is left at the end."""
    started: list[Following] = []

    def run(*words: str, python: str = sys.executable) -> Following:
        started.append(Following(server, *words, python=python))
        return started[-1]

    yield run
    for following in started:
        following.process.kill()
        following.process.communicate()


def processes_of(server: LocalModal) -> list[str]:
    """The command lines of the running processes that were started to talk to this server."""
    url = server.env["MODAL_SERVER_URL"].encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is somebody else's
            if url in (process / "environ").read_bytes():
                line = (process / "cmdline").read_bytes()
                found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found


def assert_none_left(server: LocalModal) -> None:
    """No process of this server is left, or it is gone within the time a kernel needs."""
    waiting = threading.Event()
    for _ in range(100):
        if not processes_of(server):
            return
        waiting.wait(0.05)
    pytest.fail(f"left behind: {processes_of(server)}")


needs_proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc here")


def written_to_a_terminal(
    server: LocalModal,
    words: tuple[str, ...],
    *,
    columns: int = 100,
    meanwhile: Callable[[], None] | None = None,
    answered: re.Pattern[bytes] = ANSWERED,
    environment: dict[str, str] | None = None,
    err: IO[bytes] | None = None,
) -> tuple[int, str]:
    """The status, and what goes to a terminal; `meanwhile` is done once it shows an answer."""
    ours, its = pty.openpty()
    window = {"COLUMNS": str(columns), "LINES": "40", "TERM": "xterm-256color"}
    child = subprocess.Popen(
        [sys.executable, str(SCRIPT), *words],
        env=clean_environment(server, **{**window, **(environment or {})}),
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=err or its,
    )
    os.close(its)
    written = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not chunk:
            break
        written += chunk
        if meanwhile and answered.search(written):
            meanwhile()
            meanwhile = None
    os.close(ours)
    return child.wait(PATIENCE), written.decode()
