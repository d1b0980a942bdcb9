"""The newest gym's own files, read right: its release and its next layout, on either volume."""

import json
import re
import time
from typing import Any

import pytest

from conftest import Shown, Tool
from dojo import NEW_VOLUME, OLD_VOLUME, Layout, dojo
from local_modal import LocalModal

NO_LOGS = "--no-logs"


def replayed(server: LocalModal, layout: Layout, volume: str = NEW_VOLUME) -> None:
    """A layout's volume as of now, under the name that the test asks for."""
    if volume == NEW_VOLUME:  # as where an older gym never was
        server.volumes.pop(OLD_VOLUME)
    dojo(layout, time.time()).install(server, volume)


STANDING = [
    ("release", "queued-quail", "waiting", {"phase": "download_model (waiting for a GPU)"}),
    ("release", "spawned-swan", "waiting", {"phase": "convert_model is over; the training is sub"}),
    ("release", "building-bee", "queued", {"phase": "initializing", "app": "none yet"}),
    ("release", "orphan-owl", "cancelled", {"reason": "stale_pre_active_no_modal_app"}),
    (
        "release",
        "rolling-raven",
        "running",
        {
            "step": "8/40",
            "phase": "generate_rollouts for ",
            "recorded": "7",
            "latest": "rollout_id 6 (step 7, the latest completed step)",
            "timings": "step 7: generate_rollouts 3m 24s · offload_rollout 3s · train_models 37s",
            "pace": "4m 7s a step",
            "metrics": "train/loss 0.1143 · rollout/response_len/mean 160 (step 6)",
        },
    ),
    (
        "release",
        "evaluating-eagle",
        "running",
        {
            "step": "5/30",
            "phase": "evaluate_rollouts for ",
            "latest": "rollout_id 4 (step 5, trained, and evaluated now)",
        },
    ),
    ("release", "retrying-robin", "retrying", {"step": "6/20", "status": "failed"}),
    (
        "release",
        "resumed-rook",
        "running",
        {
            "step": "7/30",
            "attempt": "2 (resumed from iter_0000004)",
            "recorded": "7",
            "latest": "rollout_id 6 (step 7, not completed yet)",
            "timings": "step 6: ",
        },
    ),
    ("release", "schooled-sparrow", "running", {"step": "25/60", "recorded": "25"}),
    ("release", "async-auk", "running", {"step": "6/20 (asynchronous: it may be one ahead of"}),
    ("release", "done-dove", "completed", {"step": "6/6", "timings": "step 6: "}),
    ("release", "miles-magpie", "running", {"step": "3/12", "phase": "weight_sync for "}),
    ("next", "queued-quail", "waiting", {"phase": "download_model (waiting for a GPU)"}),
    ("next", "rolling-raven", "running", {"step": "8/40", "recorded": "7", "timings": "step 7: "}),
    (
        "next",
        "resumed-rook",
        "running",
        {
            "step": "7/30",
            "phase": "optimizer_step for ",
            "recorded": "7",
            "latest": "rollout_id 6 (step 7, not completed yet)",
        },
    ),
    ("next", "gateway-gecko", "serving", {"phase": "serving for "}),
]


@pytest.mark.parametrize("volume", [NEW_VOLUME, OLD_VOLUME])
@pytest.mark.parametrize(("layout", "run"), [(layout, run) for layout, run, *_ in STANDING])
def test_a_run_of_the_newest_gym_reads_as_it_stands(
    server: LocalModal, tool: Tool, layout: Layout, run: str, volume: str
) -> None:
    replayed(server, layout, volume)
    shown = tool(run, NO_LOGS)
    ((word, lines),) = [(word, lines) for *key, word, lines in STANDING if key == [layout, run]]
    assert (shown.status, shown.err) == (0, "")
    assert shown.lines(word)
    for label, value in lines.items():
        assert shown.line(label).startswith(value), label
    assert "incomplete" not in shown.out
    assert "POSSIBLY STUCK" not in shown.out


def told(shown: Shown) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shown.out)
    return found


