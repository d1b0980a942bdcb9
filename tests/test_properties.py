"""Whatever the volume holds: no exception, no steering of the screen, a documented exit status."""

import io
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import run_progress as tool
from local_modal import LocalApp, LocalModal

RUN_ID = "elastic-frog-a1b2c3d4e5f6"
APP_ID = "ap-0123456789abcdefABCDEF"
NOW = 1_790_000_000.0
STATUSES = {0, 1, 2, 3, 4, 130}
STEERING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

# ---- Arbitrary JSON with the names that the volume uses --------------------------------------

RECORDS_SECTION = Path(tool.__file__).read_text().partition("# Matching")[0]
NAMES = re.findall(r'"([a-z_]+)"', RECORDS_SECTION)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "running",
            "failed",
            APP_ID,
            f"https://modal.com/id/{APP_ID}",
            "https://[",
            RUN_ID,
            "2026-09-21T11:43:20Z",
            "1e999",
            "nan",
            "-1",
            "9" * 400,
            "\x1b]0;t\x07\x1b[2J",
            "a\n  status     completed",
            "\u202e[red]\ud800",
            "x" * 5000,
        ]
    ),
)
NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.integers(1_789_000_000, 1_791_000_000),
    st.integers(0, 60),
    st.sampled_from([10**400, -(10**30), 2**53 + 1, 1e308, 0]),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
KEYS = st.one_of(st.sampled_from(sorted({*NAMES, "11", "12", "value"})), st.text(max_size=5))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=5),
        st.builds(lambda value: {"value": value}, inner),
    ),
    max_leaves=12,
)


