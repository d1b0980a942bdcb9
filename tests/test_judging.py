"""Judging and Showing: what is true of a run at a given now, and how it is worded."""

from dataclasses import replace

import pytest

import run_progress as tool

NOW = 1_790_000_000.0
RUN = tool.parse_run({"status": "running", "modal_app_id": "ap-1", "updated_at": NOW - 60}, "a-b-1")
LIVE = tool.App(live=True, state="detached")
OVER = tool.App(live=False, state="stopped", stopped_at=NOW - 840, stopped_by="maya")


def found(
    run: tool.Run = RUN,
    *,
    app: tool.App | None = LIVE,
    rollouts: tuple[tool.Rollout, ...] = (),
    has_result: bool | None = False,
) -> tool.Found:
    return tool.Found(
        run=run,
        app=app,
        rollouts=tool.Rollouts(rollouts),
        has_result=has_result,
        stale=None,
        failures=(),
    )


def silent_for(seconds: float) -> tool.Run:
    return replace(RUN, last_sign=NOW - seconds)


@pytest.mark.parametrize(
    ("case", "condition"),
    [
        (found(silent_for(601)), "stuck"),
        (found(silent_for(600)), None),
        (found(silent_for(-50)), None),
        (found(replace(silent_for(0), last_sign=None)), None),
        (found(replace(silent_for(5000), status="completed")), None),
        (found(silent_for(5000), app=tool.App(live=None, unknown="why")), None),
        (found(silent_for(5000), app=None), None),
        (found(silent_for(5000), rollouts=(tool.Rollout(3, created_at=NOW - 5),)), None),
        (found(app=OVER), "died"),
        (found(app=OVER, has_result=True), "finished"),
        (found(app=OVER, has_result=None), "over"),
        (found(has_result=True), None),
        (found(replace(RUN, status="failed"), app=OVER), None),
    ],
)
def test_the_condition_of_a_run(case: tool.Found, condition: str | None) -> None:
    assert tool.judge(case, NOW).condition == condition


def test_the_newest_sign_of_life_counts_whichever_it_is() -> None:
    newest = tool.judge(found(rollouts=(tool.Rollout(3, created_at=NOW - 5),)), NOW)
    assert (newest.updated_at, newest.idle) == (NOW - 5, 5)
    started = replace(RUN, last_sign=None, started_at=NOW - 9000)
    shown = tool.judge(found(started), NOW)
    assert (shown.updated_at, shown.idle) == (NOW - 9000, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.3, "<1s"),
        (3.6, "4s"),
        (59.7, "1m 0s"),
        (230.4, "3m 50s"),
        (3599.6, "1h 0m"),
        (9660, "2h 41m"),
        (273_600, "3d 4h"),
    ],
)
def test_a_measured_time_is_worded(seconds: float, text: str) -> None:
    assert tool.duration_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (34.9, "34s"), (60, "1m"), (1350, "22m"), (8640, "2h 24m"), (90_000, "1d 1h")],
)
def test_an_age_is_worded(seconds: float, text: str) -> None:
    assert tool.age_text(seconds) == text


@pytest.mark.parametrize(
    ("app", "text"),
    [
        (LIVE, "ap-1 · live (detached)"),
        (OVER, "ap-1 · not live (stopped 14m ago by maya)"),
        (replace(OVER, stopped_by=None), "ap-1 · not live (stopped 14m ago)"),
        (tool.App(live=False, state="stopping"), "ap-1 · not live (stopping)"),
        (tool.App(live=None, unknown="no such app"), "ap-1 · unknown (no such app)"),
        (None, "none yet: the run is still queuing or in early setup, so there are no logs"),
    ],
)
def test_the_app_is_worded(app: tool.App | None, text: str) -> None:
    assert tool.app_text(RUN, app, NOW)[0] == text


def test_an_ended_run_without_an_app_is_not_said_to_be_queuing() -> None:
    text, _ = tool.app_text(replace(RUN, status="cancelled"), None, NOW)
    assert text == "none: the run ended before it had one, so there are no logs"


@pytest.mark.parametrize(
    ("current", "status", "told"),
    [
        (12, "running", "the latest completed step"),
        (11, "running", "under way"),
        (11, "completed", "the latest completed step"),
        (6, "running", "of an attempt before this one"),
    ],
)
def test_the_step_of_the_latest_rollout_is_told_as_it_stands(
    current: int, status: str, told: str
) -> None:
    run = replace(RUN, status=status, step=tool.Step(current, 50, "step"))
    assert tool.latest_text(run, 10) == f"rollout_id 10 (step 11, {told})"


def test_a_time_ahead_of_the_clock_is_not_said_to_be_now() -> None:
    assert tool.moment_text(NOW + 3600, NOW).endswith("(ahead of this clock)")
    assert tool.moment_text(NOW + 5, NOW).endswith("(0s ago)")


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (None, "unknown"),
        (tool.Step(12, 50, "step"), "12/50"),
        (tool.Step(7, None, "step"), "7"),
        (tool.Step(3, 4, "epoch"), "3/4 (epoch)"),
    ],
)
def test_the_step_is_worded(step: tool.Step | None, text: str) -> None:
    assert tool.step_text(step) == text
