"""The tool run as a command, by the real interpreter, against the local Modal."""

import contextlib
import functools
import inspect
import itertools
import json
import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, TypeGuard, cast

import pytest

from gym import Gym, sample_gym
from local_modal import Call, LocalModal

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / ".claude" / "skills" / "rollout-progress" / "scripts" / "run_progress.py"
# What a terminal shows once there is an answer: the verdict, or the line under followed logs.
ANSWERED = re.compile("step 12/50 · |Verdict".encode())
# Taken once: pytest changes it for each test, while other threads would read it.
OUTSIDE = dict(os.environ)
# Seconds after which a command that ought to have ended counts as hung.
PATIENCE = 60
# What runs ahead at once: more than two cores can do, since it waits half of the time.
AT_ONCE = 5


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
    kept = {name: value for name, value in OUTSIDE.items() if not name.startswith(dropped)}
    return {**kept, **server.env, **changes}


Tool = Callable[..., Shown]


def tool_for(server: LocalModal) -> Tool:
    def run(*words: str, python: str = sys.executable, **changes: str) -> Shown:
        done = subprocess.run(
            [python, str(SCRIPT), *words],
            env=clean_environment(server, **changes),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        shown = Shown(done.returncode, done.stdout.decode(), done.stderr.decode())
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


@contextlib.contextmanager
def gym_server() -> Iterator[LocalModal]:
    """A local Modal that holds the sample gym."""
    with LocalModal() as local:
        recent_gym().install(local)
        yield local


@pytest.fixture
def server() -> Iterator[LocalModal]:
    """A local Modal of the test's own."""
    with gym_server() as local:
        yield local


@pytest.fixture
def tool(server: LocalModal) -> Tool:
    return tool_for(server)


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


@contextlib.contextmanager
def following_of(server: LocalModal) -> Iterator[Follow]:
    """What starts the tool; nothing that it started is left at the end."""
    started: list[Following] = []

    def run(*words: str, python: str = sys.executable) -> Following:
        started.append(Following(server, *words, python=python))
        return started[-1]

    try:
        yield run
    finally:
        for following in started:
            following.process.kill()
            following.process.communicate()


@pytest.fixture
def start(server: LocalModal) -> Iterator[Follow]:
    with following_of(server) as run:
        yield run


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


# ---- What runs ahead -------------------------------------------------------------------------
# Most tests look at one command against a server of its own. Their commands run ahead of them,
# and so do whole tests that need nothing but a server and the tool: a few at a time, so that the
# suite keeps both cores busy while many of them wait.

Arrange = Callable[[LocalModal, dict[str, Any]], object]


def shows(*words: str, arrange: Arrange | None = None, **environment: str) -> pytest.MarkDecorator:
    """Mark a test that takes `shown`: the command, and what is done to its server before.

    A `{name}` in a word stands for the test's parameter of that name.
    """
    return pytest.mark.shows(*words, arrange=arrange, environment=environment)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shows: the command whose output the test looks at")
    config.addinivalue_line("markers", "last: a test that computes more than it waits")


@dataclass(frozen=True)
class Command:
    """A marked command with its parameters filled in; equal ones are run once."""

    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    arrange: Arrange | None
    parameters: tuple[tuple[str, Any], ...]

    def run(self, ready: "Ready") -> Shown:
        with gym_server() as local:
            if self.arrange:
                self.arrange(local, dict(self.parameters))
            environment = clean_environment(local, **dict(self.environment))
            return replace(ready.run(self.words, environment), calls=local.calls)


class Ready:
    """Interpreters with modal imported (tests/ready.py), one for each command that runs ahead."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.own = threading.local()
        self.started: list[subprocess.Popen[str]] = []
        self.numbers = itertools.count()

    def interpreter(self) -> "subprocess.Popen[str]":
        """This thread's own."""
        if not hasattr(self.own, "process"):
            dropped = ("MODAL_", "PYTHONDONTWRITEBYTECODE")
            kept = {k: v for k, v in OUTSIDE.items() if not k.startswith(dropped)}
            self.own.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).parent / "ready.py")],
                env={**kept, "MODAL_CONFIG_PATH": str(self.folder / "absent.toml")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self.started.append(self.own.process)
        process: subprocess.Popen[str] = self.own.process
        return process

    def run(self, words: tuple[str, ...], environment: dict[str, str]) -> Shown:
        process = self.interpreter()
        assert process.stdin
        assert process.stdout
        out, err = (self.folder / f"{next(self.numbers)}.{name}" for name in ("out", "err"))
        asked = {"words": [str(SCRIPT), *words], "environment": environment}
        process.stdin.write(json.dumps({**asked, "out": str(out), "err": str(err)}) + "\n")
        process.stdin.flush()
        status = int(process.stdout.readline())
        shown = Shown(status, out.read_text(), err.read_text())
        assert "Traceback" not in shown.err, shown.err
        return shown

    def end(self) -> None:
        for process in self.started:
            process.communicate(timeout=PATIENCE)


def parameters_of(item: pytest.Item) -> dict[str, Any]:
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def marked_command(item: pytest.Item) -> Command | None:
    marker = item.get_closest_marker("shows")
    if marker is None:
        return None
    parameters = parameters_of(item)
    environment = marker.kwargs["environment"].items()
    arrange = marker.kwargs["arrange"]
    return Command(
        words=tuple(word.format(**parameters) for word in marker.args),
        environment=tuple((name, value.format(**parameters)) for name, value in environment),
        arrange=arrange,
        parameters=tuple(parameters.items()) if arrange else (),
    )


def runs_whole(item: pytest.Item) -> TypeGuard[pytest.Function]:
    """Whether a test needs a server or the tool, and nothing else but its parameters."""
    if not isinstance(item, pytest.Function):
        return False
    needs = inspect.signature(item.function).parameters.keys() - parameters_of(item).keys()
    return bool(needs) and needs <= {"server", "tool", "start"}


def run_whole(item: pytest.Function) -> None:
    with gym_server() as server, following_of(server) as start:
        given = {"server": server, "tool": tool_for(server), "start": start, **parameters_of(item)}
        item.function(**{name: given[name] for name in inspect.signature(item.function).parameters})


@dataclass(frozen=True)
class Ahead:
    """What became of the commands and the tests that run ahead."""

    commands: dict[Command, Future[Shown]]
    tests: dict[pytest.Function, Future[None]]


@pytest.fixture(scope="session", autouse=True)
def ahead(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ahead]:
    items = request.session.items
    ready = Ready(tmp_path_factory.mktemp("ahead"))
    ahead = Ahead({}, {})
    work: list[Command | pytest.Function] = [*filter(None, map(marked_command, items))]
    work.extend(filter(runs_whole, items))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for each in dict.fromkeys(work):
            if isinstance(each, Command):
                ahead.commands[each] = pool.submit(each.run, ready)
            else:
                ahead.tests[each] = pool.submit(run_whole, each)
        yield ahead
        pool.shutdown(cancel_futures=True)
    ready.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs here comes first, then what runs ahead meanwhile, what computes most last."""
    items.sort(
        key=lambda item: (
            runs_whole(item) or marked_command(item) is not None,
            item.get_closest_marker("last") is not None,
        )
    )


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Give what became of a test that ran ahead; pytest itself runs the others."""
    ahead = cast("Ahead", pyfuncitem.funcargs["ahead"])
    if pyfuncitem not in ahead.tests:
        return None
    ahead.tests[pyfuncitem].result()
    return True


@pytest.fixture
def shown(request: pytest.FixtureRequest, ahead: Ahead) -> Shown:
    """What the test's own command showed."""
    command = marked_command(request.node)
    assert command, "the test names no command: mark it with @shows"
    return ahead.commands[command].result()
