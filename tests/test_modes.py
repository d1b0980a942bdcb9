"""For programs, for a list, for watching: the other ways to ask."""

import contextlib
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from conftest import (
    SCRIPT,
    Follow,
    Tool,
    written_to_a_terminal,
)
from gym import Gym
from local_modal import LocalModal, LogEntry

FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"
OTTER = "brisk-otter-5c0d9e8f7a61"
RECORD = f"training-runs/{FROG}.json"
JSON_PAGE = SCRIPT.parents[1] / "references" / "json.md"

# ---- JSON ------------------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    """The schema in json.md: an object whose leaves name the types that may stand there."""
    (block,) = re.findall(r"```json\n(.*?)```", JSON_PAGE.read_text(), re.DOTALL)
    found: dict[str, Any] = json.loads(block)
    return found


TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
    "time": str,
}


def assert_fits(value: Any, shape: Any, path: str = "") -> None:
    """The value has all of the shape's keys and no others, and each leaf is of a named type."""
    if isinstance(shape, str):
        kinds = shape.split(" or ")
        fits = [
            isinstance(value, TYPES[kind]) and not (kind != "boolean" and isinstance(value, bool))
            for kind in kinds
        ]
        assert any(fits), f"{path}: {value!r} is no {shape}"
        if isinstance(value, str) and "time" in kinds:
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value), path
    elif value is None:
        last = path.rpartition(".")[2]
        nullable = ("step", "timings", "logs", "last_activity", "progress", "blocker", "modal")
        assert last in nullable, path
    elif isinstance(shape, list):
        assert isinstance(value, list), path
        for item in value:
            assert_fits(item, shape[0], path)
    elif "*" in shape:
        for item in value.values():
            assert_fits(item, shape["*"], path)
    else:
        assert set(value) == set(shape), path
        for key, inner in shape.items():
            assert_fits(value[key], inner, f"{path}.{key}")


@pytest.mark.parametrize(
    "name", ["elastic-frog", "crimson-badger", "early-wren", "6f1d2c3b", "lost-sparrow"]
)
def test_the_object_fits_the_schema_in_the_readme(tool: Tool, name: str) -> None:
    shown = tool(name, "--json", "--tail", "300")
    assert (shown.status, shown.err) == (0, "")
    assert_fits(json.loads(shown.out), schema())


def test_the_object_says_what_the_blocks_say(tool: Tool) -> None:
    shown = tool("elastic-frog", "--json", "--tail", "300")
    told = json.loads(shown.out)
    assert told["run"]["id"] == FROG
    assert told["run"]["step"] == {"current": 12, "total": 50, "unit": "step"}
    assert told["app"]["live"] is True
    assert told["possibly_stuck"] is True
    assert told["eta_seconds"] is None
    assert told["rollouts"]["recorded"] == 11
    assert told["rollouts"]["last"][-1]["mean_reward"] == 0.412
    assert told["logs"]["command"][:4] == ["modal", "app", "logs", FROG_APP]
    assert len(told["logs"]["lines"]) > 100
    assert not any("\x1b" in line for line in told["logs"]["lines"])
    assert told["verdict"]["word"] == "stuck"
    assert told["verdict"]["blocker"]["kind"] == "auth"
    assert told["verdict"]["blocker"]["count"] > 20
    assert told["verdict"]["blocker"]["first_at"] < told["verdict"]["blocker"]["at"]
    assert told["verdict"]["restart"] == "only after a change"


def test_the_object_says_how_far_the_phase_is(tool: Tool) -> None:
    shown = tool("patient-tortoise", "--json", "--tail", "300")
    told = json.loads(shown.out)
    progress = told["logs"]["progress"]
    assert (progress["what"], progress["done"], progress["total"]) == ("Eval aime", 346, 480)
    left = (progress["total"] - progress["done"]) / progress["per_second"]
    assert progress["left_seconds"] == pytest.approx(left)
    assert told["verdict"]["word"] == "running"


def a_bar(server: LocalModal) -> None:
    states = "".join(f"\rRollout generation: {n}%|{'█' * (n // 9)}| [01:06]" for n in range(101))
    server.apps[FROG_APP].logs.append(LogEntry(time.time(), f"{states}\n"))


