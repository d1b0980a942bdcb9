"""Judging and Showing: what is true of a run at a given now, and how it is worded."""

import io
import math
import re
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from rich.console import Console

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
        rollouts=rollouts,
        has_result=has_result,
        stale=None,
        failures=(),
    )


def silent_for(seconds: float) -> tool.Run:
    return replace(RUN, last_sign=NOW - seconds)


@pytest.mark.parametrize(
    ("case", "hint"),
    [
        (found(silent_for(601)), "⚠ POSSIBLY STUCK: "),
        (found(silent_for(600)), ""),
        (found(silent_for(-50)), ""),
        (found(replace(silent_for(0), last_sign=None)), ""),
        (found(replace(silent_for(5000), status="completed")), ""),
        (found(silent_for(5000), app=tool.App(live=None, unknown="why")), ""),
        (found(silent_for(5000), app=None), ""),
        (found(silent_for(5000), rollouts=(tool.Rollout(3, created_at=NOW - 5),)), ""),
        (found(app=OVER), "✗ APP DIED: "),
        (found(app=OVER, has_result=True), "✓ finished: "),
        (found(app=OVER, has_result=None), "⚠ APP OVER: "),
        (found(has_result=True), "✓ finished: "),
        (found(replace(RUN, status="failed"), app=OVER), ""),
    ],
)
def test_a_run_that_is_not_simply_running_is_hinted_at(case: tool.Found, hint: str) -> None:
    text, _ = tool.hint_text(case.app, tool.judge(case, NOW)) or ("", "")
    assert text.startswith(hint)
    assert bool(text) == bool(hint)


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
    run = RUN if app else replace(RUN, app_id=None)
    assert app_words(found(run, app=app)) == text


def app_words(case: tool.Found) -> str:
    return tool.app_text(case, tool.judge(case, NOW))[0]


def test_an_ended_run_without_an_app_is_not_said_to_be_queuing() -> None:
    text = app_words(found(replace(RUN, status="cancelled"), app=None))
    assert text == "none: the run ended before it had one, so there are no logs"


def test_the_app_of_an_orphaned_run_is_not_said_to_be_on_its_way() -> None:
    text = app_words(found(replace(WITHOUT_APP, created_at=NOW - 7200), app=None))
    assert text == "none: it was created 2h 0m ago and never got one, so there are no logs"


def times_of(case: tool.Found) -> dict[str, datetime]:
    """The times of the Progress block, by their labels."""
    console = Console(file=io.StringIO(), width=1000, color_system=None)
    tool.show(console, tool.progress_block(case, tool.judge(case, NOW), bar=False))
    assert isinstance(console.file, io.StringIO)
    lines = re.findall(r"^  (\w+) +(\S+ \S+) UTC", console.file.getvalue(), re.MULTILINE)
    return {label: datetime.fromisoformat(moment) for label, moment in lines}


STAMPS = (None, NOW - 7_300, NOW - 7_200, NOW - 7_080, NOW - 60)


@pytest.mark.parametrize(("created", "word"), [(NOW - 7_200, "orphaned"), (NOW - 360, "queued")])
@pytest.mark.parametrize("started", STAMPS)
@pytest.mark.parametrize("updated", STAMPS)
@pytest.mark.parametrize("phase", [None, "initializing", "download_model"])
def test_a_run_that_is_only_queued_has_been_created_and_has_not_started(
    created: float, word: str, started: float | None, updated: float | None, phase: str | None
) -> None:
    record = {"status": "running", "framework_status": phase, "modal_app_id": ""}
    times = {"created_at": created, "started_at": started, "updated_at": updated}
    case = found(tool.parse_run(record | times, "a-b-1"), app=None)
    assert tool.judge(case, NOW).word == word
    shown = times_of(case)
    assert shown.keys() == {"created", "updated"}
    assert shown["updated"] >= shown["created"]
    run = tool.report(case, tool.judge(case, NOW), None)["run"]
    assert isinstance(run, dict)
    assert run["started_at"] is None


