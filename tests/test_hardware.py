"""What Modal itself knows: asked where it can change the answer, and it may be missing."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from modal.types import MetricSeries, TimeSeriesPoint

import run_progress as tool
from conftest import Shown, Tool, in_time
from local_modal import Call, LocalFunction, LocalModal

UNTIL = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"
ASKING = {
    "AppGetInfo", "FunctionGetById", "FunctionGetCurrentStats", "FunctionGetTimeRangeStats",
    "FunctionGetMetrics", "FunctionCallFetch", "TaskList",
}  # fmt: skip


# ---- The rule for series of GPUs -------------------------------------------------------------


def series(
    *values: float | None, name: str = "gpu_utilization_max", unit: str = "%", late: int = 1
) -> MetricSeries:
    """Samples by the minute, the oldest first, the newest of `late` minutes before the end."""
    newest = UNTIL - timedelta(minutes=late)
    times = [newest - timedelta(minutes=n) for n in reversed(range(len(values)))]
    return MetricSeries(
        name=name,
        unit=unit,
        aggregation=name.rpartition("_")[2],
        description="",
        points=[TimeSeriesPoint(at, value) for at, value in zip(times, values, strict=True)],
    )


ZEROS = (0.0,) * 12


@pytest.mark.parametrize(
    ("told", "idle"),
    [
        ([series(90.0, *ZEROS)], (720, False)),
        ([series(*ZEROS)], (720, True)),
        ([series(90.0, *ZEROS, 90.0)], (0, False)),
        # A sample that is lacking ends it; at the end it is only late.
        ([series(*ZEROS, None, 0.0, 0.0)], (120, False)),
        ([series(*ZEROS, None, None)], (720, True)),
        ([series(90.0, *ZEROS, late=5)], (720, False)),
        ([series(90.0, *ZEROS, late=6)], None),
        ([series(None, None)], None),
        ([series()], None),
        ([], None),
        # What an idle GPU reads, by unit and by how it is summed up.
        ([series(90.0, 1.0, 0.3)], (120, False)),
        ([series(90.0, 1.1)], (0, False)),
        ([series(0.9, 0.01, 0.0, unit="ratio")], (120, False)),
        ([series(0.9, 0.02, unit="ratio")], (0, False)),
        ([series(9.0, 0.0, 1.0, unit="widgets")], (0, False)),
        ([series(90.0, 1.5, name="gpu_util_avg")], (0, False)),
        ([series(90.0, 0.0, name="gpu_util_avg")], (60, False)),
        ([series(90.0, 0.0, name="gpu_util_mean")], (60, False)),
        ([series(90.0, -1.0)], (0, False)),
        ([series(90.0, float("nan"))], (0, False)),
        # A minimum or a median is 0 beside a busy GPU.
        *[([series(*ZEROS, name=f"gpu_util_{name}")], None) for name in ("min", "p50", "p90")],
        ([series(*ZEROS, name="util_min"), series(90.0, 0.0, name="util_max")], (60, False)),
        ([series(*ZEROS, name="util_avg"), series(90.0, 0.0, name="util_max")], (60, False)),
        # Names of which nobody knows what they count.
        ([series(*ZEROS, name="future_usage_max")], None),
        ([series(*ZEROS, name="gpu_max")], None),
        ([series(*ZEROS, name="utilization")], None),
        ([series(*ZEROS, name="GPU_Utilization_Max")], (720, True)),
        ([series(*ZEROS, name="sm_util_max"), series(*ZEROS, name="gpu_util_max")], None),
        *[
            ([series(*ZEROS, name=f"gpu_{what}_utilization_max")], None)
            for what in ("memory", "vram", "hbm", "fb", "power", "nvlink", "pcie", "encoder")
        ],
        (
            [
                series(0.0, name="gpu_memory_utilization_max"),
                series(90.0, 0.0, name="gpu_compute_utilization_max"),
            ],
            (60, False),
        ),
    ],
)
def test_only_what_is_known_to_count_kernels_tells_that_gpus_are_idle(
    told: list[MetricSeries], idle: tuple[float, bool] | None
) -> None:
    assert tool.gpu_idle(told, UNTIL) == idle


def test_a_minute_without_a_point_ends_the_idle_time() -> None:
    told = series(*ZEROS)
    del told.points[-4]
    assert tool.gpu_idle([told], UNTIL) == (180, False)


# ---- When it is asked, and what it changes -----------------------------------------------------

NOW = 1_790_000_000.0
RECORD = {
    "status": "running",
    "modal_app_id": "ap-1",
    "updated_at": NOW - 60,
    "metadata": {"framework_progress": {"phase": "optimizer_step", "current": 3, "total": 9}},
}
RUN = tool.parse_run(RECORD, "a-b-1")
SILENT = replace(RUN, last_sign=NOW - 1500)
STEPS = (tool.Timings(2, (("optimizer_step", 100.0),), 100.0),)
LIVE = tool.App(live=True, state="detached")
OVER = tool.App(live=False, state="stopped", stopped_by="maya")


@pytest.mark.parametrize(
    ("run", "app", "asks"),
    [
        (RUN, LIVE, False),
        (replace(RUN, last_sign=NOW - 601), LIVE, True),
        (replace(RUN, last_sign=NOW - 600), LIVE, False),
        (replace(RUN, last_sign=None), LIVE, False),
        (replace(RUN, waiting_for_gpu=True), LIVE, True),
        (replace(RUN, submitted=True), LIVE, True),
        (replace(RUN, steps=STEPS, phase_began=NOW - 201), LIVE, True),
        (replace(RUN, steps=STEPS, phase_began=NOW - 200), LIVE, False),
        (RUN, OVER, True),
        (replace(SILENT, status=None), LIVE, True),
        (replace(SILENT, kind="gateway"), LIVE, False),
        (replace(SILENT, status="completed"), OVER, False),
        (replace(SILENT, status="stopped"), OVER, False),
        (replace(SILENT, status="failed", error=("ValueError: no",)), OVER, False),
        (replace(SILENT, status="failed"), OVER, True),
    ],
)
def test_modal_is_asked_only_where_it_can_change_the_answer(
    run: tool.Run, app: tool.App, asks: bool
) -> None:
    assert tool.asks_modal(run, app, NOW) is asks


IDLE = tool.Hardware(
    containers=2, waiting_inputs=0, function="train", function_containers=2, gpu_idle_seconds=1320
)


STUCK = replace(SILENT, steps=STEPS)


def judged(hardware: tool.Hardware, run: tool.Run = STUCK) -> tuple[str, str]:
    found = tool.Found(run, LIVE, (), False, None, (), hardware=hardware)
    judgement = tool.judge(found, NOW)
    return judgement.word, tool.verdict_text(found, judgement)


def test_a_run_waits_where_only_another_function_of_its_app_runs() -> None:
    router = tool.Hardware(containers=1, waiting_inputs=1, function="train", function_containers=0)
    assert judged(router) == ("waiting", "1 container runs, 1 input waits for one")
    assert judged(replace(router, function_containers=1))[0] == "stuck"


def test_idle_gpus_bear_out_a_silence() -> None:
    told = "; GPUs at 0 % for the last 22m (Modal, train, 2 containers)"
    word, text = judged(IDLE)
    assert word == "stuck"
    assert text.endswith(told)
    hour = replace(IDLE, gpu_idle_seconds=3600, gpu_idle_whole_hour=True, function_containers=1)
    _, text = judged(hour)
    assert text.endswith("; GPUs at 0 % for at least 1h 0m (Modal, train, 1 container)")
    word, text = judged(IDLE, SILENT)
    assert (word, text.endswith(told)) == ("slow", True)


@pytest.mark.parametrize(
    ("hardware", "run"),
    [
        (replace(IDLE, gpu_idle_seconds=599), SILENT),
        (replace(IDLE, gpu_idle_seconds=None), SILENT),
        (replace(IDLE, function_containers=0), SILENT),
        (replace(IDLE, function_containers=None), SILENT),
        (IDLE, replace(SILENT, phase="checkpoint_save")),
        (IDLE, replace(SILENT, phase="download_model")),
        (IDLE, replace(SILENT, phase="initialize_rollouts")),
        (IDLE, replace(SILENT, phase="some_new_phase")),
        (IDLE, replace(SILENT, phase=None)),
        (IDLE, replace(SILENT, step=None)),  # nothing tells that they ever worked
        (IDLE, RUN),
    ],
)
def test_gpus_that_prove_nothing_are_not_spoken_of(hardware: tool.Hardware, run: tool.Run) -> None:
    word, text = judged(hardware, run)
    assert "GPU" not in text
    assert word == judged(tool.Hardware(), run)[0]


@pytest.mark.parametrize(
    ("containers", "inputs", "expected"),
    [
        (0, 1, ("waiting", "no container runs, 1 input waits for one")),
        (0, 2, ("waiting", "no container runs, 2 inputs wait for one")),
        (0, None, ("waiting", "no container runs")),
        (0, 0, ("slow", None)),
        (1, 1, ("slow", None)),
        (None, None, ("slow", None)),
    ],
)
def test_a_silent_run_without_container_waits_for_one(
    containers: int | None, inputs: int | None, expected: tuple[str, str | None]
) -> None:
    word, text = judged(tool.Hardware(containers, inputs), SILENT)
    assert word == expected[0]
    assert expected[1] in (None, text)


def test_a_run_that_shows_life_does_not_wait_whatever_modal_counts() -> None:
    word, text = judged(tool.Hardware(0, 1), RUN)
    assert word == "running"
    assert "container" not in text


def test_what_a_run_waits_for_is_told_by_its_record_and_by_modal() -> None:
    waits = replace(RUN, waiting_for_gpu=True, phase="download_model")
    assert judged(tool.Hardware(0, 1), waits) == (
        "waiting",
        "download_model waits for a GPU for 1m now; no container runs, 1 input waits for one",
    )
    assert judged(tool.Hardware(1, 0), waits)[1] == "download_model waits for a GPU for 1m now"


# ---- Over the wire: what is asked, and what the object holds ---------------------------------


def modal_of(shown: Shown) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown.out)["modal"]
    return found


def asked(shown: Shown) -> list[Call]:
    return [call for call in shown.calls if call.method in ASKING]


EXPECTED: dict[str, dict[str, object]] = {
    "frozen-ibex": {"containers": 2, "waiting_inputs": 0},
    "spinning-newt": {"containers": 2, "gpu_idle_seconds": 0},
    "stranded-seal": {"containers": 0, "waiting_inputs": 1, "container_errors_last_hour": 1},
    "looping-stoat": {"containers": 1, "container_errors_last_hour": 3},
    "elastic-frog": {"containers": 1, "call_status": None, "gpu_idle_seconds": None},
    "thirsty-camel": {"containers": 0, "waiting_inputs": 1},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_modal_knows_is_asked_where_it_can_change_the_answer(tool: Tool, name: str) -> None:
    shown = tool(name, "--json", "--no-logs")
    assert (shown.status, shown.err) == (0, "")
    told = modal_of(shown)
    assert told["unknown"] is None
    assert {key: told[key] for key in EXPECTED[name]} == EXPECTED[name]


@pytest.mark.parametrize(
    "name",
    ["brisk-otter", "misty-falcon", "gentle-panda", "golden-finch", "crimson-badger", "early-wren"],
)
def test_a_run_that_is_well_or_over_for_a_known_reason_costs_no_call_more(
    tool: Tool, name: str
) -> None:
    shown = tool(name, "--json", "--no-logs")
    assert json.loads(shown.out)["modal"] is None
    assert asked(shown) == []
    assert sum(call.method == "AppGetOrCreate" for call in shown.calls) == (name != "early-wren")


def test_hardware_always_asks(tool: Tool) -> None:
    shown = tool("brisk-otter", "--json", "--no-logs", "--hardware")
    assert (shown.status, shown.err) == (0, "")
    assert modal_of(shown)["containers"] == 1
    assert json.loads(shown.out)["verdict"]["word"] == "running"


def test_the_figures_are_of_the_last_whole_minutes(tool: Tool) -> None:
    shown = tool("frozen-ibex", "--json", "--no-logs")
    assert 23 * 60 <= modal_of(shown)["gpu_idle_seconds"] <= 24 * 60


# ---- Crash loops -------------------------------------------------------------------------------


def test_a_crash_loop_is_not_helped_by_starting_again(tool: Tool) -> None:
    shown = tool("looping-stoat", "--tail", "400", "--json")
    verdict = json.loads(shown.out)["verdict"]
    assert verdict["blocker"]["kind"] == "cuda_oom"
    assert verdict["next"].startswith("starting again will not help, ")
    assert verdict["restart"] == "only after a change"


ANOTHER = tool.Blocker("killed", "Killed", 2, NOW - 100, NOW - 900)


@pytest.mark.parametrize(
    ("blocker", "errors", "began", "loops"),
    [
        (ANOTHER, 3, NOW - 500, True),
        (ANOTHER, 1, NOW - 500, False),
        (ANOTHER, None, NOW - 500, False),
        (ANOTHER, 3, None, False),
        (ANOTHER, 3, NOW - 50, False),  # not since this attempt began
        (replace(ANOTHER, first_at=NOW - 400), 3, NOW - 500, False),  # in this attempt alone
        (replace(ANOTHER, first_at=None, at=None), 3, NOW - 500, False),
    ],
)
def test_containers_that_fail_of_the_same_in_each_attempt_are_a_crash_loop(
    blocker: tool.Blocker, errors: int | None, began: float | None, loops: bool
) -> None:
    run = replace(RUN, attempt_began=began)
    found = tool.Found(
        run, LIVE, (), False, None, (), hardware=tool.Hardware(container_errors_last_hour=errors)
    )
    judgement = tool.judge(found, NOW, tool.Diagnosis(blocker=blocker, failed_at=NOW))
    told = (judgement.next_step or "").startswith("starting again will not help")
    assert (told, judgement.restart) == (loops, "only after a change" if loops else "helps")


# ---- How it died, and what else starts an interpreter ------------------------------------------


def died(server: LocalModal, name: str, **changes: Any) -> None:
    """Change how the run's training function and its app ended."""
    app = next(app for app in server.apps.values() if app.description.startswith(name))
    app.stopped_by = changes.get("stopped_by", app.stopped_by)
    train = app.functions[-1]
    (call,) = train.calls
    train.calls = [replace(call, enqueued_at=1, status="success")]
    train.calls += [replace(call, status=changes.get("status", call.status))]
    train.timeout = changes.get("timeout", train.timeout)