def test_of_a_bar_an_object_holds_the_last_state(server: LocalModal, tool: Tool) -> None:
    a_bar(server)
    shown = tool(FROG, "--json", "--tail", "1")
    (line,) = json.loads(shown.out)["logs"]["lines"]
    assert re.fullmatch(r"20\d\d-\S+ \S+\+00:00 Rollout generation: 100%.*", line)


def test_of_a_bar_a_pipe_gets_the_last_state(server: LocalModal, tool: Tool) -> None:
    a_bar(server)
    shown = tool(FROG, "--tail", "1")
    assert "+00:00 Rollout generation: 100%" in shown.out
    assert shown.out.partition("\nVerdict\n")[0].count("Rollout generation") == 1
    assert "\r" not in shown.out


def test_of_a_bar_a_terminal_gets_all_as_it_came(server: LocalModal) -> None:
    a_bar(server)
    _, written = written_to_a_terminal(server, (FROG, "--tail", "1"))
    assert written.partition("Verdict")[0].count("Rollout generation: ") == 101


def test_without_logs_their_place_in_the_object_is_null(tool: Tool) -> None:
    shown = tool(FROG, "--json", "--no-logs")
    told = json.loads(shown.out)
    assert told["logs"] is None
    assert told["verdict"]["word"] == "stuck"


ROW = {"id", "verdict", "status", "phase", "step", "updated_at", "created_at", "app_id"}


@pytest.mark.parametrize(
    ("query", "status", "kind", "candidates"),
    [
        ("amber-h", 4, "several_match", 2),
        ("elastc-frog", 3, "no_match", 0),
        ("--limit", 2, "usage", 0),
    ],
)
def test_errors_are_objects_too(
    tool: Tool, query: str, status: int, kind: str, candidates: int
) -> None:
    shown = tool(query, "--json", "--no-logs")
    told = json.loads(shown.out)["error"]
    assert shown.status == status
    assert told["kind"] == kind
    assert query in told["message"] or kind == "usage"
    assert len(told["candidates"]) == candidates
    for row in told["candidates"]:
        assert set(row) == ROW
        assert row["verdict"] is None


@pytest.mark.parametrize("flag", ["--follow", "--watch"])
def test_what_never_ends_is_no_object(tool: Tool, flag: str) -> None:
    shown = tool(FROG, "--json", flag)
    assert shown.status == 2
    told = json.loads(shown.out)["error"]["message"]
    assert told.startswith(f"--json can't be combined with {flag}")


def test_a_refused_token_is_an_object_too(tool: Tool) -> None:
    shown = tool(FROG, "--json", "--no-logs", MODAL_TOKEN_ID="ak-wrong")
    assert shown.status == 1
    assert json.loads(shown.out)["error"]["kind"] == "unreadable"


# ---- The list --------------------------------------------------------------------------------


def test_without_a_run_the_newest_are_listed_those_that_need_somebody_first(
    tool: Tool, gym: Gym
) -> None:
    shown = tool("--limit", "40")
    assert (shown.status, shown.err) == (0, "")
    heading, titles, *rows = shown.out.splitlines()
    assert heading == "Runs"
    assert re.split("  +", titles.strip()) == [
        "run",
        "verdict",
        "status",
        "phase",
        "step",
        "last sign",
        "app",
    ]
    assert {row.split()[0] for row in rows} == {run.run_id for run in gym.runs}
    words = [row.split()[1] for row in rows]
    needs = ["died", "stuck", "slow", "waiting", "running", "unknown", "queued"]
    assert list(dict.fromkeys(words))[: len(needs)] == needs
    verdicts = {row.split()[0]: row.split()[1] for row in rows}
    assert verdicts[FROG] == "stuck"
    assert verdicts[OTTER] == "running"


def test_a_limited_list_for_programs_is_a_list_of_rows(tool: Tool) -> None:
    shown = tool("--limit", "3", "--json")
    rows = json.loads(shown.out)
    assert len(rows) == 3
    assert set(rows[0]) == ROW
    assert all(row["verdict"] for row in rows)


