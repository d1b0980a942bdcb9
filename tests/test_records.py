"""Records: every shape that the volume holds, read right."""

import json
import timeit
from pathlib import Path
from typing import Any

import pytest

import run_progress as tool

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "cases" / "records.jsonl").read_text().splitlines()
]
RUN_ID = "elastic-frog-a1b2c3d4e5f6"


def parse(**fields: Any) -> tool.Run:
    return tool.parse_run(fields, RUN_ID)


def parse_rollouts(rows: list[dict[str, Any]]) -> tuple[tool.Rollout, ...]:
    return read_rollouts({"items": rows})


def read_rollouts(summary: object) -> tuple[tool.Rollout, ...]:
    rows = tool.rollout_rows(json.dumps(summary).encode(), RUN_ID)
    return tool.parse_rollouts(rows, RUN_ID)


def read(case: dict[str, Any]) -> dict[str, Any]:
    """What the tool reads from a case's record, in the words of the cases."""
    (run_id,) = tool.parse_rows([case["record"]])
    run = tool.parse_run(case["record"], run_id)
    return {
        "run_id": run_id,
        "app_id": run.app_id,
        "url": run.url,
        "framework": run.framework,
        "status": run.status,
        "phase": run.phase,
        "waiting_for_gpu": run.waiting_for_gpu,
        "current": run.step.current if run.step else None,
        "total": run.step.total if run.step else None,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "updated_at": run.started_at if run.last_sign is None else run.last_sign,
        "ended_at": run.ended_at,
        "idle": None if run.last_sign is None else case["now"] - run.last_sign,
        "reason": run.reason,
        "error": "\n".join(run.error),
        "attempt": run.attempt,
        "resumed_from": run.resumed_from,
        "wandb_ids": list(run.wandb_ids),
        "timings_step": run.timings.step if run.timings else None,
        "timings": dict(run.timings.phases) if run.timings else None,
        "timings_total": run.timings.total if run.timings else None,
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_a_record_is_read_as_its_case_says(case: dict[str, Any]) -> None:
    found = read(case)
    for name, expected in case["expect"].items():
        if name.endswith("_contains"):
            assert expected in found[name.removesuffix("_contains")]
        elif name.endswith("_lacks"):
            assert expected not in found[name.removesuffix("_lacks")]
        else:
            assert found[name] == expected, name


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        (1789991000, 1789991000),
        (1789991000.5, 1789991000.5),
        ("1789991000", 1789991000),
        (1789991000123, 1789991000.123),
        ("1789991000000", 1789991000),
        (1789991000123456, None),
        ("١٧٨٩٩٩١٠٠٠", None),
        ("2026-09-21T11:43:20Z", 1789991000),
        ("2026-09-21T13:43:20+02:00", 1789991000),
        ("2026-09-21 11:43:20", 1789991000),
        ({"value": {"value": "1789991000"}}, 1789991000),
        (0, None),
        (None, None),
        (-5, None),
        ("", None),
        ("soon", None),
        ("1_000", None),
        ("1" * 200_000 + "x", None),
        (True, None),
        ([], None),
        ({}, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (1e300, None),
        ("9999-99-99", None),
    ],
)
def test_a_time_is_read_in_every_form_and_else_unknown(written: object, read_as: object) -> None:
    assert parse(created_at=written).created_at == read_as


@pytest.mark.parametrize(
    ("fields", "unread"),
    [
        (
            {"created_at": "soon", "updated_at": True, "ended_at": -5},
            ("created_at", "updated_at", "ended_at"),
        ),
        (
            {"started_at": 1789991000123456, "updated_at": {"value": [1]}},
            ("started_at", "updated_at"),
        ),
        ({"created_at": None, "started_at": "", "updated_at": 0, "ended_at": 1789991000123}, ()),
    ],
)
def test_times_that_are_there_but_can_t_be_read_are_named(
    fields: dict[str, Any], unread: tuple[str, ...]
) -> None:
    assert parse(**fields).unread_times == unread