@pytest.mark.parametrize("started", STAMPS)
@pytest.mark.parametrize("updated", STAMPS)
def test_nothing_that_has_happened_is_newer_than_what_is_shown_as_the_newest(
    started: float | None, updated: float | None
) -> None:
    record = {"status": "running", "modal_app_id": "ap-1", "created_at": NOW - 7_200}
    times = {"started_at": started, "updated_at": updated}
    shown = times_of(found(tool.parse_run(record | times, "a-b-1")))
    assert max(shown.values()) == shown["updated"]


@pytest.mark.parametrize(
    ("current", "status", "told"),
    [
        (12, "running", "the latest completed step"),
        (11, "running", "not completed yet"),
        (11, "completed", "the latest completed step"),
        (11, "failed", "not completed"),
        (6, "running", "of an attempt before this one"),
    ],
)
def test_the_step_of_the_latest_rollout_is_told_as_it_stands(
    current: int, status: str, told: str
) -> None:
    run = replace(RUN, status=status, step=tool.Step(current, 50, "step"))
    assert tool.latest_text(found(run), 10) == f"rollout_id 10 (step 11, {told})"


def test_a_train_result_means_that_the_last_step_was_completed() -> None:
    run = replace(RUN, step=tool.Step(11, 11, "step"))
    text = tool.latest_text(found(run, has_result=True), 10)
    assert text == "rollout_id 10 (step 11, the latest completed step)"


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


# ---- How far ---------------------------------------------------------------------------------


def rollouts_at(*moments: tuple[int, float]) -> tuple[tool.Rollout, ...]:
    return tuple(tool.Rollout(rollout_id, created_at=NOW - ago) for rollout_id, ago in moments)


def test_the_pace_is_the_median_gap_so_that_a_restarts_pause_does_not_count() -> None:
    moments = rollouts_at((0, 5000), (1, 4900), (2, 4800), (3, 1000), (5, 800), (6, 700))
    assert tool.judge(found(rollouts=moments), NOW).pace == tool.Usual(100.0, 3800.0, 5)


def test_only_the_newest_ten_gaps_make_the_pace() -> None:
    slow = [(n, 50_000 - 1000 * n) for n in range(20)]
    fast = [(20 + n, 20_000 - 10 * n) for n in range(20)]
    assert tool.judge(found(rollouts=rollouts_at(*slow, *fast)), NOW).pace == tool.Usual(
        10.0, 10.0, 10
    )


def test_a_run_that_has_just_begun_again_is_not_slow_for_its_pause() -> None:
    run = replace(RUN, attempt_began=NOW - 60)
    case = found(run, rollouts=rollouts_at((0, 9000), (1, 8900), (2, 8800)))
    assert tool.judge(case, NOW).since_step == 60


def test_measured_steps_make_the_pace_where_there_are_fewer_than_two_gaps() -> None:
    steps = tuple(tool.Timings(step, (), total) for step, total in ((3, 30.0), (2, 50.0)))
    run = replace(RUN, steps=steps)
    case = found(run, rollouts=rollouts_at((0, 500), (1, 100)))
    assert tool.judge(case, NOW).pace == tool.Usual(40.0, 50.0, 2)


PACED = rollouts_at((8, 350), (9, 250), (10, 150))
AT_12 = replace(RUN, step=tool.Step(12, 50, "step"))
AT_1 = replace(RUN, step=tool.Step(1, 50, "step"))


def test_the_eta_counts_the_steps_left_less_the_time_since_the_last() -> None:
    assert tool.judge(found(AT_12, rollouts=PACED), NOW).eta == (50 - 11) * 100 - 150


def test_a_pause_before_this_attempt_brings_the_end_no_nearer() -> None:
    paused = tuple(replace(r, created_at=(r.created_at or 0) - 9000) for r in PACED)
    resumed = replace(AT_12, attempt_began=NOW - 60)
    assert tool.judge(found(resumed, rollouts=paused), NOW).eta == (50 - 11) * 100 - 60