def test_a_submitted_run_waits_for_its_gpus(server: LocalModal, tool: Tool) -> None:
    replayed(server, "release")
    shown = tool("spawned-swan", NO_LOGS)
    assert shown.line("waiting").startswith(
        "the training is submitted and waits for its GPUs for 2"
    )


def test_a_failed_attempt_under_a_live_app_may_be_tried_again(
    server: LocalModal, tool: Tool
) -> None:
    replayed(server, "release")
    shown = tool("retrying-robin", NO_LOGS)
    verdict = shown.line("retrying")
    assert verdict.startswith(
        "step 6/20; attempt 1 failed 4m ago; the app is live, so Modal may start it again"
    )
    assert "torch.OutOfMemoryError: CUDA out of memory" in verdict
    assert shown.line("timings").startswith("step 5: ")  # the crash left a final lane of step 6


def test_fine_tuning_has_no_reward(server: LocalModal, tool: Tool) -> None:
    replayed(server, "release")
    shown = tool("schooled-sparrow", NO_LOGS, "--json")
    assert told(shown)["run"]["kind"] == "sft"
    assert {rollout["mean_reward"] for rollout in told(shown)["rollouts"]["last"]} == {None}


def test_no_reward_of_fine_tuning_is_shown(server: LocalModal, tool: Tool) -> None:
    replayed(server, "release")
    shown = tool("schooled-sparrow", NO_LOGS)
    assert "reward" not in shown.out


@pytest.mark.parametrize(
    ("phase", "words"), [("weight_sync", "training"), ("generate_rollouts", "preparing a batch")]
)
def test_fine_tuning_has_phases_of_its_own(
    server: LocalModal, tool: Tool, phase: str, words: str
) -> None:
    replayed(server, "release")
    path = "training-runs/schooled-sparrow-60718293a4b5.json"
    files = server.volumes[NEW_VOLUME]
    record = json.loads(files[path])
    record["metadata"]["framework_progress"]["phase"] = phase
    files[path] = json.dumps(record).encode()
    shown = tool("schooled-sparrow", NO_LOGS)
    assert shown.line("phase").startswith(f"{words} for ")
    assert f"step 25/60, {words} for " in shown.line("running")


def test_a_gateway_has_no_step(server: LocalModal, tool: Tool) -> None:
    replayed(server, "next")
    shown = tool("gateway-gecko", NO_LOGS)
    assert not shown.lines("step")
    assert re.fullmatch("serving for [23]h .*m; the app is live", shown.line("serving"))


@pytest.mark.parametrize(
    ("layout", "query", "run_id"),
    [
        ("release", "fc-asyncauk718293a4b5c601", "async-auk-718293a4b5c6"),
        ("release", "resumed-rook-5f60718293a4-a2", "resumed-rook-5f60718293a4"),
        ("release", "lr-sweep-7f3a", "rolling-raven-3d4e5f607182"),
        ("next", "qwen3-30b-a3b-tinker", "gateway-gecko-4f5061728394"),
        ("next", "ap-rollingraven281706f5e4", "rolling-raven-281706f5e4d3"),
    ],
)
def test_a_run_is_found_by_all_that_names_it(
    server: LocalModal, tool: Tool, layout: Layout, query: str, run_id: str
) -> None:
    replayed(server, layout)
    shown = tool(query, NO_LOGS)
    assert (shown.status, shown.line("run")) == (0, run_id)
    assert shown.err == ""  # in the next layout, the summary of all runs has stopped growing


# ---- Two volumes -----------------------------------------------------------------------------


def both(server: LocalModal) -> None:
    dojo("release", time.time()).install(server, NEW_VOLUME)


@pytest.mark.parametrize("query", ["elastic-frog", "rolling-raven", "ap-asyncauk718293a4b5c601"])
def test_a_run_is_read_from_the_volume_that_has_its_record(
    server: LocalModal, tool: Tool, query: str
) -> None:
    both(server)
    shown = tool(query, NO_LOGS)
    assert (shown.status, shown.err) == (0, "")
    assert shown.line("step") in (
        "12/50",
        "8/40",
        "6/20 (asynchronous: it may be one ahead of the training)",
    )