def test_the_list_shows_runs_as_their_records_stand(server: LocalModal, tool: Tool) -> None:
    record = json.loads(server.files[RECORD])
    server.files[RECORD] = json.dumps({**record, "status": "failed"}).encode()
    shown = tool("--limit", "40", "--json")
    (frog,) = [row for row in json.loads(shown.out) if row["id"] == FROG]
    assert frog["status"] == "failed"


# ---- Watching --------------------------------------------------------------------------------


def change(server: LocalModal, run_id: str, **fields: Any) -> None:
    path = f"training-runs/{run_id}.json"
    record = json.loads(server.files[path])
    server.files[path] = json.dumps({**record, **fields}).encode()


def test_a_watch_says_each_change_through_a_pipe_and_ends_with_the_run(
    server: LocalModal, start: Follow
) -> None:
    ends = {FROG: ("completed", 0), OTTER: ("failed", 5)}
    watching = {run_id: start(run_id, "--watch", "--interval", "2") for run_id in ends}
    first = watching[FROG].line_with("Z ")
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:]+Z running stuck: step 12/50", first)
    assert "Z running running: step 30/100" in watching[OTTER].line_with("Z ")
    for run_id, (ending, _) in ends.items():
        change(server, run_id, status=ending, ended_at=time.time())
    for run_id, (ending, status) in ends.items():
        assert f"Z {ending} {ending}: step " in watching[run_id].line_with("Z ")
        assert watching[run_id].end() == (status, "")


def test_a_watch_survives_a_call_that_fails_and_says_so(server: LocalModal, start: Follow) -> None:
    watching = start(FROG, "--watch", "--interval", "2")
    watching.line_with("running stuck")
    before = len(server.calls)
    server.fault("VolumeGetFile2", subject=RECORD, status="PERMISSION_DENIED", message="not now")
    server.wait_for("VolumeGetFile2", subject=RECORD, count=2)
    server.clear_faults()
    server.finish(FROG_APP)
    assert "Z running died: step 12/50" in watching.line_with("Z ")
    status, err = watching.end()
    assert status == 5
    assert f"note: could not read {RECORD}: not now\n" in err
    assert len(server.calls) > before


def test_a_watch_that_can_read_nothing_sees_no_silence(server: LocalModal, start: Follow) -> None:
    at = time.time() - 585  # so that ten minutes are over before the last of these looks
    progress = {"phase": "generate_rollouts", "current": 1, "total": 50, "updated_at": at}
    blank = {"step_times": None, "substep_times": None, "created_at": at, "started_at": at}
    change(server, OTTER, **blank, updated_at=at, metadata={"framework_progress": progress})
    watching = start(OTTER, "--watch", "--interval", "2")
    watching.line_with("running running: step 1/50")
    record = f"training-runs/{OTTER}.json"
    server.fault("VolumeGetFile2", subject=record, status="PERMISSION_DENIED", message="not now")
    server.wait_for("VolumeGetFile2", subject=record, count=10)
    server.clear_faults()
    change(server, OTTER, status="completed", ended_at=time.time())
    assert "Z completed completed: step 1/50" in watching.line_with("Z ")


def test_a_watch_says_once_what_failed_once_and_reads_it_again(
    server: LocalModal, start: Follow
) -> None:
    path = "training-rollouts-summary/summary.json"
    server.fault("VolumeGetFile2", subject=path, status="PERMISSION_DENIED", times=1)
    watching = start(FROG, "--watch", "--interval", "2")
    watching.line_with("running stuck")
    server.wait_for("VolumeGetFile2", subject=path, count=2)
    server.wait_for("VolumeGetFile2", subject=RECORD, count=4)
    server.finish(FROG_APP)
    watching.line_with("running died")
    status, err = watching.end()
    assert status == 5
    assert err.count(f"could not read {path}") == 1