RAISE, MEMORY = "raise the Modal function's timeout", "ask for more memory"
CHANGE = "start it again only with fewer"


@pytest.mark.parametrize(
    ("name", "changes", "status", "next_step"),
    [
        ("weary-bison", {}, "timeout after 24h", RAISE),
        ("weary-bison", {"timeout": 5400}, "timeout after 90m", RAISE),
        ("hungry-dingo", {}, "kernel oom kill", MEMORY),
        ("hungry-dingo", {"status": "memory manager eviction"}, "memory manager eviction", MEMORY),
        ("hungry-dingo", {"status": "terminated", "stopped_by": "maya"}, "terminated by maya", ""),
        ("hungry-dingo", {"status": "terminated"}, "terminated", ""),
        # The log tells of what is no echo, and of the run's own failure.
        ("hollow-crane", {"status": "timeout"}, "timeout after 24h", CHANGE),
        ("hollow-crane", {}, "failure", CHANGE),
    ],
)
def test_the_newest_call_tells_how_a_run_died(
    server: LocalModal, tool: Tool, name: str, changes: dict[str, Any], status: str, next_step: str
) -> None:
    died(server, name, **changes)
    told = in_time(tool, name)
    assert told["verdict"]["word"] == "died"
    assert told["modal"]["call_status"] == status
    # Without logs there is no blocker: what Modal tells alone says what to do next.
    assert (told["verdict"]["next"] or "").startswith("" if next_step == CHANGE else next_step)