@pytest.mark.parametrize(
    ("field", "app_id", "malformed"),
    [
        ("ap-0123456789abcdefABCDEF", "ap-0123456789abcdefABCDEF", False),
        ("https://modal.com/apps/lab/main/ap-01?tab=logs", "ap-01", False),
        ("https://modal.com/id/ap-01/", "ap-01", False),
        ("http://modal.com/id/ap-01", None, True),
        ("https://[broken/ap-01", None, True),
        ("ap-01 --help", None, True),
        ("ap-", None, True),
        ("ap-" + "x" * 300_000, None, True),
        ("--help", None, True),
        (7, None, True),
        ("", None, False),
        (None, None, False),
    ],
)
def test_an_app_id_is_the_field_or_the_end_of_its_url(
    field: object, app_id: str | None, malformed: bool
) -> None:
    run = parse(modal_app_id=field)
    assert (run.app_id, run.app_id_malformed) == (app_id, malformed)


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("gene\x1b[31mrate\x1b[0m", "generate"),
        ("gene\x1b]0;title\x07rate", "generate"),
        ("gene\x1b]8;;https://x.y\x1b\\rate", "generate"),
        ("gene\x9b31mrate", "generate"),
        ("gene\nrate\r\x85\u2028", "generate"),
        ("\u202egene\u2066rate\u200f", "generate"),
        ("gene\ud800rate", "generate"),
        ("[red]generate[/red] :smile:", "[red]generate[/red] :smile:"),
        ("génération 生成", "génération 生成"),
        ("a\u00a0b\u3000c", "a\u00a0b\u3000c"),
    ],
)
def test_text_loses_what_could_steer_a_screen(field: str, shown: str) -> None:
    assert parse(framework_status=field).phase == shown


@pytest.mark.parametrize("part", ["a", "生成", "\u00e9 "])
def test_printable_text_of_any_size_is_cleaned_at_once(part: str) -> None:
    text = part * 500_000
    assert tool.clean(text) == text
    # The quickest of a few, whatever else this machine does.
    at_once = min(timeit.repeat(lambda: tool.clean(text), number=1, repeat=5))
    each = min(timeit.repeat(lambda: [c for c in text if c.isprintable()], number=1, repeat=5))
    assert 5 * at_once < each


def test_a_long_error_keeps_its_head_and_its_end() -> None:
    lines = [f"line {number}" for number in range(100)]
    error = parse(status="failed", error_message="\n".join(lines)).error
    assert error[0] == "line 0"
    assert error[-1] == "line 99"
    assert "… 87 more lines …" in error


def test_the_reason_and_not_the_phase_waits_for_a_gpu_once_a_run_has_ended() -> None:
    progress = {"framework_progress": {"phase": "download_model", "is_active": False}}
    assert parse(status="running", metadata=progress).waiting_for_gpu
    assert not parse(status="cancelled", metadata=progress).waiting_for_gpu


def test_the_start_of_an_open_substep_is_a_sign_of_life() -> None:
    run = parse(
        updated_at=100,
        substep_times={"2": {"a": {"start": 150, "duration_s": 5}, "b": {"start": 155}}},
    )
    assert run.last_sign == 155


def test_without_step_times_the_newest_step_is_whole_once_a_later_one_has_begun() -> None:
    substeps = {
        "3": {"generate_rollouts": {"start": 100, "duration_s": 50}},
        "4": {"generate_rollouts": {"start": 200, "duration_s": 60}},
    }
    assert parse(substep_times=substeps).timings == tool.Timings(
        3, (("generate_rollouts", 50.0),), 50.0
    )
    progress = {"framework_progress": {"current": 5}}
    timings = parse(substep_times=substeps, metadata=progress).timings
    assert timings is not None
    assert timings.step == 4