def having(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of these fields, each of its own kind or of any other."""
    return st.fixed_dictionaries(
        {}, optional={name: st.one_of(kind, VALUES) for name, kind in fields.items()}
    )


PHASES = st.dictionaries(TEXTS, having(start=NUMBERS, end=NUMBERS, duration_s=NUMBERS), max_size=3)
STEPS = st.sampled_from(["1", "2", "11", "12", "x", "9" * 30])
ROLLOUTS = having(
    training_run_id=st.just(RUN_ID),
    rollout_id=st.integers(-1, 20),
    created_at=NUMBERS,
    total=NUMBERS,
    mean=NUMBERS,
    rollout_time=NUMBERS,
    error_summary=having(remote_error=NUMBERS, total_samples=NUMBERS, verdict=TEXTS),
)
RECORDS = having(
    training_run_id=st.just(RUN_ID),
    modal_app_id=st.sampled_from([APP_ID, "", f"https://x.y/{APP_ID}"]),
    modal_app_url=TEXTS,
    framework=TEXTS,
    status=st.sampled_from(["running", "completed", "failed", "STOPPED"]),
    framework_status=TEXTS,
    created_at=NUMBERS,
    started_at=NUMBERS,
    ended_at=NUMBERS,
    updated_at=NUMBERS,
    error_message=TEXTS,
    config=having(wandb=having(run_id=TEXTS), metrics=having(run_id=TEXTS)),
    step_times=st.dictionaries(
        STEPS, having(start=NUMBERS, end=NUMBERS, duration_s=NUMBERS), max_size=3
    ),
    substep_times=st.dictionaries(STEPS, PHASES, max_size=3),
    metadata=having(
        framework_progress=having(
            phase=TEXTS, current=NUMBERS, total=NUMBERS, rollout_id=NUMBERS, is_active=st.booleans()
        ),
        latest_rollout=ROLLOUTS,
        attempt_count=NUMBERS,
        attempt_starts=st.lists(NUMBERS, max_size=3),
        last_attempt_started_at=NUMBERS,
        last_attempt_ended_at=NUMBERS,
        resumed_from_checkpoint=st.booleans(),
        resume_from_iteration=NUMBERS,
        batch_size_inference=having(
            knob=TEXTS,
            attempts=st.lists(having(value=NUMBERS, outcome=TEXTS, started_at=NUMBERS), max_size=3),
        ),
        wandb_attempts=st.lists(having(run_id=TEXTS), max_size=3),
    ),
)
SUMMARIES = st.one_of(
    st.builds(lambda items: {"items": items}, st.lists(st.one_of(RECORDS, VALUES), max_size=3)),
    VALUES,
)
ROLLOUT_SUMMARIES = st.one_of(
    st.builds(lambda items: {"items": items}, st.lists(st.one_of(ROLLOUTS, VALUES), max_size=4)),
    VALUES,
)
SUBSTEP_TIMINGS = having(
    final=st.booleans(),
    phases=st.dictionaries(
        TEXTS,
        st.one_of(
            having(busy_duration_s=NUMBERS, total_duration_s=NUMBERS, first_start_s=NUMBERS),
            st.lists(st.lists(NUMBERS, min_size=2, max_size=2), max_size=3),
        ),
        max_size=3,
    ),
)
UPDATES = st.one_of(
    having(
        framework_progress=having(phase=TEXTS, current=NUMBERS, updated_at=NUMBERS),
        framework_status=TEXTS,
        updated_at=NUMBERS,
    ),
    having(latest_rollout=ROLLOUTS, updated_at=NUMBERS),
    VALUES,
)
CHUNKS = st.one_of(
    having(
        steps=st.dictionaries(STEPS, st.dictionaries(TEXTS, NUMBERS, max_size=2), max_size=3),
        written=VALUES,
    ),
    VALUES,
)
quickly = settings(deadline=None, suppress_health_check=list(HealthCheck))


# ---- The pure pipeline -----------------------------------------------------------------------


def as_stored(value: object) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


@quickly
@given(
    RECORDS,
    SUMMARIES,
    ROLLOUT_SUMMARIES,
    SUBSTEP_TIMINGS,
    st.tuples(st.lists(UPDATES, max_size=3), CHUNKS),
    st.sampled_from([True, False, None]),
)
def test_any_record_is_shown_without_steering_the_screen(
    record: object,
    summary: object,
    rollouts: object,
    timing: object,
    beside: tuple[list[object], object],
    live: bool | None,
) -> None:
    rows = tool.parse_rows(tool.parse_json(as_stored(summary)))
    tool.match_runs(RUN_ID, rows, [RUN_ID])
    updates, chunk = beside
    updated = tool.with_updates(tool.parse_json(as_stored(record)), updates)
    run = tool.with_timings(tool.parse_run(updated, RUN_ID), {3: timing})
    known = tool.kept(run, read_rollouts(as_stored(rollouts)))
    found = tool.Found(
        run=tool.step_borne_out(run, known),
        app=tool.App(live=live, state="detached", stopped_at=NOW - 60),
        metrics=tool.parse_metrics([tool.parse_json(as_stored(chunk))]),
        rollouts=known,
        has_result=False,
        stale=None,
        failures=(),
    )
    found = tool.masked(found, tool.mask_secrets)
    shown = io.StringIO()
    with redirect_stdout(shown):
        console = tool.open_console()
        judged = tool.judge(found, NOW)
        tool.show(console, tool.progress_block(found, judged, bar=True))
        tool.show(console, tool.rollouts_block(found, 60))
        tool.show(console, tool.runs_block([(run, None)], 1, NOW))
    assert not STEERING.search(shown.getvalue())
    labels = re.findall(r"^  (\w+) +", shown.getvalue(), re.MULTILINE)
    assert labels.count("status") == 1


# ---- Decoding only a run's rows --------------------------------------------------------------

ROWS = st.lists(
    st.one_of(
        ROLLOUTS,
        st.builds(
            lambda row, run_id: {"training_run_id": run_id, **row},
            ROLLOUTS,
            st.sampled_from([RUN_ID, "other-run-000000000000", f'"{RUN_ID}"']),
        ),
        VALUES,
    ),
    max_size=5,
)


def read_rollouts(raw: bytes) -> tuple[tool.Rollout, ...]:
    return tool.parse_rollouts(tool.rollout_rows(raw, RUN_ID), RUN_ID)


def outcome(raw: bytes) -> object:
    try:
        return read_rollouts(raw)
    except ValueError:
        return ValueError


def plain_outcome(raw: bytes) -> object:
    """The same with every row decoded."""
    try:
        items = json.loads(raw)
        rows = items.get("items") if isinstance(items, dict) else items
        mine = [
            row
            for row in (rows if isinstance(rows, list) else ())
            if tool.parse_rollouts([row], RUN_ID)
        ]
        return tool.parse_rollouts(mine, RUN_ID)
    except ValueError:
        return ValueError


@quickly
@given(
    rows=ROWS,
    compact=st.booleans(),
    ascii_only=st.booleans(),
    after=st.sampled_from([{}, {"version": 2}, {"training_run_id": RUN_ID}]),
    cut=st.one_of(st.none(), st.floats(0, 1)),
)
@example(
    rows=[{"training_run_id": "x", "parent": {"training_run_id": RUN_ID, "rollout_id": 3}}],
    compact=False,
    ascii_only=True,
    after={},
    cut=None,
)
@example(
    rows=[
        {"rollout_id": 2, "training_run_id": RUN_ID},
        {"training_run_id": RUN_ID, "rollout_id": 3},
        {"training_run_id": RUN_ID, "rollout_id": 4, "parent": "x"},
        {"training_run_id": "x"},
        {"training_run_id": "x"},
    ],
    compact=False,
    ascii_only=True,
    after={},
    cut=None,
)
@example(
    rows=[{"error_summary": {"x": 1}, "training_run_id": RUN_ID, "rollout_id": 3}],
    compact=True,
    ascii_only=True,
    after={},
    cut=None,
)
def test_decoding_only_a_runs_rows_gives_what_decoding_all_gives(
    rows: list[object], compact: bool, ascii_only: bool, after: dict[str, object], cut: float | None
) -> None:
    separators = (",", ":") if compact else (", ", ": ")
    text = json.dumps({"items": rows, **after}, separators=separators, ensure_ascii=ascii_only)
    raw = text.encode("utf-8", "surrogatepass")
    if cut is not None:
        raw = raw[: int(cut * len(raw))]
    assert outcome(raw) == plain_outcome(raw)


def test_the_rows_of_one_run_are_decoded_alone() -> None:
    """The way that is fast is the one that is taken for what the gym writes."""
    rows = [
        {"training_run_id": run_id, "rollout_id": rollout_id, "mean": 0.5, "tag_stats": {"a": {}}}
        for run_id in ("amber-hawk-b4d2f0e8a617", RUN_ID, "misty-falcon-e47a0b6c18d3")
        for rollout_id in range(3)
    ]
    raw = json.dumps({"items": rows}).encode()
    # A row that json.loads would refuse, in another run's place, goes unnoticed.
    broken = raw.replace(b'"rollout_id": 0', b'"rollout_id": oops', 1)
    assert [rollout.rollout_id for rollout in read_rollouts(broken)] == [0, 1, 2]


# ---- The whole command, over the wire, in this process ---------------------------------------


@dataclass(frozen=True)
class Here:
    server: LocalModal

    def run(self, *words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        argv, sys.argv = sys.argv, ["run_progress.py", *words]
        try:
            with redirect_stdout(out), redirect_stderr(err):
                status = tool.main()
        finally:
            sys.argv = argv
        return status, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def here() -> Iterator[Here]:
    with LocalModal() as server, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("MODAL_")]:
            patch.delenv(name)
        for name, value in server.env.items():
            patch.setenv(name, value)
        server.add_app(LocalApp(APP_ID, RUN_ID, "detached", NOW - 1000))
        yield Here(server)


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=15)
@given(
    st.one_of(RECORDS, VALUES),
    SUMMARIES,
    ROLLOUT_SUMMARIES,
    SUBSTEP_TIMINGS,
    st.sampled_from([RUN_ID, "elastic", APP_ID, "x", "../", "\x1b[31m"]),
)
def test_whatever_the_volume_holds_the_command_ends_as_documented(
    here: Here, record: object, summary: object, rollouts: object, timing: object, query: str
) -> None:
    here.server.files.update(
        {
            f"training-runs/{RUN_ID}.json": as_stored(record),
            "training-runs/another-run.json": as_stored(record),
            "training-runs-summary/summary.json": as_stored(summary),
            "training-rollouts-summary/summary.json": as_stored(rollouts),
            f"training-rollouts/{RUN_ID}__00000003.json": b"{}",
            f"substep-timing/{RUN_ID}/00000002__driver.json": as_stored(timing),
        }
    )
    status, out, err = here.run(query, "--no-logs")
    assert status in STATUSES
    assert not STEERING.search(out + err)