def test_ids_are_matched_over_both_volumes(server: LocalModal, tool: Tool) -> None:
    both(server)
    shown = tool("mi", NO_LOGS)
    assert shown.status == 4
    assert "miles-magpie-d7e8f9a0b1c2" in shown.out
    assert "misty-falcon-e47a0b6c18d3" in shown.out


def test_where_neither_volume_is_there_both_are_named(server: LocalModal, tool: Tool) -> None:
    server.volumes.clear()
    shown = tool("elastic-frog", NO_LOGS)
    assert (shown.status, shown.out, shown.err.count("\n")) == (1, "", 1)
    assert f"'{NEW_VOLUME}' not found" in shown.err
    assert f"'{OLD_VOLUME}' not found" in shown.err
    created = [call.request.object_creation_type for call in shown.calls]
    assert set(created) == {0}


def test_another_volume_can_be_named(server: LocalModal, tool: Tool) -> None:
    server.volumes["a-copy"] = server.volumes.pop(OLD_VOLUME)
    shown = tool("elastic-frog", NO_LOGS, "--volume", "a-copy")
    assert (shown.status, shown.line("step")) == (0, "12/50")


# ---- What is asked for, and what is not -----------------------------------------------------


def fetched(shown: Shown) -> list[str]:
    return [call.subject for call in shown.calls if call.method == "VolumeGetFile2"]


def test_the_shared_summary_is_not_asked_for_a_run_with_its_own(
    server: LocalModal, tool: Tool
) -> None:
    replayed(server, "release")
    shown = tool("rolling-raven-3d4e5f607182", NO_LOGS)
    assert "training-rollouts-summary/summary.json" not in fetched(shown)


def test_a_scrap_that_the_names_settle_needs_no_summary(server: LocalModal, tool: Tool) -> None:
    replayed(server, "release")
    shown = tool("rolling", NO_LOGS)
    assert "training-runs-summary/summary.json" not in fetched(shown)


def migrated(server: LocalModal) -> None:
    """A run whose first rollouts are rows of the old summary, and the others its own."""
    replay = dojo("release", time.time())
    run_id = "rolling-raven-3d4e5f607182"
    own = f"training-rollouts-summary/{run_id}/summary.json"
    rows = replay.files[own]["items"]
    replay.files[own]["items"] = rows[3:]
    replay.files["training-rollouts-summary/summary.json"] = {
        "items": [{**row, "mean": 0.75} for row in rows[:4]]
    }
    replay.install(server)


def test_the_shared_summary_adds_only_rows_that_the_runs_own_lacks(
    server: LocalModal, tool: Tool
) -> None:
    migrated(server)
    shown = tool("rolling-raven", NO_LOGS, "--json")
    rollouts = told(shown)["rollouts"]
    assert rollouts["recorded"] == 7
    assert [rollout["mean_reward"] for rollout in rollouts["last"]][:2] == [0.75, 0.0]


def test_a_file_for_each_rollout_is_read_too(server: LocalModal, tool: Tool) -> None:
    # Each rollout's row in a file of its own.
    replay = dojo("next", time.time())
    run_id = "rolling-raven-281706f5e4d3"
    for row in replay.files.pop(f"training-rollouts-summary/{run_id}/summary.json")["items"]:
        path = f"training-rollouts-summary/{run_id}__{row['rollout_id']:08d}.json"
        replay.files[path] = row
    replay.install(server)
    shown = tool("rolling-raven-281706f5e4d3", NO_LOGS)
    assert (shown.status, shown.line("recorded")) == (0, "7")
    assert "incomplete" not in shown.out


def test_updates_that_hang_leave_the_record_to_be_shown(server: LocalModal, tool: Tool) -> None:
    dojo("next", time.time()).install(server)
    server.fault("VolumeListFiles2", subject="training-run-updates", hang=True)
    shown = tool("rolling-raven", NO_LOGS, "--timeout", "3")
    assert shown.status == 1
    assert shown.line("run") == "rolling-raven-281706f5e4d3"
    assert "could not read training-run-updates/: no answer within" in shown.err


