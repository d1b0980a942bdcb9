"""What can't be read is named, what can is shown, and the exit status tells."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PATIENCE, SCRIPT, Tool, clean_environment
from local_modal import LocalModal

FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"
RECORD = f"training-runs/{FROG}.json"
RUNS_SUMMARY = "training-runs-summary/summary.json"
ROLLOUTS_SUMMARY = "training-rollouts-summary/summary.json"
NO_LOGS = "--no-logs"


# ---- Modal, the token, the volume ------------------------------------------------------------


@pytest.mark.parametrize("name", ["MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"])
def test_a_missing_or_wrong_token_is_told_with_the_next_step(tool: Tool, name: str) -> None:
    for token in ("", "ak-wrong"):
        shown = tool(FROG, **{name: token})
        assert (shown.status, shown.out) == (1, "")
        assert re.fullmatch(r"error: Modal does not accept the token: .*\n", shown.err)
        assert "run `modal token new`" in shown.err


def test_a_missing_volume_is_told(tool: Tool, server: LocalModal) -> None:
    with LocalModal(volume="another") as other:
        shown = tool(FROG, MODAL_SERVER_URL=other.env["MODAL_SERVER_URL"])
    assert (shown.status, shown.out, shown.err.count("\n")) == (1, "", 1)
    assert "'training-gym-metadata' not found" in shown.err
    assert "check -e/--env" in shown.err


def test_a_missing_environment_is_told(tool: Tool) -> None:
    shown = tool(FROG, "-e", "nowhere")
    assert (shown.status, shown.out, shown.err.count("\n")) == (1, "", 1)
    assert "nowhere" in shown.err


def test_a_server_that_can_t_be_reached_is_told_in_time(tool: Tool, server: LocalModal) -> None:
    server.stop()
    shown = tool(FROG, "--timeout", "1")
    assert (shown.status, shown.out) == (1, "")
    assert (
        shown.err == "error: Modal did not answer within 1 s; check the network, then try again\n"
    )


# ---- The record and the summary of runs ------------------------------------------------------


def test_without_its_record_a_run_is_shown_from_its_row(tool: Tool, server: LocalModal) -> None:
    del server.files[RECORD]
    for query in (FROG, "elastic-frog"):
        shown = tool(query, NO_LOGS)
        assert shown.status == 1
        assert shown.line("step") == "12/50"
        assert shown.line("source") == (
            "the record could not be read (it does not exist): this is its row in the runs "
            "summary, which may lag"
        )


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (b"{", "not JSON"),
        (b"[1, 2]", "not a record but a list"),
        (b"null", "not a record but a NoneType"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"1" * 5000, "not JSON"),
        (b"", "not JSON"),
    ],
)
def test_a_record_that_is_none_gives_way_to_its_row(
    tool: Tool, server: LocalModal, record: bytes, why: str
) -> None:
    server.files[RECORD] = record
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert shown.line("step") == "12/50"
    assert why in shown.line("source")
    assert "which may lag" in shown.line("source")
    assert shown.err.startswith("error: could not read the record: ")


def test_without_record_and_row_there_is_nothing_to_show(tool: Tool, server: LocalModal) -> None:
    server.files[RECORD] = b"{"
    server.files[RUNS_SUMMARY] = b'{"items": []}'
    shown = tool(FROG, NO_LOGS)
    assert (shown.status, shown.out) == (1, "")
    assert f"error: could not read {RECORD}: not JSON" in shown.err


def test_the_record_counts_and_not_its_row_which_may_lag(tool: Tool, server: LocalModal) -> None:
    record = json.loads(server.files[RECORD])
    record["framework_status"] = "weight_sync"
    server.files[RECORD] = json.dumps(record).encode()
    assert tool("elastic-frog", NO_LOGS).line("phase") == "weight_sync"


@pytest.mark.parametrize("summary", [None, "half", b"[7]", b"null", b""])
def test_a_broken_summary_of_runs_costs_only_a_line(
    tool: Tool, server: LocalModal, summary: bytes | str | None
) -> None:
    whole = server.files.pop(RUNS_SUMMARY)
    if summary is not None:
        server.files[RUNS_SUMMARY] = (
            whole[: len(whole) // 2] if isinstance(summary, str) else summary
        )
    shown = tool("elastic-frog", NO_LOGS)
    assert shown.status == 0
    assert shown.line("run") == FROG
    assert re.fullmatch(r"note: the runs summary is (unreadable|incomplete).*\n", shown.err)


@pytest.mark.parametrize("query", [FROG_APP, "x7k2m9qp"])
def test_a_run_without_a_row_is_found_by_what_its_record_holds(
    tool: Tool, server: LocalModal, query: str
) -> None:
    server.files[RUNS_SUMMARY] = b'{"items": []}'
    shown = tool(query, NO_LOGS)
    assert (shown.status, shown.line("run")) == (0, FROG)


# ---- Rollouts --------------------------------------------------------------------------------


@pytest.mark.parametrize("summary", [None, b"{", b'{"items": []}'])
def test_without_their_summary_rollouts_are_counted_by_their_files(
    tool: Tool, server: LocalModal, summary: bytes | None
) -> None:
    del server.files[ROLLOUTS_SUMMARY]
    if summary is not None:
        server.files[ROLLOUTS_SUMMARY] = summary
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 0
    assert shown.line("recorded") == "11"
    assert shown.line("latest").startswith("rollout_id 10 (step 11")
    assert shown.line("note").startswith("figures are incomplete: the rollouts summary")
    assert "\n          10        –            –         –\n" in shown.out


def test_a_summary_that_lags_behind_the_record_is_made_up_for(
    tool: Tool, server: LocalModal
) -> None:
    rows = json.loads(server.files[ROLLOUTS_SUMMARY])["items"]
    kept = [row for row in rows if (row["training_run_id"], row["rollout_id"]) != (FROG, 10)]
    server.files[ROLLOUTS_SUMMARY] = json.dumps({"items": kept}).encode()
    shown = tool(FROG, NO_LOGS)
    assert shown.line("recorded") == "11"
    assert shown.line("note").endswith("the rollouts summary lacks rows up to rollout_id 10")
    assert "\n           9      256       0.3849    3m 48s\n" in shown.out


def test_samples_are_never_downloaded(tool: Tool, server: LocalModal) -> None:
    del server.files[ROLLOUTS_SUMMARY]
    tool(FROG, NO_LOGS)
    subjects = [call.subject for call in server.calls if call.method == "VolumeGetFile2"]
    assert not [subject for subject in subjects if subject.startswith("training-rollouts/")]


# ---- Calls that fail, for good or once -------------------------------------------------------


def test_a_rollouts_summary_that_fails_is_named_and_the_rest_shown(
    tool: Tool, server: LocalModal
) -> None:
    server.fault(
        "VolumeGetFile2", subject=ROLLOUTS_SUMMARY, status="PERMISSION_DENIED", message="not yours"
    )
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert shown.line("recorded") == "11"
    assert shown.err == f"error: could not read {ROLLOUTS_SUMMARY}: not yours\n"


def test_a_block_that_answers_500_is_named(tool: Tool, server: LocalModal) -> None:
    server.fault("block", subject=RECORD, http_status=500)
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert shown.line("step") == "12/50"
    assert "500" in shown.line("source")


@pytest.mark.parametrize("fault", [{"keep": 100}, {"cut": 100}])
def test_a_body_shorter_than_promised_is_no_record(
    tool: Tool, server: LocalModal, fault: dict[str, int]
) -> None:
    server.fault("block", subject=RECORD, keep=fault.get("keep"), cut=fault.get("cut"))
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert "which may lag" in shown.line("source")


@pytest.mark.parametrize("method", ["VolumeGetOrCreate", "VolumeGetFile2", "block"])
def test_a_call_that_fails_once_is_made_again(tool: Tool, server: LocalModal, method: str) -> None:
    if method == "block":
        server.fault("block", times=1, http_status=503)
    else:
        server.fault(method, times=1, status="UNAVAILABLE", message="busy")
    shown = tool(FROG, NO_LOGS)
    assert (shown.status, shown.err, shown.line("step")) == (0, "", "12/50")


def test_an_app_that_can_t_be_looked_up_is_unknown_with_the_reason(
    tool: Tool, server: LocalModal
) -> None:
    server.fault("AppGetOrCreate", status="PERMISSION_DENIED", message="another workspace's")
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert shown.line("app") == f"{FROG_APP} · unknown (another workspace's)"
    assert shown.line("recorded") == "11"
    assert "POSSIBLY STUCK" not in shown.out
    assert shown.err == "error: could not read the app's state: another workspace's\n"


def test_an_app_look_up_that_hangs_holds_the_blocks_for_five_seconds_only(
    tool: Tool, server: LocalModal
) -> None:
    server.fault("AppGetOrCreate", hang=True)
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert shown.line("app") == f"{FROG_APP} · unknown (no answer within 5 s)"


def test_a_read_that_hangs_is_named_when_its_time_is_over(tool: Tool, server: LocalModal) -> None:
    server.fault("VolumeGetFile2", subject=ROLLOUTS_SUMMARY, hang=True)
    server.fault("VolumeListFiles2", subject="training-rollouts", hang=True)
    shown = tool(FROG, NO_LOGS, "--timeout", "2")
    assert shown.status == 1
    assert shown.line("step") == "12/50"
    assert shown.line("recorded") == "unknown"
    assert f"could not read {ROLLOUTS_SUMMARY}: no answer within 2 s\n" in shown.err
    assert "could not read training-rollouts/: no answer within 2 s\n" in shown.err


def test_logs_that_hang_are_named_when_their_time_is_over(tool: Tool, server: LocalModal) -> None:
    server.fault("AppFetchLogs", hang=True)
    shown = tool(FROG, "--timeout", "3")
    assert shown.status == 1
    assert shown.line("run") == FROG
    assert shown.err == ("error: could not read the logs: modal app logs did not end within 3 s\n")


# ---- Hostile text ----------------------------------------------------------------------------


def test_no_field_can_steer_the_screen_or_forge_a_line(tool: Tool, server: LocalModal) -> None:
    hostile = "x\x1b[2J\x1b]0;t\x07[red]\n  status     completed\u202e\r\x9b31m"
    record = json.loads(server.files[RECORD])
    fields = {"status": hostile, "framework": hostile, "framework_status": hostile}
    record.update(fields, error_message=hostile, modal_app_url=f"https://x.y/{hostile}")
    record["metadata"] = {"terminal_reason": hostile, "framework_progress": {"unit": hostile}}
    server.files[RECORD] = json.dumps(record).encode()
    shown = tool(FROG, NO_LOGS)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown.out)
    assert len(shown.lines("status")) == 1
    assert "[red]" in shown.line("phase")


# ---- Streams ---------------------------------------------------------------------------------


def test_a_full_disk_under_stdout_is_one_line(server: LocalModal) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), FROG, NO_LOGS],
            env=clean_environment(server),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"error: [Errno 28] No space left on device\n"


def test_an_ascii_stdout_gets_all_that_it_can_hold(tool: Tool) -> None:
    shown = tool(FROG, "--tail", "1", PYTHONIOENCODING="ascii")
    assert shown.status == 0
    assert shown.line("app") == f"{FROG_APP} ? live (detached)"


def on_a_terminal(server: LocalModal, *words: str, columns: int = 100, **changes: str) -> str:
    """What the command writes to a terminal that is its stdout and its stderr."""
    ours, its = pty.openpty()
    environment = clean_environment(server, COLUMNS=str(columns), LINES="40", TERM="xterm-256color")
    child = subprocess.Popen(
        [sys.executable, str(SCRIPT), *words],
        env={**environment, **changes},
        stdin=subprocess.DEVNULL,
        stdout=its,
        stderr=its,
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
    os.close(ours)
    assert child.wait(PATIENCE) == 0
    return written.decode()


def test_a_terminal_gets_colour_a_bar_and_a_spinner_that_goes_away(server: LocalModal) -> None:
    shown = on_a_terminal(server, FROG, "--tail", "3")
    assert shown.count("401 Unauthorized") == 3
    assert "reading the run from Modal" in shown
    assert "\x1b[?25h" in shown  # the cursor is back
    assert "\x1b[1;33m⚠ POSSIBLY STUCK" in shown
    assert "━━━" in shown
    assert "22% done" in shown


def test_no_color_leaves_a_terminal_uncoloured(server: LocalModal) -> None:
    shown = on_a_terminal(server, FROG, NO_LOGS, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", shown)


@pytest.mark.parametrize("columns", [1, 12, 40])
def test_a_tiny_window_wraps_and_loses_nothing(server: LocalModal, columns: int) -> None:
    shown = on_a_terminal(server, FROG, NO_LOGS, columns=columns, NO_COLOR="1")
    letters = re.sub(r"\s|\x1b\[[^a-zA-Z]*[a-zA-Z]", "", shown)
    assert FROG in letters
    assert f"https://modal.com/id/{FROG_APP}" in letters