def test_no_more_steps_are_left_than_there_are() -> None:
    none_yet = replace(RUN, step=tool.Step(0, 50, "step"))
    steps = tuple(tool.Timings(step, (), 100.0) for step in (2, 1))
    assert tool.judge(found(replace(none_yet, steps=steps)), NOW).eta == 50 * 100


def test_the_eta_is_never_below_one_pace() -> None:
    last = replace(RUN, step=tool.Step(12, 12, "step"))
    assert tool.judge(found(last, rollouts=PACED), NOW).eta == 100


@pytest.mark.parametrize(
    "case",
    [
        found(AT_12, rollouts=PACED, app=OVER),
        found(
            replace(AT_12, last_sign=NOW - 700), rollouts=rollouts_at((1, 900), (2, 800), (3, 700))
        ),
        found(replace(RUN, step=tool.Step(51, 50, "step")), rollouts=PACED),
        found(replace(RUN, step=tool.Step(12, None, "step")), rollouts=PACED),
        found(replace(AT_12, status="completed"), rollouts=PACED),
        found(AT_12),
    ],
)
def test_there_is_no_eta_where_nothing_is_sure_to_come(case: tool.Found) -> None:
    assert tool.judge(case, NOW).eta is None


@pytest.mark.parametrize(
    ("eta", "text"),
    [(9660, "~2h 41m (about 16:54 UTC)"), (90_000, "~1d 1h (about 2026-09-22 15:13 UTC)")],
)
def test_an_eta_is_worded_with_its_day_where_that_is_another(eta: float, text: str) -> None:
    assert tool.eta_text(eta, NOW) == text


def test_the_rewards_are_drawn_in_buckets_with_first_last_and_best() -> None:
    rewards = [0.1, 0.2, 0.9, 0.4]
    rollouts = [tool.Rollout(n, mean_reward=reward) for n, reward in enumerate(rewards)]
    assert tool.reward_text(rollouts, 60) == "▁▂█▄  0.1000 → 0.4000, best 0.9000 (rollout_id 2)"
    many = [tool.Rollout(n, mean_reward=float(n)) for n in range(1000)]
    line = tool.reward_text(many, 60)
    assert line is not None
    assert len(line.split()[0]) == 60
    assert tool.reward_text(rollouts[:1], 60) is None
    tiny = [tool.Rollout(n, mean_reward=n * 1e-310) for n in range(2)]
    assert tool.reward_text(tiny, 60) == "▁█  0.0000 → 0.0000, best 0.0000 (rollout_id 1)"
    below = [tool.Rollout(n, mean_reward=reward) for n, reward in enumerate((-2e-5, -1e-5))]
    assert tool.reward_text(below, 60) == "▁█  0.0000 → 0.0000, best 0.0000 (rollout_id 1)"
    assert tool.reward_text([tool.Rollout(n, mean_reward=1.0) for n in range(3)], 60) == (
        "▁▁▁  1.0000 → 1.0000, best 1.0000 (rollout_id 0)"
    )


@pytest.mark.parametrize(
    ("means", "line"),
    [
        ((math.inf, -math.inf, 1.0), "×"),
        ((1e308, 1e308, 1.0), "×"),
        ((-1e308, 1e308), "▁█"),
        ((1.0, math.nan, 2.0), "▁×█"),
    ],
)
def test_rewards_of_any_size_have_a_course(means: tuple[float, ...], line: str) -> None:
    rollouts = [tool.Rollout(n, mean_reward=mean) for n, mean in enumerate(means)]
    shown = tool.reward_text(rollouts, len(line))
    assert shown is not None
    assert shown.startswith(f"{line}  ")


def test_the_line_under_followed_logs_waits_for_the_end_of_a_line() -> None:
    log = [b"Loading ...", b"", b" done\n", b"more\n"]
    shown = tool.over_bottom_line(tool.Options(), found(AT_12), log)
    assert [re.sub(rb"step 12/50.*", b"LINE", piece) for piece in shown] == [
        b"LINE",
        b"\r\x1b[2KLoading ...",
        b" done\nLINE",
        b"\r\x1b[2Kmore\nLINE",
        b"\r\x1b[2K",
    ]