@pytest.mark.parametrize(
    ("status", "ended_by", "blocker", "next_step"),
    [
        ("timeout", "timeout after 24h", None, RAISE),
        ("kernel oom kill", "kernel oom kill", None, MEMORY),
        ("terminated", "terminated by maya", None, ""),
        ("failure", None, "actor_died", ""),
        ("success", None, "actor_died", ""),
        ("pending", None, "actor_died", ""),
        (None, None, "actor_died", ""),
    ],
)
def test_what_modal_ended_has_no_echo_for_its_cause(
    status: str | None, ended_by: str | None, blocker: str | None, next_step: str
) -> None:
    hardware = tool.Hardware(call_status=status, call_limit=86_400)
    found = tool.Found(RUN, OVER, (), False, None, (), hardware=hardware)
    echo = tool.Blocker("actor_died", "ray.exceptions.ActorDiedError: The actor died.", 1, NOW - 90)
    judgement = tool.judge(found, NOW, tool.Diagnosis(blocker=echo))
    assert tool.ended_by_text(found) == ended_by
    assert (judgement.blocker.kind if judgement.blocker else None) == blocker
    assert (judgement.next_step or "").startswith(next_step)
    assert bool(judgement.next_step) == bool(next_step)


def test_a_cause_that_is_no_echo_stands_beside_how_modal_ended_it() -> None:
    hardware = tool.Hardware(call_status="timeout", call_limit=86_400)
    found = tool.Found(RUN, OVER, (), False, None, (), hardware=hardware)
    cause = tool.Blocker("cuda_oom", "torch.OutOfMemoryError: CUDA out of memory.", 1, NOW - 90)
    judgement = tool.judge(found, NOW, tool.Diagnosis(blocker=cause))
    assert judgement.blocker == cause
    assert (judgement.next_step or "").startswith(CHANGE)
    console = tool.new_console()
    with console.capture() as shown:
        for line in tool.verdict_block(found, judgement):
            console.print(line)
    assert "\n  ended by   timeout after 24h\n" in re.sub(r" +\n", "\n", shown.get())