def test_a_state_that_this_sdk_does_not_know_makes_the_app_unknown(
    server: LocalModal, tool: Tool
) -> None:
    server.apps["ap-0123456789abcdefABCDEF"].state = "derived"  # type: ignore[assignment]
    shown = tool("elastic-frog", NO_LOGS)
    assert shown.status == 1
    assert shown.line("app").startswith("ap-0123456789abcdefABCDEF · unknown (KeyError: ")


# ---- Attempts, results, batches --------------------------------------------------------------


def change(server: LocalModal, run_id: str, **fields: Any) -> None:
    files = server.volumes[NEW_VOLUME]
    path = f"training-runs/{run_id}.json"
    files[path] = json.dumps({**json.loads(files[path]), **fields}).encode()


def turned_back(server: LocalModal) -> None:
    replayed(server, "release")
    change(server, "done-dove-8293a4b5c6d7", status="running", ended_at=None, completed_at=None)


def test_a_late_notice_does_not_hide_that_a_run_completed(server: LocalModal, tool: Tool) -> None:
    turned_back(server)
    shown = tool("done-dove", NO_LOGS)
    assert shown.line("completed") == "step 6/6; a train result is recorded"
    assert "✓ finished" in shown.out


def batch_sizes(server: LocalModal) -> None:
    """The automatic batch size met an OOM, and began a smaller one since."""
    replayed(server, "release")
    run_id, app_id = "rolling-raven-3d4e5f607182", "ap-rollingraven3d4e5f6071"
    record = json.loads(server.volumes[NEW_VOLUME][f"training-runs/{run_id}.json"])
    now = time.time()
    record["metadata"]["batch_size_inference"] = {
        "knob": "max_tokens_per_gpu",
        "attempts": [
            {"value": 16384, "outcome": "oom", "started_at": now - 300},
            {"value": 8192, "outcome": "running", "started_at": now - 3},
        ],
    }
    change(server, run_id, metadata=record["metadata"])
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 58.15 GiB.\n"
    app = server.apps[app_id]
    app.logs.append(type(app.logs[0])(now - 5, line))


def test_an_oom_that_a_smaller_batch_has_dealt_with_is_no_blocker(
    server: LocalModal, tool: Tool
) -> None:
    batch_sizes(server)
    shown = tool("rolling-raven")
    assert shown.line("batch") == "max_tokens_per_gpu 16384 oom → 8192 running"
    assert not shown.lines("blocker")


def diverged(server: LocalModal) -> None:
    replayed(server, "release")
    run_id = "rolling-raven-3d4e5f607182"
    files = server.volumes[NEW_VOLUME]
    (path,) = [path for path in files if path.startswith(f"metric-series/{run_id}/")]
    chunk = json.loads(files[path])
    chunk["steps"]["6"]["train/loss"] = float("nan")
    files[path] = json.dumps(chunk).encode()


def test_a_loss_that_is_nan_is_shown_and_told_in_the_verdict(
    server: LocalModal, tool: Tool
) -> None:
    diverged(server)
    shown = tool("rolling-raven", NO_LOGS)
    assert shown.line("metrics").startswith("train/loss nan · ")
    assert shown.line("running").endswith("train/loss is not finite")


def test_what_is_not_finite_is_a_word_in_json(server: LocalModal, tool: Tool) -> None:
    diverged(server)
    shown = tool("rolling-raven", NO_LOGS, "--json")
    assert told(shown)["metrics"]["train/loss"]["value"] == "nan"
    assert told(shown)["metrics"]["train/loss"]["step"] == 6


def from_scratch(server: LocalModal, resumed: bool | None) -> None:
    """Rollouts 0 to 29, a minute each, of an attempt that was given up; then 0 to 5, slow ones."""
    replayed(server, "release")
    run_id, now = "rolling-raven-3d4e5f607182", time.time()
    began = now - 6 * 1200 - 960
    old = [(number, began - 18_000 + 60 * number, 0.9) for number in range(6, 30)]
    new = [(number, began + 1200 * (number + 1), 0.25) for number in range(6)]
    rows = [
        {"training_run_id": run_id, "rollout_id": n, "created_at": at, "total": 8, "mean": mean}
        for n, at, mean in (*new, *old)
    ]
    path = f"training-rollouts-summary/{run_id}/summary.json"
    server.volumes[NEW_VOLUME][path] = json.dumps({"items": rows}).encode()
    progress = {"phase": "generate_rollouts", "current": 7, "total": 50, "updated_at": now - 960}
    metadata = {
        "framework_progress": progress,
        "attempt_count": 2,
        "last_attempt_started_at": began,
        "resumed_from_checkpoint": resumed,
        "latest_rollout": {"rollout_id": 29, "mean": 0.9, "created_at": began - 16_000},
    }
    change(server, run_id, metadata=metadata, updated_at=now - 960)