def test_a_watch_of_a_run_that_goes_on_reads_its_rollouts_again_only_when_the_step_moved(
    server: LocalModal, start: Follow
) -> None:
    watching = start(OTTER, "--watch", "--interval", "2")
    watching.line_with("running running")
    server.wait_for("VolumeGetFile2", subject=f"training-runs/{OTTER}.json", count=3)

    def summaries() -> int:
        path = "training-rollouts-summary/summary.json"
        return sum(call.subject == path for call in server.calls if call.method != "block")

    assert summaries() == 1
    progress = {"phase": "generate_rollouts", "current": 31, "total": 100}
    change(server, OTTER, metadata={"framework_progress": progress})
    watching.line_with("step 31/100")
    assert summaries() == 2


def test_a_watch_reads_again_what_its_word_rests_on(server: LocalModal, start: Follow) -> None:
    path = "training-rollouts-summary/summary.json"
    watching = start(FROG, "--watch", "--interval", "2")
    watching.line_with("running stuck: step 12/50")
    rows = json.loads(server.files[path])["items"]
    fresh = {"training_run_id": FROG, "rollout_id": 11, "created_at": time.time()}
    server.files[path] = json.dumps({"items": [*rows, fresh]}).encode()
    watching.line_with("running running: step 12/50")


def test_a_watch_tells_of_another_attempt_and_another_app(
    server: LocalModal, start: Follow
) -> None:
    watching = start(FROG, "--watch", "--interval", "2")
    assert ", app " not in watching.line_with("running stuck: step 12/50")
    record = json.loads(server.files[RECORD])
    change(server, FROG, metadata={**record["metadata"], "attempt_count": 2})
    assert watching.line_with("; attempt 2, app ").endswith(f"; attempt 2, app {FROG_APP}\n")
    (other,) = [app for app in server.apps.values() if app.description.startswith("brisk-otter")]
    change(server, FROG, modal_app_id=other.app_id)
    assert watching.line_with("; attempt ").endswith(f", app {other.app_id}\n")


@pytest.mark.parametrize(
    ("fields", "has_result", "ending", "status"),
    [
        ({"status": "pending"}, False, "pending unknown", 5),
        ({"status": None}, False, "unknown unknown", 5),
        ({"status": "pending"}, True, "pending completed", 0),
        ({"status": "running"}, None, "running unknown", 1),
        ({"status": "pending"}, None, "pending unknown", 1),
    ],
)
def test_a_watch_ends_with_the_app_whatever_the_status_says(
    server: LocalModal,
    start: Follow,
    fields: dict[str, Any],
    has_result: bool | None,
    ending: str,
    status: int,
) -> None:
    result = f"train-results/{FROG}.json"
    if has_result:
        server.files[result] = b"{}"
    if has_result is None:
        server.fault("VolumeGetFile2", subject=result, status="PERMISSION_DENIED", message="no")
    change(server, FROG, **fields)
    server.finish(FROG_APP)
    watching = start(FROG, "--watch", "--interval", "2")
    assert f"Z {ending}: step 12/50" in watching.line_with("Z ")
    ended, err = watching.end()
    assert ended == status
    assert (f"error: could not read {result}: no\n" in err) == (status == 1)


def test_a_watch_gives_the_status_of_an_app_that_is_over_one_more_look(
    server: LocalModal, start: Follow
) -> None:
    change(server, FROG, status="pending")
    server.finish(FROG_APP)
    watching = start(FROG, "--watch", "--interval", "2")
    watching.line_with("pending unknown")
    change(server, FROG, status="completed")
    watching.line_with("completed completed")
    assert watching.end() == (0, "")


def test_a_watch_of_a_run_without_steps_sees_its_rollouts(
    server: LocalModal, start: Follow
) -> None:
    path = "training-rollouts-summary/summary.json"
    change(server, FROG, metadata={})
    watching = start(FROG, "--watch", "--interval", "2")
    watching.line_with("stuck: step unknown")
    rows = json.loads(server.files[path])["items"]
    fresh = {"training_run_id": FROG, "rollout_id": 11, "created_at": time.time()}
    server.files[path] = json.dumps({"items": [*rows, fresh]}).encode()
    watching.line_with("running running: step unknown")