@pytest.mark.parametrize(
    ("name", "status"), [("crimson-badger", "failure"), ("amber-hawk", "terminated by maya")]
)
def test_hardware_asks_how_a_run_that_is_over_ended(tool: Tool, name: str, status: str) -> None:
    assert in_time(tool, name, "--hardware")["modal"]["call_status"] == status


def test_a_failed_run_whose_record_has_no_error_is_asked_about(
    server: LocalModal, tool: Tool
) -> None:
    path = "training-runs/crimson-badger-8e17f4a0d26c.json"
    record = json.loads(server.files[path])
    server.files[path] = json.dumps({**record, "error_message": None}).encode()
    died(server, "crimson-badger", status="timeout")
    told = in_time(tool, "crimson-badger")
    assert told["modal"]["call_status"] == "timeout after 24h"


def test_functions_of_which_the_look_up_does_not_tell_are_asked_for(
    server: LocalModal, tool: Tool
) -> None:
    server.looked_up_with_functions = False
    told = in_time(tool, "stranded-seal")
    assert "AppGetInfo" in {call.method for call in server.calls}
    assert told["modal"]["waiting_inputs"] == 1


def test_an_app_without_functions_is_no_evidence(server: LocalModal, tool: Tool) -> None:
    server.apps[FROG_APP].functions = []
    told = in_time(tool, FROG)
    assert told["modal"] == {
        "containers": None,
        "waiting_inputs": None,
        "container_errors_last_hour": None,
        "call_status": None,
        "gpu_idle_seconds": None,
        "unknown": "the app has no functions yet",
    }