# ---- The verdict: a test for each rule, and for the rules' order -----------------------------

REFUSED = "401 Unauthorized for url https://x--y.modal.run/z"
BLOCKER = tool.Blocker("auth", REFUSED, 25, NOW - 120, NOW - 900)
QUIET = tool.Diagnosis(None, "Timer actor_train start", NOW - 900, NOW - 1500)
BUSY = tool.Diagnosis(None, "working", NOW - 20, NOW - 1500)
COUNT = tool.Progress("Rollout generation", 401, 512, 1.1, 100.9)
MOVING = replace(BUSY, alive_at=NOW - 12, progress=COUNT)


def replace_count(**changes: Any) -> tool.Progress:
    return COUNT._replace(**changes)


SHORT_TAIL = tool.Diagnosis(since=NOW - 30, noise=True)
BLOCKED = replace(QUIET, blocker=BLOCKER, failed_at=BLOCKER.at)
LONG_BLOCKED = replace(BUSY, blocker=replace(BLOCKER, at=NOW - 900), failed_at=NOW - 900)
SILENT = replace(
    RUN,
    phase="generate_rollouts",
    step=tool.Step(12, 50, "step"),
    last_sign=NOW - 1320,
    phase_began=NOW - 1320,
    steps=tuple(
        tool.Timings(step, (("generate_rollouts", seconds),), seconds + 20)
        for step, seconds in ((11, 230.0), (10, 271.0), (9, 200.0))
    ),
)
SILENT_SINCE = "step 12/50, generate_rollouts for 22m (usually 3m 50s)"
LONG_USUAL = replace(SILENT, steps=(tool.Timings(11, (("generate_rollouts", 900.0),), 950.0),))
UNKNOWN_APP = tool.App(live=None, unknown="no answer")
WITHOUT_APP = replace(RUN, app_id=None, created_at=NOW - 360)


@pytest.mark.parametrize(
    ("word", "case", "logs"),
    [
        *(
            (word, found(replace(RUN, status=word)), BLOCKED)
            for word in sorted(tool.ENDED_STATUSES)
        ),
        ("completed", found(app=OVER, has_result=True), BLOCKED),
        ("queued", found(WITHOUT_APP, app=None), None),
        ("orphaned", found(replace(WITHOUT_APP, created_at=NOW - 5_500), app=None), None),
        ("running", found(replace(AT_1, app_id=None), app=None), None),
        ("died", found(app=OVER), None),
        ("died", found(replace(RUN, waiting_for_gpu=True), app=OVER), None),
        ("waiting", found(replace(SILENT, waiting_for_gpu=True)), None),
        ("unknown", found(replace(RUN, status=None)), None),
        ("unknown", found(SILENT, app=UNKNOWN_APP), BLOCKED),
        ("running", found(app=UNKNOWN_APP), None),
        ("stuck", found(SILENT), BLOCKED),
        ("stuck", found(LONG_USUAL), BLOCKED),
        ("stuck", found(SILENT, rollouts=rollouts_at((10, 1500))), BLOCKED),
        ("slow", found(replace(SILENT, attempt_began=NOW - 60)), LONG_BLOCKED),
        ("stuck", found(SILENT), QUIET),
        ("stuck", found(replace(SILENT, steps=())), QUIET),
        ("stuck", found(SILENT), None),
        ("slow", found(replace(SILENT, steps=())), None),
        ("slow", found(replace(SILENT, steps=())), SHORT_TAIL),
        ("stuck", found(SILENT), SHORT_TAIL),
        ("unknown", found(replace(RUN, status="succeeded", ended_at=NOW - 9), app=OVER), None),
        ("unknown", found(app=OVER, has_result=None), None),
        ("running", found(replace(AT_12, app_id=None), app=None), None),
        ("slow", found(SILENT), BUSY),
        ("running", found(SILENT), MOVING),
        ("running", found(rollouts=rollouts_at((0, 3000), (1, 2900), (2, 2800))), MOVING),
        ("running", found(SILENT, app=UNKNOWN_APP), MOVING),
        ("stuck", found(SILENT), replace(MOVING, blocker=BLOCKER, failed_at=BLOCKER.at)),
        ("stuck", found(SILENT), replace(QUIET, alive_at=NOW - 601)),
        ("slow", found(LONG_USUAL), QUIET),
        ("slow", found(rollouts=rollouts_at((0, 3000), (1, 2900), (2, 2800))), BUSY),
        ("running", found(rollouts=rollouts_at((0, 700), (1, 650), (2, 590))), BUSY),
        ("running", found(AT_12, rollouts=PACED), BLOCKED),
        ("running", found(AT_12, rollouts=PACED), None),
    ],
)
def test_the_first_rule_that_holds_gives_the_word(
    word: str, case: tool.Found, logs: tool.Diagnosis | None
) -> None:
    fresh = case
    if case.run is RUN and case.rollouts:  # signs of life, though no step
        fresh = replace(case, run=replace(RUN, last_sign=NOW - 20))
    verdict = tool.judge(fresh, NOW, logs)
    assert verdict.word == word