@pytest.mark.parametrize("resumed", [False, None])
def test_what_an_attempt_that_was_given_up_recorded_counts_for_nothing(
    server: LocalModal, tool: Tool, resumed: bool | None
) -> None:
    from_scratch(server, resumed)
    shown = tool("rolling-raven", NO_LOGS)
    assert shown.line("step") == "7/50"
    assert shown.line("pace").startswith("20m 0s a step")
    assert shown.line("latest") == "rollout_id 5 (step 6, the latest completed step)"
    assert shown.line("recorded") == "6"
    assert "0.2500 → 0.2500" in shown.line("reward")
    assert "incomplete" not in shown.out
    assert shown.lines("slow") == []


def prepare(server: LocalModal, **progress: Any) -> None:
    dojo("release", time.time()).install(server)
    metadata = {"framework_progress": {"updated_at": time.time() - 900, **progress}}
    change(
        server, "queued-quail-0a1b2c3d4e5f", metadata=metadata, framework_status=progress["phase"]
    )


def test_preparing_the_dataset_is_never_a_queue(server: LocalModal, tool: Tool) -> None:
    prepare(server, phase="prepare_dataset", is_active=False)
    assert not tool("queued-quail", NO_LOGS).lines("waiting")


def test_a_mark_of_no_phase_is_a_queue(server: LocalModal, tool: Tool) -> None:
    prepare(server, phase=None, is_active=False)
    assert tool("queued-quail", NO_LOGS).line("waiting").startswith("phase unknown waits for a GPU")


def about_to_go_on(server: LocalModal) -> None:
    """The second attempt has only read its checkpoint: the step is still the last one's."""
    replayed(server, "release")
    run_id = "resumed-rook-5f60718293a4"
    files = server.volumes[NEW_VOLUME]
    metadata = json.loads(files[f"training-runs/{run_id}.json"])["metadata"]
    metadata["framework_progress"] |= {
        "current": 5,
        "rollout_id": 4,
        "phase": "initialize_rollouts",
    }
    change(server, run_id, metadata=metadata)
    path = f"training-rollouts-summary/{run_id}/summary.json"
    rows = json.loads(files[path])["items"]
    before = metadata["last_attempt_started_at"] - 60
    rows = [{**row, "created_at": min(row["created_at"], before)} for row in rows]
    files[path] = json.dumps({"items": rows}).encode()


def test_the_step_that_an_attempt_goes_on_from_is_completed(server: LocalModal, tool: Tool) -> None:
    about_to_go_on(server)
    shown = tool("resumed-rook", NO_LOGS)
    assert shown.line("step") == "5/30"
    assert shown.line("latest") == "rollout_id 4 (step 5, the latest completed step)"
    assert shown.line("recorded") == "5"


def test_an_asynchronous_step_is_not_called_completed_too_soon(
    server: LocalModal, tool: Tool
) -> None:
    # The next rollout has landed while its step still trains.
    replayed(server, "release")
    run_id = "async-auk-718293a4b5c6"
    metadata = json.loads(server.volumes[NEW_VOLUME][f"training-runs/{run_id}.json"])["metadata"]
    metadata["framework_progress"] |= {"phase": "generate_rollouts", "current": 7, "rollout_id": 6}
    change(server, run_id, metadata=metadata)
    shown = tool("async-auk", NO_LOGS)
    assert shown.line("latest") == "rollout_id 5 (step 6, whose training may not be over)"