# ---- Evidence that is missing ------------------------------------------------------------------


@pytest.mark.parametrize("status", ["PERMISSION_DENIED", "NOT_FOUND", "UNIMPLEMENTED", "INTERNAL"])
@pytest.mark.parametrize(
    ("method", "lost"),
    [
        ("FunctionGetById", ("containers", "waiting_inputs", "container_errors_last_hour")),
        ("FunctionGetCurrentStats", ("containers", "waiting_inputs")),
        ("FunctionGetTimeRangeStats", ("container_errors_last_hour",)),
        ("FunctionGetMetrics", ()),
    ],
)
def test_a_call_that_fails_is_no_evidence_and_breaks_nothing(
    server: LocalModal, tool: Tool, method: str, status: str, lost: tuple[str, ...]
) -> None:
    server.fault(method, status=status, message="not for you")
    shown = tool("frozen-ibex", "--json", "--no-logs")
    assert (shown.status, shown.err) == (0, "")
    told = modal_of(shown)
    assert "not for you" in told["unknown"]
    figures = ("containers", "waiting_inputs", "container_errors_last_hour")
    assert tuple(key for key in figures if told[key] is None) == lost
    verdict = json.loads(shown.out)["verdict"]
    assert verdict["word"] == "stuck"
    assert ("GPUs at 0 %" in verdict["text"]) == (method == "FunctionGetTimeRangeStats")