def words_of(case: tool.Found, logs: tool.Diagnosis | None = None) -> str:
    return tool.verdict_text(case, tool.judge(case, NOW, logs))


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (
            found(SILENT),
            f"{SILENT_SINCE}; the app is live, and this rests on silence alone",
        ),
        (found(WITHOUT_APP, app=None), "no app yet, 6m after it was created"),
        (found(replace(AT_12, last_sign=None)), "step 12/50, phase unknown; no sign of life known"),
        (
            found(replace(WITHOUT_APP, created_at=NOW - 6000), app=None),
            "no app yet, 1h 40m after it was created; probably orphaned: start it again",
        ),
        (
            found(
                replace(RUN, last_sign=NOW - 20, phase="training"),
                rollouts=rollouts_at((0, 3000), (1, 2746), (2, 2492)),
            ),
            "step unknown, training; touched 20s ago, but no step for 41m, usually 4m 14s",
        ),
        (
            found(replace(RUN, status="failed", ended_at=NOW - 7200, error=("head", "it broke"))),
            "step unknown; ended 2h 0m ago: it broke",
        ),
        (
            found(replace(RUN, status="failed", error=("RuntimeError: CUDA", "Compile"))),
            "step unknown: RuntimeError: CUDA",
        ),
    ],
)
def test_the_verdict_is_worded(case: tool.Found, text: str) -> None:
    assert words_of(case) == text


def test_a_silent_record_beside_a_log_that_moves_is_told_as_such() -> None:
    assert words_of(found(SILENT), MOVING) == (
        f"{SILENT_SINCE}; the record is silent for 22m, the log is not"
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (COUNT, "Rollout generation 401/512, 1.1/s, about 1m 41s left"),
        (replace_count(per_second=0.05, left_seconds=2220), "20s each, about 37m 0s left"),
        (replace_count(per_second=None, left_seconds=None), "Rollout generation 401/512"),
    ],
)
def test_how_far_the_phase_is_is_worded(count: tool.Progress, text: str) -> None:
    judged = tool.judge(found(SILENT), NOW, replace(MOVING, progress=count))
    assert (tool.counter_text(judged) or "").endswith(text)


def test_how_long_a_counter_takes_is_not_told_once_it_stands() -> None:
    stands = replace(QUIET, alive_at=NOW - 900, progress=COUNT)
    assert tool.counter_text(tool.judge(found(SILENT), NOW, stands)) == "Rollout generation 401/512"
    assert tool.counter_text(tool.judge(found(app=OVER), NOW, stands)) is None