def again_from_scratch(server: LocalModal) -> None:
    replayed(server, "release")
    run_id = "resumed-rook-5f60718293a4"
    record = json.loads(server.volumes[NEW_VOLUME][f"training-runs/{run_id}.json"])
    now = time.time()
    progress = {"phase": "download_model", "updated_at": now - 25}
    metadata = {
        "attempt_count": 2,
        "attempt_starts": [record["created_at"], now - 30],
        "last_attempt_started_at": now - 30,
        "resumed_from_checkpoint": False,
        "framework_progress": progress,
    }
    change(server, run_id, metadata=metadata, framework_status="download_model")


def test_an_attempt_from_scratch_has_nothing_of_the_one_before(
    server: LocalModal, tool: Tool
) -> None:
    again_from_scratch(server)
    shown = tool("resumed-rook", NO_LOGS)
    assert shown.line("recorded") == "0"
    assert [shown.lines(label) for label in ("latest", "metrics", "timings", "pace")] == [[]] * 4


@pytest.mark.parametrize("held", ["done-dove-8293a4b5c6d7", "summary"])
def test_a_result_that_only_a_cache_tells_of_counts(
    server: LocalModal, tool: Tool, held: str
) -> None:
    turned_back(server)
    files = server.volumes[NEW_VOLUME]
    run_id = "done-dove-8293a4b5c6d7"
    content = files.pop(f"train-results/{run_id}.json")
    files.pop("train-results-summary/summary.json", None)
    if held == "summary":
        content = json.dumps({"items": [{"training_run_id": run_id}]}).encode()
    files[f"train-results-summary/{held}.json"] = content
    shown = tool("done-dove", NO_LOGS)
    assert shown.lines("completed")


def test_the_list_says_what_the_run_says_of_itself(server: LocalModal, tool: Tool) -> None:
    replayed(server, "release")
    shown = tool("--json")
    rows: list[dict[str, Any]] = json.loads(shown.out)
    words = {row["id"].rpartition("-")[0]: row["verdict"] for row in rows}
    assert words == {run: word for layout, run, word, _ in STANDING if layout == "release"}


def test_a_run_whose_record_cant_be_read_is_listed_from_its_own_row(
    server: LocalModal, tool: Tool
) -> None:
    replayed(server, "next")
    files = server.volumes[NEW_VOLUME]
    (path,) = [path for path in files if path.startswith("training-runs/rolling-raven")]
    files[path] = files[path][:14]
    shown = tool("--json")
    assert shown.status == 1
    assert "could not read training-runs/rolling-raven-281706f5e4d3.json: not JSON" in shown.err
    rows: list[dict[str, Any]] = json.loads(shown.out)
    (row,) = [row for row in rows if row["id"].startswith("rolling-raven")]
    assert row["status"] == "running"


def test_lost_rows_do_not_make_a_healthy_run_slow(server: LocalModal, tool: Tool) -> None:
    # The run's summary has collapsed to its first rows; its files are all there.
    replayed(server, "release")
    files = server.volumes[NEW_VOLUME]
    path = "training-rollouts-summary/rolling-raven-3d4e5f607182/summary.json"
    files[path] = json.dumps({"items": json.loads(files[path])["items"][:3]}).encode()
    for name in files:
        server.mtimes[name] = int(time.time()) - 60
    shown = tool("rolling-raven", NO_LOGS)
    assert shown.lines("running")
    assert shown.line("recorded") == "7"
    assert shown.line("note").startswith(
        "figures are incomplete: the rollouts summary lacks rows up to rollout_id 6"
    )


def test_a_run_that_has_recorded_rollouts_waits_for_no_gpus(server: LocalModal, tool: Tool) -> None:
    replayed(server, "release")
    run_id = "spawned-swan-1b2c3d4e5f60"
    rows = [{"training_run_id": run_id, "rollout_id": n, "created_at": time.time()} for n in (0, 1)]
    path = f"training-rollouts-summary/{run_id}/summary.json"
    server.volumes[NEW_VOLUME][path] = json.dumps({"items": rows}).encode()
    change(server, run_id, metadata=None)
    shown = tool("spawned-swan", NO_LOGS)
    assert shown.line("recorded") == "2"
    assert not shown.lines("waiting")