def test_a_death_of_which_modal_tells_nothing_reads_as_before(
    server: LocalModal, tool: Tool
) -> None:
    server.fault("FunctionCallFetch", status="INTERNAL")
    shown = tool("weary-bison", "--tail", "5")
    assert (shown.status, shown.err) == (0, "")
    assert shown.lines("ended by") == []
    assert "\n  died       " in shown.out


def test_what_hangs_holds_nothing_back_for_more_than_three_seconds(
    server: LocalModal, tool: Tool
) -> None:
    for method in ASKING:
        server.fault(method, hang=True)
    shown = tool("frozen-ibex", "--json", "--no-logs")
    assert (shown.status, shown.err) == (0, "")
    assert modal_of(shown)["unknown"] == "no answer within 3 s"
    asking = next(call for call in shown.calls if call.method == "FunctionGetById")
    looked_up = next(call for call in shown.calls if call.method == "AppGetOrCreate")
    assert asking.started - (looked_up.ended or 0) < 1


def test_modal_is_asked_as_soon_as_there_is_a_reason(server: LocalModal, tool: Tool) -> None:
    server.fault("VolumeGetFile2", subject="training-rollouts-summary/summary.json", delay=1)
    shown = tool("frozen-ibex", "--json", "--no-logs")
    of_all = "training-rollouts-summary/summary.json"
    (late,) = [
        call for call in shown.calls if (call.method, call.subject) == ("VolumeGetFile2", of_all)
    ]
    assert all(call.started < (late.ended or 0) for call in asked(shown))
    assert modal_of(shown)["containers"] == 2


def test_a_series_of_an_unknown_name_is_no_evidence(server: LocalModal, tool: Tool) -> None:
    for app in server.apps.values():
        for function in app.functions:
            function.series = [
                type(each)(each.name.replace("util", "future"), each.unit, each.values)
                for each in function.series
            ]
    shown = tool("frozen-ibex", "--json", "--no-logs")
    told = modal_of(shown)
    assert (told["gpu_idle_seconds"], told["unknown"]) == (None, None)
    assert "GPU" not in json.loads(shown.out)["verdict"]["text"]


def test_gpus_without_a_container_of_their_function_are_no_evidence(
    server: LocalModal, tool: Tool
) -> None:
    # Its series is there, but what runs is another function's container.
    app = next(app for app in server.apps.values() if app.description.startswith("frozen-ibex"))
    for function in app.functions:
        function.containers = 1 if function.name == "download_model" else 0
    shown = tool("frozen-ibex", "--no-logs")
    assert "GPUs" not in shown.out


def test_one_function_that_is_not_found_leaves_no_half_count(
    server: LocalModal, tool: Tool
) -> None:
    server.apps[FROG_APP].functions.append(LocalFunction("fu-gone", "late"))
    server.fault("FunctionGetById", subject="fu-gone", status="NOT_FOUND")
    shown = tool(FROG, "--json", "--no-logs")
    told = modal_of(shown)
    assert told["containers"] is None
    assert "fu-gone" in told["unknown"]