def test_overlapping_phases_count_once_in_a_total_that_was_not_measured() -> None:
    substeps = {
        "1": {
            "train_models": {"start": 130, "duration_s": 20},
            "generate_rollouts": {"start": 100, "duration_s": 40, "concurrent": True},
        },
        "2": {"generate_rollouts": {"start": 150, "duration_s": None}},
    }
    timings = parse(substep_times=substeps).timings
    assert timings is not None
    assert timings.phases == (("generate_rollouts", 40.0), ("train_models", 20.0))
    assert timings.total == 50.0


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe\x00", b"[" * 99_999, b"1" * 5000])
def test_what_is_not_json_is_told_and_nothing_else_happens(raw: bytes) -> None:
    with pytest.raises(ValueError, match="not JSON"):
        tool.parse_json(raw)


def test_rows_are_kept_once_an_id_the_newest_and_junk_is_passed_over() -> None:
    rows = tool.parse_rows(
        {
            "items": [
                {"training_run_id": "a-b-1", "created_at": 5, "status": "running"},
                None,
                7,
                {"status": "no id"},
                {"training_run_id": "../escape"},
                {"training_run_id": "My Run (2)"},
                {"run_id": "a-b-2"},
                {"training_run_id": "a-b-1", "created_at": 9, "status": "failed"},
            ]
        }
    )
    assert {run_id: tool.created_at(row) for run_id, row in rows.items()} == {
        "a-b-1": 9,
        "My Run (2)": None,
        "a-b-2": None,
    }


@pytest.mark.parametrize("summary", [None, [], {}, {"items": None}, "x", 5, {"items": {"a": 1}}])
def test_a_summary_of_any_other_shape_has_no_rows(summary: object) -> None:
    assert tool.parse_rows(summary) == {}
    assert read_rollouts(summary) == ()


def test_of_a_rollout_recorded_twice_the_newer_counts() -> None:
    def row(rollout_id: int, created_at: float, mean: float) -> dict[str, Any]:
        return {
            "training_run_id": RUN_ID,
            "rollout_id": rollout_id,
            "created_at": created_at,
            "mean": mean,
        }

    rows = [row(1, 10, 0.1), row(0, 5, 0.2), row(1, 30, 0.3), row(1, 20, 0.4)]
    found = parse_rollouts([*rows, {**rows[0], "training_run_id": "other"}])
    assert [(rollout.rollout_id, rollout.mean_reward) for rollout in found] == [(0, 0.2), (1, 0.3)]


def test_an_error_summary_is_told_by_its_verdict_and_its_counts() -> None:
    summary = {
        "remote_error": 12,
        "response_missing": 0,
        "infra_invalid": 3,
        "total_samples": 256,
        "verdict": "partial_infra_failure",
    }
    row = {"training_run_id": RUN_ID, "rollout_id": 0, "error_summary": summary}
    (rollout,) = parse_rollouts([row])
    told = "partial_infra_failure: remote_error 12, infra_invalid 3 of 256 samples"
    assert rollout.error_summary == told
    clean = {**row, "error_summary": {"remote_error": 0, "verdict": None, "total_samples": 256}}
    (rollout,) = parse_rollouts([clean])
    assert rollout.error_summary is None


SUBSTEPS = {
    "current": {"busy_duration_s": 230.0, "first_start_s": 0.0, "count": 1},
    "earlier": {"total_duration_s": 230.0, "first_start_s": 0.0, "longest_duration_s": 200.0},
    "spans": [[0.0, 200.0], [210.0, 240.0]],
}


@pytest.mark.parametrize("shape", SUBSTEPS)
def test_substep_timings_are_read_in_each_shape(shape: str) -> None:
    names = {"00000010__driver.json": 7, "pre-loop__driver.json": 9}
    assert tool.newest_timing_files(names, 2) == {10: "00000010__driver.json"}
    phases = {"weight_sync": {"busy_duration_s": 4, "first_start_s": 300}, "gen": SUBSTEPS[shape]}
    run = tool.with_timings(parse(), {10: {"final": True, "phases": phases}})
    assert run.steps == (tool.Timings(11, (("gen", 230.0), ("weight_sync", 4.0)), 234.0),)


def lane(**phases: float) -> dict[str, Any]:
    """A driver's timing record."""
    return {"final": True, "phases": {k: {"busy_duration_s": v} for k, v in phases.items()}}


def steps_of(records: dict[str, Any], **fields: Any) -> list[tuple[int, float]]:
    """The whole steps among a run's timing files, newest first, and how long each took."""
    files = tool.newest_timing_files(dict.fromkeys(records, 0), 11)
    found = {rollout_id: records[name] for rollout_id, name in files.items()}
    run = tool.with_timings(parse(**fields), found)
    return [(step.step, step.total) for step in run.steps]


def at_step(current: int, **metadata: Any) -> dict[str, Any]:
    return {"framework_progress": {"current": current}, **metadata}


def test_a_step_is_whole_once_a_later_one_has_begun_or_the_run_completed() -> None:
    records = {f"{n:08d}__driver.json": lane(train_models=40 + n) for n in range(3)}
    actors = {"00000003__actor.json": lane(forward_backward=9), "junk.json": 7}
    assert steps_of({**records, **actors}, metadata=at_step(3)) == [(2, 41), (1, 40)]
    crashed = {"status": "failed", "metadata": at_step(3)}
    assert steps_of(records, **crashed) == [(2, 41), (1, 40)]
    completed = {"status": "completed", "metadata": at_step(3)}
    assert steps_of(records, **completed) == [(3, 42), (2, 41), (1, 40)]


def test_a_step_that_the_rollouts_do_not_allow_is_not_whole_either() -> None:
    """After a resume the step can be an old one, and a crash makes its record final."""
    resumed = at_step(9, attempt_count=2, resume_from_iteration=5)
    run = parse(status="running", metadata=resumed)
    run = tool.with_timings(run, {6: lane(train_models=36), 7: lane(train_models=37)})
    borne_out = tool.step_borne_out(run, [tool.Rollout(6)])
    assert borne_out.step == tool.Step(8, None, "step")
    assert [timings.step for timings in borne_out.steps] == [7]


def test_the_steps_of_an_attempt_that_was_given_up_do_not_count() -> None:
    records = {
        "00000004__driver.json": {**lane(train_models=40), "lane_start_unix_s": 500},
        "00000005__driver.json": {**lane(train_models=30), "lane_start_unix_s": 1500},
    }
    metadata = at_step(9, attempt_count=2, last_attempt_started_at=1000)
    assert steps_of(records, metadata=metadata) == [(6, 30)]


def test_a_steps_time_leaves_out_evaluation_and_checkpoints() -> None:
    phases = {"generate_rollouts": 100.0, "checkpoint_save": 20.0, "train_models": 40.0}
    timed = lane(**phases, evaluate_rollouts=5.0, evaluate_rollouts_end=300.0)
    assert steps_of({"00000000__driver.json": timed}, metadata=at_step(2)) == [(1, 140.0)]


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("RUNNING", "running"), ("Canceled", "cancelled"), ("COMPLETED", "completed"), ("Odd", "Odd")],
)
def test_a_status_is_known_in_any_case(written: str, read_as: str) -> None:
    assert parse(status=written).status == read_as