def test_a_watch_ends_with_a_result_though_the_app_lives(server: LocalModal, start: Follow) -> None:
    watching = start(OTTER, "--watch", "--interval", "2")
    watching.line_with("running running")
    server.files[f"train-results/{OTTER}.json"] = b"{}"
    watching.line_with("running completed")
    assert watching.end()[0] == 0


def test_a_watch_reads_all_again_after_a_restart(server: LocalModal, start: Follow) -> None:
    watching = start(OTTER, "--watch", "--interval", "2")
    watching.line_with("running running: step 30/100")
    record = json.loads(server.files[f"training-runs/{OTTER}.json"])
    again = {
        "attempt_count": 2,
        "last_attempt_started_at": time.time(),
        "resumed_from_checkpoint": True,
        "resume_from_iteration": 24,
    }
    change(server, OTTER, metadata={**record["metadata"], **again})
    assert "step 25/100" in watching.line_with("attempt 2")


def test_a_watch_ends_when_nobody_reads_it_any_longer(server: LocalModal, start: Follow) -> None:
    watching = start(FROG, "--watch", "--interval", "60")
    watching.line_with("running stuck")
    watching.out.close()
    assert watching.process.wait(20) == 0


# ---- On a terminal ---------------------------------------------------------------------------


def test_follow_on_a_terminal_keeps_one_line_under_the_logs(server: LocalModal) -> None:
    def meanwhile() -> None:
        server.emit(FROG_APP, "(RolloutManager pid=1188) rollout 11: fresh\n")
        server.finish(FROG_APP)

    status, written = written_to_a_terminal(server, (FROG, "--follow"), meanwhile=meanwhile)
    assert status == 0
    screen = [line.rpartition("\r\x1b[2K")[2] for line in written.split("\r\n")]
    assert [line for line in screen if re.fullmatch(r"20\d\d-\S+ .*rollout 11: fresh", line)]
    assert re.search(r"step 12/50 · generate_rollouts for 22m[^\r\n]*\r\x1b\[2K", written)
    assert not [line for line in screen if "step 12/50 · " in line]  # each was erased again


def test_what_is_noted_while_watching_goes_where_stderr_goes(
    server: LocalModal, tmp_path: Path
) -> None:
    server.fault("AppGetOrCreate", status="PERMISSION_DENIED", message="not yours")

    def meanwhile() -> None:
        change(server, FROG, status="completed", ended_at=time.time())

    for path in (tmp_path / "err.log", None):
        change(server, FROG, status="running", ended_at=None)
        with path.open("wb") if path else contextlib.nullcontext() as err:
            status, written = written_to_a_terminal(
                server, (FROG, "--watch", "--interval", "2"), meanwhile=meanwhile, err=err
            )
        noted = path.read_text() if path else written
        assert status == 0
        assert "note: could not read the app's state: not yours" in noted
        assert ("note: " in written) == (path is None)


def watched_to_its_end(server: LocalModal, columns: int, lines: int) -> str:
    def meanwhile() -> None:
        change(server, FROG, status="completed", ended_at=time.time())

    status, written = written_to_a_terminal(
        server,
        (FROG, "--watch", "--interval", "2"),
        columns=columns,
        meanwhile=meanwhile,
        environment={"LINES": str(lines)},
    )
    assert status == 0
    assert "\x1b[1A" in written  # up again, over what was shown before
    before = written.partition("Verdict")[0]
    assert before.rfind("\x1b[?25h") > before.rfind("\x1b[?25l")  # the cursor stays visible
    return written


@pytest.mark.parametrize(("columns", "lines"), [(100, 40), (49, 12)])
def test_watch_on_a_terminal_is_refreshed_in_place(
    server: LocalModal, columns: int, lines: int
) -> None:
    written = watched_to_its_end(server, columns, lines)
    assert re.search(r"Verdict.*stuck.*Verdict.*completed", written, re.DOTALL)
    assert max(map(len, re.findall(" +", written))) < columns


def test_watch_in_a_tiny_window_ends_as_elsewhere(server: LocalModal) -> None:
    assert watched_to_its_end(server, 9, 3).count("Verdict") > 1
