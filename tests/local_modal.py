"""Modal on loopback: what the real SDK and the real `modal` command talk to in these tests.

    with LocalModal() as modal:
        modal.files["training-runs/x.json"] = b"{}"
        subprocess.run([...], env={**os.environ, **modal.env})

It serves volumes by their names and any number of apps with their logs, keeps every call that
came in, and answers late, wrongly or never where `fault` says so. It runs in a daemon thread of
its own.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
import math
import socket
import threading
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from aiohttp import web
from grpclib import GRPCError, Status
from grpclib.server import Server
from modal_proto import api_pb2
from modal_proto.api_grpc import ModalClientBase

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping

AppState = Literal[
    "ephemeral", "detached", "deployed", "initializing", "stopping", "stopped", "disabled"
]

LIVE_STATES = ("ephemeral", "detached", "deployed", "initializing")
BLOCK_BYTES = 8 * 1024 * 1024  # the client asks for a file in blocks of this size
WRITE_BYTES = 1024 * 1024  # a block goes out in pieces, so that other calls get their turn
LISTED_AFTER_STOP_SECONDS = 24 * 3600  # `modal app list` leaves out what stopped longer ago
STOP_SECONDS = 10.0  # a thread that takes longer to stop is a fault of this file
TOKEN_ID = "ak-local"
TOKEN_SECRET = "as-local"
ABSENT_CONFIG = "/nonexistent/modal.toml"
# What a call asked for stands in the first of these fields that is there and not empty.
SUBJECT_FIELDS = (
    "path", "function_id", "app_id", "app_name", "deployment_name", "name", "environment_name",
)  # fmt: skip
DESCRIPTORS = {
    "stdout": api_pb2.FILE_DESCRIPTOR_STDOUT,
    "stderr": api_pb2.FILE_DESCRIPTOR_STDERR,
    "system": api_pb2.FILE_DESCRIPTOR_INFO,
}


# ---------------------------------------------------------------------------------------------
# What a test puts in and gets out
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LogEntry:
    """What a program wrote at once: several lines, half a line, `\\r`, colour codes."""

    at: float  # seconds since the epoch
    data: str
    source: Literal["stdout", "stderr", "system"] = "stdout"


@dataclass(frozen=True)
class LocalCall:
    """A call of a function; its status is as `modal function calls --json` writes it."""

    status: str
    enqueued_at: float
    seconds: float = 0.0


@dataclass(frozen=True)
class LocalSeries:
    """A metric by the minute, the newest last, of `late` minutes ago; None: no observation."""

    name: str
    unit: str
    values: tuple[float | None, ...]
    late: int = 0


@dataclass
class LocalFunction:
    """A function of an app: how many containers it has, what waits for one, how calls ended."""

    function_id: str
    name: str
    gpus: int = 0
    timeout: int = 24 * 3600
    containers: int = 0
    pending: int = 0  # containers that are being started
    backlog: int = 0
    container_errors: int = 0  # of the last hour
    calls: list[LocalCall] = field(default_factory=list)
    series: list[LocalSeries] = field(default_factory=list)


@dataclass
class LocalApp:
    """An app; its description is its name, which for a training app is the run id."""

    app_id: str
    description: str
    state: AppState
    created_at: float
    stopped_at: float = 0.0
    stopped_by: str = ""
    tasks: int = 0
    logs: list[LogEntry] = field(default_factory=list)
    functions: list[LocalFunction] = field(default_factory=list)


@dataclass(frozen=True)
class Call:
    """One call that came in. The subject is a path without slashes at its ends, an id or a name."""

    method: str  # the gRPC method's name, or "block" for the download of a block
    subject: str
    started: float  # time.monotonic()
    ended: float | None  # None while unanswered
    request: Any  # the protobuf request; None for a block


@dataclass
class Fault:
    """What goes wrong with the calls it matches, `left` more times (None: always)."""

    method: str = "*"
    subject: str | None = None
    left: int | None = None
    delay: float = 0.0
    hang: bool = False
    status: str | None = None
    message: str = ""
    http_status: int | None = None
    keep: int | None = None
    cut: int | None = None

    def matches(self, method: str, subject: str) -> bool:
        """Tell whether this call is to suffer."""
        if self.left == 0 or self.method not in ("*", method):
            return False
        return self.subject is None or _plain_path(self.subject) == subject


# ---------------------------------------------------------------------------------------------
# Answers: from files and apps to protobuf messages. No state, no I/O.
# ---------------------------------------------------------------------------------------------


def _plain_path(path: str) -> str:
    return path.strip("/")


def _subject(request: Any) -> str:
    values = (getattr(request, name, "") for name in SUBJECT_FIELDS)
    return _plain_path(next((value for value in values if value), ""))


def _missing(message: str) -> GRPCError:
    return GRPCError(Status.NOT_FOUND, message)


def _file_entry(path: str, size: int, mtime: int) -> Any:
    return api_pb2.FileEntry(path=path, type=api_pb2.FileEntry.FILE, size=size, mtime=mtime)


def _folder_entry(path: str, mtime: int) -> Any:
    return api_pb2.FileEntry(path=path, type=api_pb2.FileEntry.DIRECTORY, mtime=mtime)


def _list_folder(
    sizes: Mapping[str, int], mtime: Callable[[str], int], folder: str, *, recursive: bool
) -> list[Any]:
    if folder in sizes:
        return [_file_entry(folder, sizes[folder], mtime(folder))]
    prefix = f"{folder}/" if folder else ""
    entries: dict[str, Any] = {}
    for path in sorted(path for path in sizes if path.startswith(prefix)):
        parts = path.removeprefix(prefix).split("/")
        for depth in range(1, len(parts)):
            parent = prefix + "/".join(parts[:depth])
            entries.setdefault(parent, _folder_entry(parent, mtime(parent)))
        entries[path] = _file_entry(path, sizes[path], mtime(path))
    if not entries and folder:
        raise _missing(f"No such file or directory: {folder}")
    if recursive:
        return list(entries.values())
    return [entry for path, entry in entries.items() if "/" not in path.removeprefix(prefix)]


def _app_state(app: LocalApp) -> Any:
    return api_pb2.AppState.Value(f"APP_STATE_{app.state.upper()}")


def _lifecycle(app: LocalApp) -> Any:
    return api_pb2.AppLifecycle(
        app_state=_app_state(app),
        created_at=app.created_at,
        stopped_at=app.stopped_at,
        stopped_by=app.stopped_by,
    )


def _handle(app: LocalApp) -> Any:
    return api_pb2.AppHandleMetadata(
        app_id=app.app_id,
        description=app.description,
        lifecycle=_lifecycle(app),
        functions={function.name: function.function_id for function in app.functions},
    )


def _app_handle(app: LocalApp, *, with_functions: bool) -> Any:
    handle = _handle(app)
    if not with_functions:
        handle.functions.clear()
    return api_pb2.AppGetOrCreateResponse(app_id=app.app_id, handle_metadata=handle)


def _app_info(app: LocalApp) -> Any:
    summary = api_pb2.AppGetInfoResponse.FunctionInfoSummary
    summaries = {
        function.function_id: summary(gpu_config=[_gpu_config(function)] if function.gpus else [])
        for function in app.functions
    }
    return api_pb2.AppGetInfoResponse(info=_handle(app), function_info_summaries=summaries)


def _gpu_config(function: LocalFunction) -> Any:
    return api_pb2.GPUConfig(gpu_type="H100" if function.gpus else "", count=function.gpus)


def _containers(app: LocalApp) -> Any:
    started = [
        at
        for function in app.functions
        for at in (*[app.created_at] * function.containers, *[0.0] * function.pending)
    ]
    tasks = [
        api_pb2.TaskStats(
            task_id=f"ta-{number:022d}",
            app_id=app.app_id,
            app_description=app.description,
            started_at=at,
        )
        for number, at in enumerate(started)
    ]
    return api_pb2.TaskListResponse(tasks=tasks)


def _function_data(function: LocalFunction) -> Any:
    definition = api_pb2.Function(
        function_name=function.name,
        resources=api_pb2.Resources(gpu_config=_gpu_config(function)),
    )
    ranked = api_pb2.FunctionData.RankedFunction(rank=0, function=definition)
    return api_pb2.FunctionGetByIdResponse(
        function=api_pb2.FunctionData(
            function_name=function.name,
            timeout_secs=function.timeout,
            ranked_functions=[ranked],
        ),
        handle_metadata=api_pb2.FunctionHandleMetadata(
            function_name=function.name, function_type=api_pb2.Function.FUNCTION_TYPE_FUNCTION
        ),
    )


def _current_stats(function: LocalFunction) -> Any:
    return api_pb2.FunctionStats(
        backlog=function.backlog,
        num_total_tasks=function.containers,
        num_running_inputs=function.containers,
    )


def _buckets(series: LocalSeries, until: float, since: float) -> list[tuple[int, float | None]]:
    """The whole minutes of a window and what was seen in each, the oldest first."""
    end = int(until) // 60 * 60
    values = (*series.values, *[None] * series.late)
    starts = range(int(since) // 60 * 60, end, 60)
    padding = (None,) * max(0, len(starts) - len(values))
    return list(zip(starts, (padding + values)[-len(starts) :], strict=True))


def _metrics(function: LocalFunction, request: Any) -> Any:
    response = api_pb2.FunctionGetMetricsResponse(bucket_secs=60)
    response.since.seconds = request.since.seconds // 60 * 60
    response.until.seconds = request.until.seconds // 60 * 60
    for series in function.series:
        told = response.series.add(name=series.name, unit=series.unit)
        for start, value in _buckets(series, request.until.seconds, request.since.seconds):
            point = told.points.add(value=value)
            point.timestamp.seconds = start
    return response


def _range_stats(function: LocalFunction, request: Any) -> Any:
    response = api_pb2.FunctionGetTimeRangeStatsResponse(
        since=request.since,
        until=request.until,
        container_error_count=function.container_errors,
        container_total_count=function.containers,
    )
    for series in (each for each in function.series if each.name == "gpu_utilization_max"):
        seen = _buckets(series, request.until.seconds, request.since.seconds)
        values = sorted(value for _, value in seen if value is not None)
        if values:
            told = response.container_percentile_stats["GPU Utilization (%)"]
            told.unit = "%"
            for percentile in (50, 90, 99):
                nearest = values[math.ceil(percentile / 100 * len(values)) - 1]
                told.percentiles.add(percentile_basis_points=100 * percentile, value=nearest)
    return response


def _newest_calls(function: LocalFunction, request: Any) -> Any:
    newest = sorted(function.calls, key=lambda call: -call.enqueued_at)[: request.tail.count]
    response = api_pb2.FunctionCallFetchResponse()
    for call in newest:
        status = f"FUNCTION_CALL_INPUT_STATUS_{call.status.upper().replace(' ', '_')}"
        told = response.function_call_inputs.add(
            function_call_id="fc-local",
            status=api_pb2.FunctionCallInputStatus.Value(status),
            execution_time_seconds=call.seconds,
        )
        told.enqueued_at.seconds = int(call.enqueued_at)
    return response


def _app_item(app: LocalApp) -> Any:
    return api_pb2.AppListResponse.AppListItem(
        app_id=app.app_id,
        description=app.description,
        name=app.description,
        state=_app_state(app),
        created_at=app.created_at,
        stopped_at=app.stopped_at,
        n_running_tasks=app.tasks,
    )


def _is_listed(app: LocalApp, now: float) -> bool:
    return app.state != "stopped" or now - app.stopped_at < LISTED_AFTER_STOP_SECONDS


def _log_item(entry: LogEntry) -> Any:
    return api_pb2.TaskLogs(
        data=entry.data,
        timestamp=entry.at,
        timestamp_ns=int(entry.at * 1e9),
        file_descriptor=DESCRIPTORS[entry.source],
    )


def _of_source(entries: Iterable[LogEntry], descriptor: int) -> list[LogEntry]:
    return [entry for entry in entries if descriptor in (0, DESCRIPTORS[entry.source])]


def _entries_in_range(app: LocalApp, request: Any) -> list[LogEntry]:
    since = request.since.seconds + request.since.nanos / 1e9
    until = request.until.seconds + request.until.nanos / 1e9
    return [
        entry
        for entry in _of_source(app.logs, request.source)
        if since <= entry.at < until and request.search_text in entry.data
    ]


def _last_logs(app: LocalApp, request: Any) -> Any:
    entries = _entries_in_range(app, request)[-request.limit :]
    batches = [api_pb2.TaskLogsBatch(items=map(_log_item, entries))] if entries else []
    return api_pb2.AppFetchLogsResponse(batches=batches)


def _log_counts(app: LocalApp, request: Any) -> Any:
    width = request.bucket_secs
    counts = Counter(
        (math.floor(entry.at / width) * width, entry.source)
        for entry in _entries_in_range(app, request)
    )
    response = api_pb2.AppCountLogsResponse()
    for start in sorted({start for start, _ in counts}):
        bucket = response.buckets.add(
            stdout_logs=counts[start, "stdout"],
            stderr_logs=counts[start, "stderr"],
            system_logs=counts[start, "system"],
        )
        bucket.bucket_start_at.seconds = start
    return response


def _auth_token() -> Any:
    claims = json.dumps({"exp": int(time.time()) + 3600}).encode()
    token = ".".join(("e30", base64.urlsafe_b64encode(claims).decode().rstrip("="), "e30"))
    return api_pb2.AuthTokenGetResponse(token=token)


# ---------------------------------------------------------------------------------------------
# The gRPC service: each of Modal's methods hands its call to one `answer`.
# ---------------------------------------------------------------------------------------------


def _rpc(method: str) -> Callable[[Any, Any], Any]:
    async def handle(self: Any, stream: Any) -> None:
        await self.answer(method, stream)

    return handle


METHODS: frozenset[str] = frozenset(ModalClientBase.__abstractmethods__)
# Built once: the class has some 280 methods, and a server is started for each test.
Service = type("Service", (ModalClientBase,), {method: _rpc(method) for method in METHODS})


class GrpcServer(Server):  # type: ignore[misc]  # grpclib is not typed for mypy
    """A grpclib server that can hang up: its own `close` leaves the connections open."""

    def __init__(self, answer: Callable[[str, Any], Any]) -> None:
        service = Service()
        service.answer = answer
        super().__init__([service])
        self.protocols: list[Any] = []

    def _protocol_factory(self) -> Any:
        protocol = super()._protocol_factory()
        self.protocols.append(protocol)
        return protocol

    def hang_up(self) -> None:
        """Close the port and every connection, and cancel what is being answered."""
        self.close()
        for protocol in self.protocols:
            if hasattr(protocol, "connection"):  # one that came just now gets it in the next turn
                protocol.connection.close()


# ---------------------------------------------------------------------------------------------
# The server
# ---------------------------------------------------------------------------------------------


class LocalModal:
    """A context manager: a Modal with a volume, from `__enter__` to `__exit__` or `stop`.

    `files` are those of the volume that it is made with; `volumes` takes more of them.
    """

    def __init__(
        self,
        *,
        volume: str = "training-gym-metadata",
        environments: tuple[str, ...] = ("main",),
    ) -> None:
        self.files: dict[str, bytes] = {}
        self.volumes: dict[str, dict[str, bytes]] = {volume: self.files}
        self.mtimes: dict[str, int] = {}
        self.apps: dict[str, LocalApp] = {}
        self.looked_up_with_functions = True  # or only an app's info tells of its functions
        self._environments = environments
        self._started_at = int(time.time())
        self._changed = threading.Condition()  # guards the calls and the faults
        self._calls: list[Call] = []
        self._faults: list[Fault] = []
        # A download keeps the bytes it was promised, though the file may change meanwhile.
        self._downloads: list[tuple[str, bytes]] = []
        self._grpc_port = 0
        self._block_port = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self._news: asyncio.Event  # set, and replaced, whenever an app wrote or ended
        self._unary: dict[str, Callable[[Any], Any]] = {
            "AppCountLogs": lambda request: _log_counts(self._app(request.app_id), request),
            "AppFetchLogs": lambda request: _last_logs(self._app(request.app_id), request),
            "AppGetInfo": lambda request: _app_info(self._app(request.app_id)),
            "AppGetLifecycle": self._get_lifecycle,
            "AppGetOrCreate": lambda request: _app_handle(
                self._app(request.app_name), with_functions=self.looked_up_with_functions
            ),
            "AppList": self._list_apps,
            "AuthTokenGet": lambda _: _auth_token(),
            "ClientHello": lambda _: api_pb2.ClientHelloResponse(),
            "FunctionCallFetch": self._of_function(_newest_calls),
            "FunctionGetById": self._of_function(lambda function, _: _function_data(function)),
            "FunctionGetCurrentStats": self._of_function(
                lambda function, _: _current_stats(function)
            ),
            "FunctionGetMetrics": self._of_function(_metrics),
            "FunctionGetTimeRangeStats": self._of_function(_range_stats),
            "TaskList": lambda request: _containers(self._app(request.app_id)),
            "VolumeGetFile2": self._get_file,
            "VolumeGetOrCreate": self._get_volume,
        }
        self._streams: dict[str, Callable[[Any], AsyncIterator[Any]]] = {
            "AppGetLogs": self._follow_logs,
            "VolumeListFiles2": self._list_files,
        }

    def __enter__(self) -> Self:
        grpc = socket.create_server(("127.0.0.1", 0))
        blocks = socket.create_server(("127.0.0.1", 0))
        self._grpc_port = grpc.getsockname()[1]
        self._block_port = blocks.getsockname()[1]
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(grpc, blocks, ready)),
            name="local-modal",
            daemon=True,
        )
        self._thread.start()
        ready.result(STOP_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that lead a client here."""
        return {
            "MODAL_SERVER_URL": f"http://127.0.0.1:{self._grpc_port}",
            "MODAL_TOKEN_ID": TOKEN_ID,
            "MODAL_TOKEN_SECRET": TOKEN_SECRET,
            "MODAL_CONFIG_PATH": ABSENT_CONFIG,
        }

    @property
    def calls(self) -> list[Call]:
        """The calls so far, in order of arrival."""
        with self._changed:
            return list(self._calls)

    def add_app(self, app: LocalApp) -> None:
        """Make an app known."""
        self.apps[app.app_id] = app

    def fault(
        self,
        method: str,
        *,
        subject: str | None = None,
        times: int | None = None,
        delay: float = 0.0,
        hang: bool = False,
        status: str | None = None,
        message: str = "",
        http_status: int | None = None,
        keep: int | None = None,
        cut: int | None = None,
    ) -> None:
        """Let the next calls of a method ("*": any, "block": a download) fail, hang or be late.

        `status` names a gRPC status. For blocks: `http_status`; `keep`, only so many bytes, in a
        body that claims no more; `cut`, the connection closed after so many bytes of the whole.
        """
        if method not in METHODS | {"*", "block"}:
            raise ValueError(f"Modal has no method {method}")
        if status is not None and status not in Status.__members__:
            raise ValueError(f"gRPC has no status {status}")
        fault = Fault(method, subject, times, delay, hang, status, message, http_status, keep, cut)
        with self._changed:
            self._faults.append(fault)

    def clear_faults(self) -> None:
        """Answer every further call rightly; calls that hang go on hanging."""
        with self._changed:
            self._faults.clear()

    def emit(
        self, app_id: str, data: str, source: Literal["stdout", "stderr", "system"] = "stdout"
    ) -> None:
        """Let an app write now."""
        self.apps[app_id].logs.append(LogEntry(time.time(), data, source))
        self._spread_news()

    def finish(self, app_id: str, state: AppState = "stopped", stopped_by: str = "") -> None:
        """Let an app end now; who follows its logs is told that they are complete."""
        app = self.apps[app_id]
        app.stopped_at = time.time()
        app.stopped_by = stopped_by
        app.tasks = 0
        app.state = state
        self._spread_news()

    def wait_for(
        self, method: str, *, subject: str | None = None, count: int = 1, timeout: float = 20.0
    ) -> None:
        """Wait until so many calls have arrived; TimeoutError if they don't."""
        wanted = Fault(method, subject)

        def arrived() -> int:
            return sum(wanted.matches(call.method, call.subject) for call in self._calls)

        with self._changed:
            if not self._changed.wait_for(lambda: arrived() >= count, timeout):
                raise TimeoutError(f"{arrived()} of {count} calls of {method} in {timeout:g} s")

    def stop(self) -> None:
        """Go away now: ports and connections are closed, calls that hang end unanswered."""
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError("the local Modal doesn't stop")
        self._thread = None

    # -- The thread's own life ----------------------------------------------------------------

    async def _serve(
        self, grpc_socket: socket.socket, block_socket: socket.socket, ready: Future[None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._news = asyncio.Event()
        grpc = GrpcServer(self._answer)
        blocks = web.Server(self._answer_block, access_log=None)
        await grpc.start(sock=grpc_socket)
        block_listener = await self._loop.create_server(blocks, sock=block_socket)
        ready.set_result(None)
        await self._stopping.wait()
        grpc.hang_up()
        block_listener.close()
        await blocks.shutdown(timeout=0.01)  # aiohttp takes 0 for "as long as it needs"

    def _spread_news(self) -> None:
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._replace_news)

    def _replace_news(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    # -- Every call ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _recorded(self, method: str, subject: str, request: Any = None) -> Iterator[None]:
        with self._changed:
            index = len(self._calls)
            self._calls.append(Call(method, subject, time.monotonic(), None, request))
            self._changed.notify_all()
        try:
            yield
        except asyncio.CancelledError:
            raise  # the client or this server went away: the call stays unanswered
        except Exception:
            self._end_call(index)
            raise
        self._end_call(index)

    def _end_call(self, index: int) -> None:
        with self._changed:
            self._calls[index] = dataclasses.replace(self._calls[index], ended=time.monotonic())

    async def _suffer(self, method: str, subject: str) -> Fault:
        fault = self._next_fault(method, subject)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.hang:
            await asyncio.Event().wait()
        return fault

    def _next_fault(self, method: str, subject: str) -> Fault:
        with self._changed:
            for fault in self._faults:
                if fault.matches(method, subject):
                    fault.left = None if fault.left is None else fault.left - 1
                    return fault
        return Fault()

    async def _answer(self, method: str, stream: Any) -> None:
        request = await stream.recv_message()
        subject = _subject(request)
        with self._recorded(method, subject, request):
            fault = await self._suffer(method, subject)
            if fault.status is not None:
                raise GRPCError(Status[fault.status], fault.message)
            self._check_token(stream.metadata)
            if getattr(request, "object_creation_type", 0):
                raise GRPCError(Status.FAILED_PRECONDITION, "Nothing may be created here")
            await self._send_answer(method, request, stream)

    async def _send_answer(self, method: str, request: Any, stream: Any) -> None:
        if unary := self._unary.get(method):
            await stream.send_message(unary(request))
            return
        if (streamed := self._streams.get(method)) is None:
            raise GRPCError(Status.UNIMPLEMENTED, f"{method} is not served here")
        async for message in streamed(request):
            await stream.send_message(message)

    def _check_token(self, metadata: Mapping[str, str]) -> None:
        if metadata.get("x-modal-token-id") != TOKEN_ID:
            raise GRPCError(Status.UNAUTHENTICATED, "Token ID is malformed")
        if metadata.get("x-modal-token-secret") != TOKEN_SECRET:
            raise GRPCError(Status.UNAUTHENTICATED, "Token validation failed")

    def _check_environment(self, name: str) -> None:
        if name and name not in self._environments:
            raise _missing(f"Environment '{name}' not found")

    # -- The volume ---------------------------------------------------------------------------

    def _get_volume(self, request: Any) -> Any:
        self._check_environment(request.environment_name)
        name = request.deployment_name
        if name not in self.volumes:
            environment = request.environment_name or self._environments[0]
            raise _missing(f"Volume '{name}' not found in environment '{environment}'")
        version = api_pb2.VOLUME_FS_VERSION_V2
        return api_pb2.VolumeGetOrCreateResponse(
            volume_id=f"vo-{name}",
            version=version,
            metadata=api_pb2.VolumeMetadata(version=version, name=name),
        )

    def _files_of(self, request: Any) -> dict[str, bytes]:
        return self.volumes[request.volume_id.removeprefix("vo-")]

    def _get_file(self, request: Any) -> Any:
        path = _plain_path(request.path)
        content = self._files_of(request).get(path)
        if content is None:
            raise _missing(f"No such file or directory: {request.path}")
        self._downloads.append((path, content))
        url = f"http://127.0.0.1:{self._block_port}/{len(self._downloads) - 1}"
        starts = range(0, len(content), BLOCK_BYTES)
        return api_pb2.VolumeGetFile2Response(
            get_urls=[f"{url}/{start}" for start in starts], size=len(content), len=len(content)
        )

    async def _list_files(self, request: Any) -> AsyncIterator[Any]:
        files = self._files_of(request)
        sizes = {path: len(content) for path, content in list(files.items())}
        entries = _list_folder(
            sizes,
            lambda path: self.mtimes.get(path, self._started_at),
            _plain_path(request.path),
            recursive=request.recursive,
        )
        yield api_pb2.VolumeListFiles2Response(entries=entries)

    async def _answer_block(self, request: web.BaseRequest) -> web.StreamResponse:
        download, start = map(int, request.path.strip("/").split("/"))
        path, content = self._downloads[download]
        with self._recorded("block", path):
            fault = await self._suffer("block", path)
        failure = fault.http_status or (fault.status and 500)
        if failure:
            return web.Response(status=int(failure), text=fault.message)
        block = memoryview(content)[start : start + BLOCK_BYTES][: fault.keep]
        response = web.StreamResponse()
        response.content_length = len(block)
        sent = block[: fault.cut]
        with contextlib.suppress(ConnectionError):  # the client may go away meanwhile
            await response.prepare(request)
            for begin in range(0, len(sent), WRITE_BYTES):
                await response.write(sent[begin : begin + WRITE_BYTES])
        if fault.cut is not None and request.transport is not None:
            request.transport.close()
        return response

    # -- The apps -----------------------------------------------------------------------------

    def _app(self, app_id: str) -> LocalApp:
        app = self.apps.get(app_id)
        if app is None:
            raise _missing(f"App '{app_id}' not found")
        return app

    def _of_function(self, answer: Callable[[LocalFunction, Any], Any]) -> Callable[[Any], Any]:
        def find(request: Any) -> Any:
            functions = [each for app in list(self.apps.values()) for each in app.functions]
            for function in functions:
                if function.function_id == request.function_id:
                    return answer(function, request)
            raise _missing(f"Function '{request.function_id}' not found")

        return find

    def _get_lifecycle(self, request: Any) -> Any:
        lifecycle = _lifecycle(self._app(request.app_id))
        return api_pb2.AppGetLifecycleResponse(lifecycle=lifecycle)

    def _list_apps(self, request: Any) -> Any:
        self._check_environment(request.environment_name)
        now = time.time()
        apps = [_app_item(app) for app in list(self.apps.values()) if _is_listed(app, now)]
        return api_pb2.AppListResponse(apps=apps)

    async def _follow_logs(self, request: Any) -> AsyncIterator[Any]:
        app = self._app(request.app_id)
        deadline = self._loop.time() + request.timeout
        sent = int(request.last_entry_id or 0)  # an entry's id is its number, from 1
        while True:
            news = self._news  # taken before the reading, so that nothing falls between
            is_live = app.state in LIVE_STATES
            entries = app.logs[sent:]
            if entries:
                sent += len(entries)
                items = map(_log_item, _of_source(entries, request.file_descriptor))
                yield api_pb2.TaskLogsBatch(entry_id=str(sent), items=items)
            if not is_live:
                yield api_pb2.TaskLogsBatch(app_done=True)
                return
            try:
                async with asyncio.timeout_at(deadline):
                    await news.wait()
            except TimeoutError:
                return  # the client comes back with its last entry's id