def test_a_fraction_is_no_count() -> None:
    progress = {"current": 7.5, "total": 30.0, "rollout_id": 6}
    assert parse(metadata={"framework_progress": progress}).step == tool.Step(7, 30, "step")


@pytest.mark.parametrize(
    ("config", "wandb_ids"),
    [
        ({"wandb": {"project": "p"}}, (RUN_ID[:8],)),
        ({"wandb": {}}, ()),
        ({"metrics": {"provider": "dashboard", "project": "p"}}, ()),
        ({"metrics": {"run_id": "m1"}, "wandb": {"project": "p"}}, ("m1",)),
    ],
)
def test_a_wandb_id_is_made_up_only_for_a_wandb_block_without_one(
    config: dict[str, Any], wandb_ids: tuple[str, ...]
) -> None:
    assert parse(config=config).wandb_ids == wandb_ids


def test_a_dataset_may_be_a_file_of_prompts() -> None:
    config = {"dataset": {"name": "LocalDataset", "prompt_data": "/data/prompts.jsonl"}}
    assert parse(config=config).dataset == "/data/prompts.jsonl"


@pytest.mark.parametrize(
    ("status", "progress", "phase"),
    [
        ("initializing", {"phase": "convert_model", "is_active": False}, "convert_model"),
        ("generate_rollouts", {"phase": "optimizer_step"}, "optimizer_step"),
        ("generate_rollouts", {"phase": "download_model", "is_active": True}, "generate_rollouts"),
        ("a_new_one", {"phase": "optimizer_step"}, "a_new_one"),
        ("weight_sync", {}, "weight_sync"),
    ],
)
def test_the_phase_is_that_of_the_progress_where_the_status_lags(
    status: str, progress: dict[str, Any], phase: str
) -> None:
    run = parse(framework_status=status, metadata={"framework_progress": progress})
    assert run.phase == phase


