"""The command as a user runs it, against the local Modal and its sample gym."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import run_progress
from conftest import (
    PATIENCE,
    ROOT,
    SCRIPT,
    Follow,
    Shown,
    Tool,
    assert_none_left,
    clean_environment,
    needs_proc,
)
from gym import Gym
from local_modal import LocalApp, LocalModal, LogEntry

FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"
RECORD = f"training-runs/{FROG}.json"


def app_of(gym: Gym, name: str) -> LocalApp:
    return next(app for app in gym.apps if app.description.startswith(name))


# ---- Finding the run -------------------------------------------------------------------------

SCRAPS = (
    FROG,
    "ELASTIC-FROG",
    "frog-a1b",
    "a1b2c3d4e5f6",
    FROG_APP,
    f"https://modal.com/id/{FROG_APP}",
    "x7k2m9qp",
    "https://wandb.ai/lab/gsm8k/runs/x7k2m9qp",
)


@pytest.mark.parametrize("scrap", SCRAPS)
def test_any_scrap_of_an_id_finds_the_run(tool: Tool, scrap: str) -> None:
    shown = tool(scrap, "--no-logs", COLUMNS="20")
    assert shown.status == 0
    assert shown.line("run") == FROG
    assert shown.err == ""


def test_a_prefix_of_two_runs_lists_both_newest_first(tool: Tool, gym: Gym) -> None:
    shown = tool("amber-h", "--no-logs", COLUMNS="20")
    assert shown.status == 4
    assert shown.err == "error: 2 runs match 'amber-h': give more of the id, or the app id\n"
    heading, titles, first, second = shown.out.splitlines()
    assert heading == "Candidates"
    assert titles.split() == ["run", "status", "phase", "step", "age", "app"]
    heron, hawk = app_of(gym, "amber-heron"), app_of(gym, "amber-hawk")
    assert re.split(r"  +", first.strip())[0] == heron.description
    assert first.endswith(heron.app_id)
    assert re.split(r"  +", second.strip())[1:4] == ["stopped", "generate_rollouts", "6/50"]
    assert second.endswith(hawk.app_id)


def test_a_wandb_id_of_two_runs_lists_both(tool: Tool) -> None:
    shown = tool("hq3v8k2n", "--no-logs")
    assert shown.status == 4
    assert "amber-heron" in shown.out
    assert "amber-hawk" in shown.out


def test_more_candidates_than_fit_are_counted(server: LocalModal, tool: Tool) -> None:
    server.files.update({f"training-runs/many-{n:02}.json": b"{}" for n in range(25)})
    shown = tool("many-", "--no-logs")
    assert shown.status == 4
    assert shown.out.count("  many-") == 20
    assert shown.out.endswith("  and 5 more\n")


def test_a_misspelt_id_is_answered_with_the_nearest(tool: Tool) -> None:
    shown = tool("elastc-frog", "--no-logs")
    assert (shown.status, shown.out) == (3, "")
    assert shown.err == f"error: no run matches 'elastc-frog': did you mean {FROG}?\n"


@pytest.mark.parametrize("query", ["../elastic-frog", "*", "\x1b[31mred", "x" * 5000])
def test_a_query_is_only_ever_compared(tool: Tool, query: str) -> None:
    shown = tool(query, "--no-logs")
    assert (shown.status, shown.out) == (3, "")
    assert "\x1b" not in shown.err
    assert len(shown.err) < 250
    assert not any(query in call.subject for call in shown.calls)


def without_app_ids(server: LocalModal) -> None:
    server.files.update({f"training-runs/many-{n:03}.json": b"{}" for n in range(200)})


def records_read(shown: Shown) -> int:
    return sum(call.subject.startswith("training-runs/many-") for call in shown.calls)


@pytest.mark.parametrize("query", ["*", "%s", "frog of", "a:b"])
def test_what_can_be_no_id_is_not_looked_for_in_the_records(
    server: LocalModal, tool: Tool, query: str
) -> None:
    without_app_ids(server)
    shown = tool(query, "--no-logs")
    assert shown.status == 3
    assert f"no run matches '{query}'" in shown.err
    assert records_read(shown) == 0


def test_the_search_through_the_records_ends_with_its_time(server: LocalModal, tool: Tool) -> None:
    without_app_ids(server)
    server.fault("VolumeGetFile2", delay=0.5)
    shown = tool("elastc-frog", "--no-logs", "--timeout", "2")
    assert shown.status == 1
    assert shown.err.endswith("no run matches 'elastc-frog' in what could be read\n")
    assert 0 < records_read(shown) < 200


ODD_NAMES = ("My Run (2)", "größe 生成", "_x", "q'uo\"te\\", "a" * 240, "[red]")


def odd_names(server: LocalModal) -> None:
    record = json.loads(server.files[RECORD])
    path = "training-rollouts-summary/summary.json"
    rows = json.loads(server.files[path])["items"]
    for name in (*ODD_NAMES, "be\x07ll"):
        held = {**record, "training_run_id": name, "modal_app_id": None}
        server.files[f"training-runs/{name}.json"] = json.dumps(held).encode()
        row = {"training_run_id": name, "rollout_id": 10, "created_at": 1.0}
        rows.append(row)
    server.files[path] = json.dumps({"items": rows}).encode()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_record_of_any_name_is_found(server: LocalModal, tool: Tool, name: str) -> None:
    odd_names(server)
    shown = tool(name, "--no-logs")
    assert shown.status == 0
    assert shown.line("run") == name
    assert shown.line("latest").startswith("rollout_id 10 ")
    assert "note: records whose names can't be shown are left out: 1\n" in shown.err


def test_a_record_of_any_name_is_listed(server: LocalModal, tool: Tool) -> None:
    odd_names(server)
    shown = tool("--limit", "40")
    listed = [line.strip() for line in shown.out.splitlines()]
    for name in ODD_NAMES:
        assert any(line.startswith(f"{name}  ") for line in listed), name
    assert "\x07" not in shown.out
    assert "note: records whose names can't be shown are left out: 1\n" in shown.err


@pytest.mark.parametrize("words", [f"{FROG} --no-logs", "elastic --no-logs --json", "--limit 40"])
def test_times_that_can_t_be_read_are_told(server: LocalModal, tool: Tool, words: str) -> None:
    record = json.loads(server.files[RECORD])
    server.files[RECORD] = json.dumps({**record, "created_at": "soon", "updated_at": -5}).encode()
    shown = tool(*words.split())
    assert shown.status == 0
    assert shown.err in (
        "note: times can't be read in the record: created_at, updated_at\n",
        f"note: times can't be read in the records of {FROG}\n",
    )


def test_a_full_run_id_needs_no_summary_of_runs(tool: Tool) -> None:
    shown = tool(FROG, "--no-logs", COLUMNS="20")
    subjects = {call.subject for call in shown.calls}
    assert not {"training-runs-summary/summary.json", "training-runs"} & subjects


# ---- The blocks ------------------------------------------------------------------------------


def masked(out: str) -> str:
    """The output with its moments masked, so that one screen can be compared."""
    out = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "MOMENT", out)
    return re.sub(r"\((?:\d+d )?(?:\d+h )?(?:\d+[ms])? ago\)", "(AGE)", out)


SCREEN = (
    "Progress\n"
    "  run        elastic-frog-a1b2c3d4e5f6\n"
    "  framework  slime\n"
    "  status     running\n"
    "  phase      generate_rollouts for 22m (usually 3m 50s, longest 3m 53s over 11 steps)\n"
    "  step       12/50\n"
    "  app        ap-0123456789abcdefABCDEF · live (detached)\n"
    "  url        https://modal.com/id/ap-0123456789abcdefABCDEF\n"
    "  created    MOMENT (AGE)\n"
    "  started    MOMENT (AGE)\n"
    "  updated    MOMENT (AGE)\n"
    "  timings    step 11: generate_rollouts 3m 53s · compute_log_probs 7s"
    " · optimizer_step 10s · weight_sync 4s · total 4m 14s\n"
    "  pace       4m 12s a step (median of the last 10)\n"
    "  ⚠ POSSIBLY STUCK: the app is live but the run has recorded nothing for 22m\n"
    "\n"
    "Rollouts\n"
    "  recorded   11\n"
    "  latest     rollout_id 10 (step 11, the latest completed step)\n"
    "  reward     ▁▂▂▃▄▄▅▆▆▇█  0.1770 → 0.4120, best 0.4120 (rollout_id 10)\n"
    "  rollout_id  samples  mean reward      time\n"
    "           6      256       0.3156    3m 47s\n"
    "           7      256       0.3427    3m 52s\n"
    "           8      256       0.3578    3m 50s\n"
    "           9      256       0.3849    3m 48s\n"
    "          10      256       0.4120    3m 53s\n"
    "\n"
    "Verdict\n"
    "  stuck      step 12/50, generate_rollouts for 22m (usually 3m 50s); the app is live, "
    "and this rests on silence alone\n"
    "  modal      1 container runs\n"
)


def test_a_narrow_pipe_reads_as_designed_with_nothing_cut_or_wrapped(tool: Tool) -> None:
    shown = tool(FROG, "--no-logs", COLUMNS="20")
    assert masked(shown.out) == SCREEN


def the_word(shown: Shown) -> str:
    return shown.out.partition("\nVerdict\n  ")[2].split()[0]


# For each run of the gym: a label and what its line holds.
RUNS: dict[str, dict[str, str]] = {
    "elastic-frog": {"status": "running", "phase": "generate_rollouts", "step": "12/50"},
    "silent-mole": {"phase": "optimizer_step", "step": "17/50"},
    "patient-tortoise": {"phase": "evaluate_rollouts", "app": "live (detached)"},
    "frozen-ibex": {"stuck": "GPUs at 0 % for the last 2", "modal": "2 containers run"},
    "spinning-newt": {"stuck": "the app is live", "modal": "2 containers run"},
    "stranded-seal": {
        "waiting": "no container runs, 1 input waits for one",
        "modal": "1 container error in the last hour",
    },
    "looping-stoat": {"modal": "1 container runs; 3 container errors in the last hour"},
    "weary-bison": {"status": "running", "app": "not live (stopped 21m ago)"},
    "hungry-dingo": {"phase": "generate_rollouts", "app": "not live (stopped 21m ago)"},
    "brisk-otter": {"step": "30/100", "timings": "step 29: generate_rollouts 3m 39s"},
    "misty-falcon": {"phase": "prepare_dataset", "step": "unknown", "recorded": "0"},
    "silver-lynx": {"phase": "checkpoint_save", "app": "live"},
    "amber-heron": {"phase": "weight_sync", "step": "8/50"},
    "stubborn-mule": {"attempt": "3 (resumed from iter_0000019)", "recorded": "25"},
    "gentle-panda": {"framework": "miles", "phase": "training", "step": "7"},
    "early-wren": {"app": "none yet: the run is still queuing or in early setup"},
    "thirsty-camel": {"phase": "download_model (waiting for a GPU)"},
    "hollow-crane": {"status": "running", "app": "not live (stopped 14m ago by maya)"},
    "golden-finch": {"status": "completed", "step": "40/40", "app": "not live (stopped"},
    "swift-marten": {"status": "running", "app": "not live (stopped 3m ago)"},
    "crimson-badger": {"status": "failed", "error": "ray.exceptions.ActorDiedError"},
    "dusty-gecko": {"status": "cancelled", "reason": "stale_modal_app_terminated"},
    "amber-hawk": {"status": "stopped", "step": "6/50"},
    "lost-sparrow": {"app": "unknown (malformed app id)"},
    "6f1d2c3b-0a9e-4b57-8c1d": {"phase": "unknown", "step": "12/12", "recorded": "12"},
}
HINTS = {
    "elastic-frog": "⚠ POSSIBLY STUCK: the app is live but the run has recorded nothing for 22m",
    "silent-mole": "⚠ POSSIBLY STUCK",
    "patient-tortoise": "⚠ POSSIBLY STUCK",
    "frozen-ibex": "⚠ POSSIBLY STUCK",
    "spinning-newt": "⚠ POSSIBLY STUCK",
    "looping-stoat": "⚠ POSSIBLY STUCK",
    "weary-bison": "✗ APP DIED",
    "hungry-dingo": "✗ APP DIED",
    "hollow-crane": "✗ APP DIED: status says running, but the app stopped 14m ago; the last log",
    "swift-marten": "✓ finished: a train result is recorded; the status has not caught up",
}


@pytest.mark.parametrize("name", RUNS)
def test_each_run_of_the_gym_reads_as_it_stands_and_gets_its_verdict(
    tool: Tool, name: str, gym: Gym
) -> None:
    shown = tool(name, "--tail", "400")
    assert shown.status == 0
    for label, held in RUNS[name].items():
        assert held in shown.line(label), label
    hints = [line.strip() for line in shown.out.splitlines() if re.match(r"  [⚠✗✓] ", line)]
    assert len(hints) == (name in HINTS)
    assert all(hint.startswith(HINTS[name]) for hint in hints)
    (run,) = [run for run in gym.runs if run.run_id.startswith(name)]
    assert the_word(shown) == run.verdict


def test_every_run_of_the_gym_has_its_reading(gym: Gym) -> None:
    assert set(RUNS) == {run.run_id.rpartition("-")[0] for run in gym.runs}


def test_a_failed_run_shows_its_error_and_the_errors_of_its_rollouts(tool: Tool) -> None:
    shown = tool("crimson-badger", "--tail", "400")
    assert "\n             │ Traceback (most recent call last):\n" in shown.out
    assert "\n             │ torch.distributed.DistBackendError: NCCL" in shown.out
    (row,) = [line for line in shown.out.splitlines() if "all_infra" in line]
    expected = r" +7 +256 +nan +4m 6s  all_infra_failure: remote_error 256 of 256 samples"
    assert re.fullmatch(expected, row)


def test_a_pipe_is_coloured_only_if_forced(tool: Tool) -> None:
    shown = tool(FROG, "--no-logs", FORCE_COLOR="1", COLUMNS="20")
    assert shown.err == ""
    assert "\x1b[" in shown.out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.out)
    assert masked(re.sub(r" +\n", "\n", plain)) == SCREEN


# ---- Logs ------------------------------------------------------------------------------------


def modal_app_logs(server: LocalModal, *words: str) -> bytes:
    return subprocess.run(
        [sys.executable, "-m", "modal", "app", "logs", *words],
        env=clean_environment(server, TZ="UTC"),
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    ).stdout


def test_the_logs_are_those_of_modal_app_logs_byte_for_byte(server: LocalModal, tool: Tool) -> None:
    app = server.apps[FROG_APP]
    app.logs[:] = [replace(entry, data=entry.data.replace("\r", "")) for entry in app.logs]
    expected = modal_app_logs(server, FROG_APP, "--tail", "200", "--timestamps").decode()
    shown = tool(FROG, FORCE_COLOR="1", TZ="America/New_York")
    assert shown.status == 0
    _, _, logs = shown.out.partition(f"{FROG_APP} --tail 200 --timestamps")
    assert logs.partition("\n")[2].startswith(f"{expected}\n\x1b[1;36mVerdict")
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00 ", expected)


def test_a_log_that_moves_is_a_sign_of_life(tool: Tool) -> None:
    shown = tool("patient-tortoise", "--tail", "100")
    _, _, verdict = shown.out.partition("\nVerdict\n")
    assert "the record is silent for 17m, the log is not" in verdict
    assert re.search(r"\n  progress   Eval aime 346/480, 0\.35/s, about 6m \d+s left\n", verdict)


def many_ranks(server: LocalModal) -> LocalApp:
    """One rank runs out of memory, and then each of 64 passes on that another failed."""
    app = server.apps[FROG_APP]
    began = app.logs[-1].at - 100
    lines = ["(Actor pid=7) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"]
    for rank in range(64):
        lines += [
            f"(Actor pid={100 + rank}) Traceback (most recent call last):",
            f'(Actor pid={100 + rank})   File "/opt/train.py", line 9, in train',
            f"(Actor pid={100 + rank}) ray.exceptions.ActorDiedError: The actor died",
        ]
    app.logs[:] = [LogEntry(began + n / 10, f"{line}\n") for n, line in enumerate(lines)]
    return app


def test_a_cause_above_the_tail_is_looked_for_and_told(server: LocalModal, tool: Tool) -> None:
    at = many_ranks(server).logs[0].at
    shown = tool(FROG, "--tail", "30")
    blocker = shown.line("blocker")
    assert blocker.startswith("cuda_oom: torch.OutOfMemoryError: CUDA out of memory.")
    assert f"({datetime.fromtimestamp(at, UTC):%H:%M:%S}, above the lines shown; led to" in blocker
    _, _, logs = shown.out.partition("--tail 30 --timestamps\n")
    assert logs.partition("\n\nVerdict")[0].count("\n") == 29


def test_where_the_logs_cant_be_read_further_back_the_tail_is_judged(
    server: LocalModal, tool: Tool
) -> None:
    many_ranks(server)
    server.fault("AppFetchLogs", times=1)  # which is none
    server.fault("AppFetchLogs", hang=True)
    shown = tool(FROG, "--tail", "30", "--timeout", "4")
    assert shown.line("blocker").startswith("actor_died: ray.exceptions.ActorDiedError")
    assert shown.status == 0


def test_a_healthy_run_is_not_looked_at_further_back(server: LocalModal, tool: Tool) -> None:
    shown = tool("brisk-otter", "--tail", "20")
    assert shown.status == 0
    assert [call.method for call in server.calls].count("AppFetchLogs") == 1


def test_tail_sets_how_many_entries_are_shown(tool: Tool) -> None:
    shown = tool("elastic-frog", "--tail", "3", "-e", "main")
    _, _, logs = shown.out.partition(f"\n\nLogs: modal app logs {FROG_APP} --tail 3 --timestamps")
    assert logs.startswith(" -e main\n")
    assert logs.partition("\n\nVerdict\n")[0].count("401 Unauthorized") == 3
    fetches = [call for call in shown.calls if call.method == "AppFetchLogs"]
    # The second looks for what began before the three refusals.
    assert {fetch.request.limit for fetch in fetches} == {3, 5_000}


def test_no_logs_asks_for_none(tool: Tool) -> None:
    shown = tool(FROG, "--no-logs", COLUMNS="20")
    assert "Logs" not in shown.out
    assert not any("Logs" in call.method for call in shown.calls)


def test_a_run_without_an_app_has_no_logs_yet(tool: Tool) -> None:
    shown = tool("early-wren")
    assert shown.status == 0
    assert "\n\nLogs: none, no app yet\n\nVerdict\n  queued     no app yet, 6m" in shown.out


def test_a_malformed_app_id_never_reaches_modal(server: LocalModal, tool: Tool) -> None:
    record = json.loads(server.files[RECORD])
    server.files[RECORD] = json.dumps({**record, "modal_app_id": "--help"}).encode()
    shown = tool(FROG)
    assert shown.status == 0
    assert shown.line("app") == "unknown (malformed app id)"
    assert "Logs: none, the app id is malformed\n\nVerdict\n" in shown.out
    assert not any(call.method.startswith("App") for call in shown.calls)


def test_if_the_log_command_fails_the_blocks_stand(server: LocalModal, tool: Tool) -> None:
    server.fault("AppFetchLogs", status="INTERNAL", message="the log store is away")
    shown = tool(FROG)
    assert shown.status == 1
    assert shown.line("run") == FROG
    assert shown.err == (
        "error: could not read the logs: modal app logs failed: the log store is away\n"
    )


def test_follow_streams_until_the_app_ends(server: LocalModal, start: Follow) -> None:
    following = start(FROG, "--follow")
    following.line_with(f"Logs: modal app logs {FROG_APP} -f --timestamps")
    server.wait_for("AppGetLogs")
    server.emit(FROG_APP, "(RolloutManager pid=1188) rollout 11: fresh\n")
    following.line_with("rollout 11: fresh")
    server.finish(FROG_APP)
    assert following.end() == (0, "")


def test_follow_of_an_app_that_is_over_says_so_and_tails(tool: Tool) -> None:
    shown = tool("hollow-crane", "-f")
    assert shown.status == 0
    assert "\n  the app is not live: this is the end of its logs\nLogs: modal app logs" in shown.out
    assert "--tail 200 --timestamps\n" in shown.out
    assert "CUDA out of memory" in shown.out


# ---- Ways out --------------------------------------------------------------------------------


@needs_proc
def test_ctrl_c_while_following_ends_the_child_too(server: LocalModal, start: Follow) -> None:
    following = start(FROG, "--follow")
    following.line_with("Logs: modal app logs")
    server.wait_for("AppGetLogs")
    following.process.send_signal(signal.SIGINT)
    assert following.end() == (-signal.SIGINT, "")
    assert_none_left(server)


def test_ctrl_c_ends_the_loop_of_a_shell_too(server: LocalModal) -> None:
    server.fault("AppGetLogs", hang=True)
    loop = f"for i in 1 2; do {sys.executable} {SCRIPT} {FROG} --follow; done; echo went on"
    shell = subprocess.Popen(
        ["bash", "-c", loop],
        env=clean_environment(server),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    server.wait_for("AppGetLogs")
    os.killpg(shell.pid, signal.SIGINT)  # as a terminal does
    out, _ = shell.communicate(timeout=PATIENCE)
    assert shell.returncode in (-signal.SIGINT, 130)
    assert b"went on" not in out
    assert out.count(b"Progress") == 1


@needs_proc
def test_no_way_out_leaves_a_child_behind(server: LocalModal, start: Follow) -> None:
    ways = (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
    following = {deadly: start(FROG, "--follow") for deadly in ways}
    server.wait_for("AppGetLogs", count=len(ways))
    for deadly in ways:
        following[deadly].process.send_signal(deadly)
        assert following[deadly].end()[0] == -deadly
    assert_none_left(server)


@pytest.mark.parametrize(
    "method", ["VolumeGetOrCreate", "VolumeGetFile2", "block", "AppGetOrCreate", "AppFetchLogs"]
)
def test_ctrl_c_during_any_call_leaves_no_traceback(
    server: LocalModal, start: Follow, method: str
) -> None:
    server.fault(method, hang=True)
    following = start(FROG, *([] if method == "AppFetchLogs" else ["--no-logs"]))
    server.wait_for(method)
    following.process.send_signal(signal.SIGINT)
    assert following.end() == (-signal.SIGINT, "")


def test_a_reader_that_has_enough_is_no_error(server: LocalModal) -> None:
    line = f"{sys.executable} {SCRIPT} {FROG} --tail 20 | head -3"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        env=clean_environment(server),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.decode().splitlines()[0] == "Progress"
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_is_gone_from_the_start_is_no_error(start: Follow) -> None:
    following = start(FROG, "--tail", "20")
    following.out.close()
    assert following.process.wait(PATIENCE) == 0
    assert following.err.read() == b""


# ---- The command line ------------------------------------------------------------------------


@pytest.fixture
def no_modal(tmp_path: Path) -> dict[str, str]:
    """An environment in which importing modal is an error."""
    (tmp_path / "modal.py").write_text("raise RuntimeError('modal was imported')\n")
    return {"PYTHONPATH": str(tmp_path)}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("",), "RUN is empty"),
        (("--follow",), "RUN is missing"),
        (("--tail", "5"), "RUN is missing"),
        (("a", "--limit", "5"), "--limit goes with the list"),
        (("a", "--watch", "--no-logs"), "not allowed with"),
        (("a", "--interval", "5"), "--interval goes with --watch"),
        (("a", "--watch", "--interval", "1"), "a number from 2 to 86,400"),
        (("a", "b"), "unrecognized arguments: b"),
        (("a", "--tail", "0"), "a number from 1 to 20,000"),
        (("a", "--tail", "20001"), "a number from 1 to 20,000"),
        (("a", "--tail", "00000000010000000"), "a number from 1 to 20,000"),
        (("https://",), "RUN is empty"),
        (("a", "--tail", "many"), "a number from 1 to 20,000"),
        (("a", "--tail", "٣"), "a number from 1 to 20,000"),
        (("a", "--tail", "1_0"), "a number from 1 to 20,000"),
        (("a", "--timeout", "1_0.5"), "a number from 0.1 to 86,400"),
        (("a", "--timeout", "nan"), "a number from 0.1 to 86,400"),
        (("--limit", "１"), "a number from 1 to 20,000"),
        (("\udcff\udcfe",), "RUN is empty, or can't be printed"),
        (("\x01 \x1b[2J",), "RUN is empty, or can't be printed"),
        (("a", "--tail", "5", "--no-logs"), "not allowed with"),
        (("a", "--tail", "5", "-f"), "not allowed with"),
        (("a", "--follow", "--no-logs"), "not allowed with"),
        (("a", "--timeout", "0"), "a number from 0.1 to 86,400"),
        (("a", "--wat"), "unrecognized arguments: --wat"),
    ],
)
def test_a_wrong_command_line_is_told(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(run_progress.ProgressError) as raised:
        run_progress.parse_arguments(words)
    assert raised.value.kind == "usage"
    assert re.fullmatch(f".*{told}.*; see run_progress.py --help", str(raised.value))


def test_a_wrong_command_line_is_told_before_modal_is_imported(
    fresh_tool: Tool, no_modal: dict[str, str]
) -> None:
    shown = fresh_tool("a", "--tail", "0", **no_modal)
    assert (shown.status, shown.out) == (2, "")
    assert shown.err == (
        "error: argument -n/--tail: it must be a number from 1 to 20,000; "
        "see run_progress.py --help\n"
    )


def test_help_is_the_files_own_description(fresh_tool: Tool, no_modal: dict[str, str]) -> None:
    shown = fresh_tool("--help", **no_modal)
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.rstrip() in SCRIPT.read_text()
    for flag in ("--tail N", "--no-logs", "-f, --follow", "-e, --env ENV", "--timeout S"):
        assert flag in shown.out


def test_help_needs_no_docstrings_in_memory(fresh_tool: Tool) -> None:
    done = subprocess.run(
        [sys.executable, "-OO", str(SCRIPT), "-h"],
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.strip() == fresh_tool("-h").out.strip()


def test_a_modal_that_is_too_old_gets_one_line(fresh_tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "modal.py").write_text("__version__ = '1.3.9'\n")
    shown = fresh_tool(FROG, PYTHONPATH=str(tmp_path))
    assert (shown.status, shown.out) == (1, "")
    assert shown.err == (
        f"error: found modal 1.3.9; it needs 1.5.0 or newer: `uv run {SCRIPT} …` brings its own\n"
    )


def test_a_modal_that_is_missing_gets_one_line(fresh_tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "modal.py").write_text("raise ImportError('No module named modal')\n")
    shown = fresh_tool(FROG, PYTHONPATH=str(tmp_path))
    assert (shown.status, shown.out, shown.err.count("\n")) == (1, "", 1)
    assert "`uv run" in shown.err


# ---- It only reads ---------------------------------------------------------------------------

LOOK_UPS = {
    "VolumeGetOrCreate",
    "VolumeGetFile2",
    "VolumeListFiles2",
    "block",
    "AppGetOrCreate",
    "AppGetLifecycle",
    "AppFetchLogs",
    "AppGetLogs",
    "AppList",
    "AuthTokenGet",
    "AppGetInfo",
    "FunctionCallFetch",
    "FunctionGetById",
    "FunctionGetCurrentStats",
    "FunctionGetMetrics",
    "FunctionGetTimeRangeStats",
    "TaskList",
}


@pytest.mark.parametrize("query", ["elastic-frog", "amber-h", "weary-bison"])
def test_no_call_but_look_ups_is_ever_made(server: LocalModal, tool: Tool, query: str) -> None:
    server.finish(FROG_APP)
    shown = tool(query, "--follow")
    assert {call.method for call in shown.calls} <= LOOK_UPS
    for call in shown.calls:
        assert not getattr(call.request, "object_creation_type", 0)
        assert not call.subject.startswith("framework-status-tokens")


# ---- The demo --------------------------------------------------------------------------------


def demo(*words: str) -> Shown:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "demo.py"), *words],
        env={name: value for name, value in os.environ.items() if name != "FORCE_COLOR"},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return Shown(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_the_demo_shows_a_run_with_its_logs() -> None:
    shown = demo("elastic-frog", "--tail", "2")
    assert shown.status == 0
    assert shown.line("run") == FROG
    assert "401 Unauthorized" in shown.out


def test_the_demo_without_a_run_lists_those_worth_trying(gym: Gym) -> None:
    shown = demo()
    assert shown.status == 0
    for run in gym.runs:
        assert run.about in shown.out