@pytest.mark.parametrize(
    ("kind", "restart", "word"),
    [
        ("killed", "helps", "starting again helps"),
        ("cuda_oom", "only after a change", "start it again only with"),
        ("nccl_timeout", None, "find the first that fails"),
    ],
)
def test_whether_starting_again_helps_is_told(kind: str, restart: str | None, word: str) -> None:
    judged = tool.judge(found(SILENT), NOW, replace(BLOCKED, blocker=replace(BLOCKER, kind=kind)))
    assert judged.restart == restart
    assert word in (judged.next_step or "")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("CUDA error 803: system has unsupported display driver", "fits the GPU's driver"),
        ("train.py: error: unrecognized arguments: --foo", "settings do not fit"),
    ],
)
def test_of_two_kinds_with_one_name_the_lines_own_gives_the_advice(line: str, word: str) -> None:
    logs = replace(BLOCKED, blocker=replace(BLOCKER, kind="config", line=line))
    assert word in (tool.judge(found(SILENT), NOW, logs).next_step or "")


def test_a_long_blocker_is_shortened_in_its_middle() -> None:
    long = replace(BLOCKER, line=f"RuntimeError: {'x' * 500} said the server at /vol/a", count=1)
    text = tool.blocker_text(long, NOW)
    assert text.startswith("auth: RuntimeError: xxx")
    assert text.endswith("xxx said the server at /vol/a (2m ago)")
    assert len(text) < 330


@pytest.mark.parametrize(
    ("logs", "text"),
    [
        (tool.Diagnosis(whole=True), "the app has logged nothing yet"),
        (replace(QUIET, whole=True), "last activity 15m ago: Timer actor_train start (this is "),
        (replace(QUIET, activity="x" * 300), f"last activity 15m ago: {'x' * 200}"),
        (replace(SHORT_TAIL, since=NOW - 30), "nothing but health checks since 14:12"),
    ],
)
def test_the_last_line_that_means_something_is_worded(logs: tool.Diagnosis, text: str) -> None:
    assert (tool.activity_text(logs, NOW) or "").startswith(text)


def test_a_blocker_that_the_run_has_got_over_by_its_record_is_none() -> None:
    fresh = tool.Rollout(11, created_at=NOW - 60)
    assert tool.judge(found(rollouts=(fresh,)), NOW, LONG_BLOCKED).blocker is None
    failing = replace(fresh, error_summary="all_infra_failure")
    assert tool.judge(found(rollouts=(failing,)), NOW, LONG_BLOCKED).blocker
    # It is the cause of its end, whatever was recorded beside it.
    assert tool.judge(found(app=OVER, rollouts=(fresh,)), NOW, LONG_BLOCKED).blocker
    # Clocks differ, and the log's times are whole seconds.
    assert tool.judge(found(rollouts=(fresh,)), NOW, BLOCKED).blocker


def test_a_blocker_is_named_though_the_run_goes_on_and_comes_with_a_next_step() -> None:
    case = found(AT_12, rollouts=PACED)
    verdict = tool.judge(case, NOW, BLOCKED)
    assert verdict.blocker == BLOCKER
    assert verdict.next_step is not None
    assert "Modal-Key and Modal-Secret (see SKILL.md)" in verdict.next_step
    assert tool.blocker_text(BLOCKER, NOW) == (
        f"auth: {REFUSED} (25 times since 13:58:20, last 2m ago)"
    )


def test_what_the_trainer_logs_is_a_sign_of_life() -> None:
    logged = tool.Metric("train/loss", 0.5, 3, NOW - 30)
    case = replace(found(silent_for(5000)), metrics=(logged,))
    assert tool.judge(case, NOW).idle == 30


@pytest.mark.parametrize(("ended", "word"), [(NOW - 899, "retrying"), (NOW - 901, "failed")])
def test_a_failed_attempt_may_be_tried_again_for_fifteen_minutes(ended: float, word: str) -> None:
    run = replace(RUN, status="failed", attempt=1, attempt_failed_at=ended, ended_at=ended)
    assert tool.judge(found(run), NOW).word == word