def test_a_run_has_started_when_its_first_attempt_began() -> None:
    launch = {"created_at": 100, "started_at": 100}
    assert parse(**launch).started_at is None
    assert parse(**launch, metadata={"attempt_starts": [250, 900]}).started_at == 250


# ---- Notices and metrics ---------------------------------------------------------------------


def notice(at: float, current: int, phase: str = "optimizer_step") -> dict[str, Any]:
    progress = {"phase": phase, "current": current, "updated_at": at}
    return {"framework_progress": progress, "framework_status": phase, "updated_at": at}


def test_the_newest_notice_takes_the_place_of_the_records_own() -> None:
    record = {"metadata": notice(500, 3, "generate_rollouts"), "updated_at": 500}
    run = tool.parse_run(tool.with_updates(record, [notice(700, 5), notice(600, 4)]), RUN_ID)
    assert run.step == tool.Step(5, None, "step")
    assert (run.phase, run.last_sign) == ("optimizer_step", 700)


def test_an_older_notice_changes_nothing() -> None:
    record = {"metadata": notice(500, 3, "generate_rollouts")}
    run = tool.parse_run(tool.with_updates(record, [notice(400, 9)]), RUN_ID)
    assert (run.phase, run.step) == ("generate_rollouts", tool.Step(3, None, "step"))


def test_the_newest_notices_of_the_attempt_are_read_with_all_of_their_second() -> None:
    old = {f"{RUN_ID}__2__framework_progress__{n:032x}.json": n for n in range(90)}
    same = {f"{RUN_ID}__2__framework_progress__{n:032x}.json": 95 for n in range(100, 120)}
    before = {f"{RUN_ID}__1__framework_progress__{1:032x}.json": 99}
    names = tool.newest_updates(
        {**old, **same, **before, "junk": 99}, RUN_ID, {"metadata": {"attempt_count": 2}}
    )
    assert set(names) == set(same)


def chunk(**values: dict[str, Any]) -> dict[str, Any]:
    """A chunk by its steps, as `s3={name: (value, written)}`."""
    return {
        field: {
            step[1:]: {name: pair[at] for name, pair in logged.items()}
            for step, logged in values.items()
        }
        for at, field in enumerate(("steps", "written"))
    }


def test_of_the_copies_of_a_chunk_what_was_written_last_counts() -> None:
    first = chunk(s3={"train/loss": (0.5, 100), "dojo/tokens": (9, 100)})
    second = chunk(s3={"train/loss": (0.25, 200)}, s2={"train/loss": (0.75, 50)})
    (metric,) = tool.parse_metrics([second, first, None])
    assert metric == tool.Metric("train/loss", 0.25, 3, 200)


def test_the_newest_value_counts_however_large_it_is() -> None:
    (metric,) = tool.parse_metrics(
        [chunk(s1={"train/loss": (2.0, 1)}, s2={"train/loss": (1e17, 2)})]
    )
    assert metric == tool.Metric("train/loss", 1e17, 2, 2)


def test_the_metrics_that_are_told_are_those_that_say_whether_it_learns() -> None:
    names = (
        "eval/gsm8k/response_len/mean",
        "eval/gsm8k",
        "rollout/response_len/max",
        "rollout/response_len/mean",
        "train/kl_loss",
        "train/entropy_loss",
        "train/grad_norm",
        "train/loss",
        "perf/step_time",
    )
    metrics = tool.parse_metrics([chunk(s7=dict.fromkeys(names, (1.0, 10)))])
    assert [metric.name for metric in tool.shown_metrics(metrics)] == [
        "train/loss",
        "train/grad_norm",
        "train/entropy_loss",
        "rollout/response_len/mean",
        "eval/gsm8k",
    ]


def test_only_the_chunk_that_was_written_last_is_read_with_its_copies() -> None:
    written = {"chunk-000001-aaaa1111.json": 5, "chunk-000000-bbbb2222.json": 9, "x.json": 99}
    copies = {**written, "chunk-000000-cccc3333.json": 8}
    assert tool.newest_chunk(copies) == ("chunk-000000-bbbb2222.json", "chunk-000000-cccc3333.json")
