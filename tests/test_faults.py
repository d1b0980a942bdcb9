"""What can't be read is named, what can is shown, and the exit status tells."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conftest import (
    PATIENCE,
    SCRIPT,
    Follow,
    Shown,
    Tool,
    clean_environment,
    written_to_a_terminal,
)
from local_modal import LocalModal

FROG = "elastic-frog-a1b2c3d4e5f6"
FROG_APP = "ap-0123456789abcdefABCDEF"
RECORD = f"training-runs/{FROG}.json"
RUNS_SUMMARY = "training-runs-summary/summary.json"
ROLLOUTS_SUMMARY = "training-rollouts-summary/summary.json"
NO_LOGS = "--no-logs"


# ---- Modal, the token, the volume ------------------------------------------------------------


@pytest.mark.parametrize("token", ["", "ak-wrong"])
def test_a_missing_or_wrong_token_is_told_with_the_next_step(tool: Tool, token: str) -> None:
    shown = tool(FROG, NO_LOGS, MODAL_TOKEN_ID=token)
    assert (shown.status, shown.out) == (1, "")
    assert re.fullmatch(r"error: Modal gives no access: .*\n", shown.err)
    assert "run `modal token new`" in shown.err


def test_a_missing_volume_is_told(tool: Tool) -> None:
    with LocalModal(volume="another") as other:
        shown = tool(FROG, NO_LOGS, MODAL_SERVER_URL=other.env["MODAL_SERVER_URL"])
    assert (shown.status, shown.out, shown.err.count("\n")) == (1, "", 1)
    assert "'training-gym-metadata' not found" in shown.err
    assert "check -e/--env" in shown.err


def test_a_missing_environment_is_told(tool: Tool) -> None:
    shown = tool(FROG, NO_LOGS, "-e", "nowhere")
    assert (shown.status, shown.out, shown.err.count("\n")) == (1, "", 1)
    assert "nowhere" in shown.err


def test_a_server_that_can_t_be_reached_is_told_in_time(server: LocalModal, tool: Tool) -> None:
    server.stop()
    shown = tool(FROG, NO_LOGS, "--timeout", "1")
    assert (shown.status, shown.out) == (1, "")
    said = r"error: Modal did not answer within 1 s at http://127.0.0.1:\d+; check the network, "
    assert re.match(said, shown.err)


def test_an_address_and_proxies_that_may_be_wrong_are_named(tool: Tool) -> None:
    shown = tool(
        FROG,
        NO_LOGS,
        "--timeout",
        "1",
        MODAL_SERVER_URL="http://127.0.0.1:1",
        HTTPS_PROXY="http://maya:s3cr@127.0.0.1:2",
        all_proxy="maya:s3cr@127.0.0.1:3",
    )
    told = " at http://127.0.0.1:1 with HTTPS_PROXY=http://127.0.0.1:2 with all_proxy=127.0.0.1:3"
    assert shown.status == 1
    assert told in shown.err
    assert "s3cr" not in shown.err


# ---- The record and the summary of runs ------------------------------------------------------


@pytest.mark.parametrize("query", [FROG, "elastic-frog"])
def test_without_its_record_a_run_is_shown_from_its_row(
    server: LocalModal, tool: Tool, query: str
) -> None:
    server.files.pop(RECORD)
    shown = tool(query, NO_LOGS)
    assert shown.status == 1
    assert shown.line("step") == "12/50"
    assert shown.line("source") == (
        "the record could not be read (it does not exist): this is its row in the runs "
        "summary, which may lag"
    )


@pytest.mark.parametrize(
    ("held", "why"),
    [(b"{", "not JSON"), (b"[1, 2]", "not a record but a list"), (b"[" * 99_999, "not JSON")],
)
def test_a_record_that_is_none_gives_way_to_its_row(
    server: LocalModal, tool: Tool, held: bytes, why: str
) -> None:
    server.files[RECORD] = held
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert shown.line("step") == "12/50"
    assert why in shown.line("source")
    assert "which may lag" in shown.line("source")
    assert shown.err.startswith(f"error: could not read {RECORD}: not")


def test_without_record_and_row_there_is_nothing_to_show(server: LocalModal, tool: Tool) -> None:
    server.files.update({RECORD: b"{", RUNS_SUMMARY: b'{"items": []}'})
    shown = tool(FROG, NO_LOGS)
    assert (shown.status, shown.out) == (1, "")
    assert f"error: could not read {RECORD}: not JSON" in shown.err


def test_the_record_counts_and_not_its_row_which_may_lag(server: LocalModal, tool: Tool) -> None:
    record = json.loads(server.files[RECORD])
    server.files[RECORD] = json.dumps({**record, "framework_status": "weight_sync"}).encode()
    shown = tool("elastic-frog", NO_LOGS)
    assert shown.line("phase") == "weight_sync"


def assert_found_though_the_summary_is(word: str, shown: Shown) -> None:
    assert shown.status == 0
    assert shown.line("run") == FROG
    assert re.fullmatch(rf"note: the runs summary is {word}.*\n", shown.err)


def test_a_summary_cut_in_half_costs_only_a_line(server: LocalModal, tool: Tool) -> None:
    whole = server.files[RUNS_SUMMARY]
    server.files[RUNS_SUMMARY] = whole[: len(whole) // 2]
    shown = tool(FROG_APP, NO_LOGS)
    assert_found_though_the_summary_is("unreadable", shown)


def test_a_missing_summary_costs_only_a_line(server: LocalModal, tool: Tool) -> None:
    server.files.pop(RUNS_SUMMARY)
    shown = tool(FROG_APP, NO_LOGS)
    assert_found_though_the_summary_is("unreadable", shown)


@pytest.mark.parametrize("held", [b'[7, null, {"run_id": 5}]'])
def test_a_summary_of_junk_costs_only_a_line_even_for_an_app_id(
    server: LocalModal, tool: Tool, held: bytes
) -> None:
    server.files[RUNS_SUMMARY] = held
    shown = tool(FROG_APP, NO_LOGS)
    assert_found_though_the_summary_is("incomplete", shown)


@pytest.mark.parametrize("held", [b'{"items": []}'])
def test_an_empty_summary_costs_only_a_line_even_for_a_wandb_id(
    server: LocalModal, tool: Tool, held: bytes
) -> None:
    server.files[RUNS_SUMMARY] = held
    shown = tool("x7k2m9qp", NO_LOGS)
    assert_found_though_the_summary_is("incomplete", shown)


# ---- Rollouts --------------------------------------------------------------------------------


def assert_counted_by_files(shown: Shown) -> None:
    assert shown.status == 0
    assert shown.line("recorded") == "11"
    assert shown.line("latest").startswith("rollout_id 10 (step 11")
    assert shown.line("note").startswith("figures are incomplete: the rollouts summary")
    assert "\n          10        –            –         –\n" in shown.out
    # Their names are enough: a rollout's file can hold megabytes of samples.
    fetched = [call.subject for call in shown.calls if call.method == "VolumeGetFile2"]
    assert not [path for path in fetched if path.startswith("training-rollouts/")]


def test_without_their_summary_rollouts_are_counted_by_their_files(
    server: LocalModal, tool: Tool
) -> None:
    server.files.pop(ROLLOUTS_SUMMARY)
    shown = tool(FROG, NO_LOGS)
    assert_counted_by_files(shown)


@pytest.mark.parametrize("held", [b"{", b'{"items": []}'])
def test_a_broken_summary_of_rollouts_is_made_up_for(
    server: LocalModal, tool: Tool, held: bytes
) -> None:
    server.files[ROLLOUTS_SUMMARY] = held
    shown = tool(FROG, NO_LOGS)
    assert_counted_by_files(shown)


def test_a_summary_that_lags_behind_the_record_is_made_up_for(
    server: LocalModal, tool: Tool
) -> None:
    rows = json.loads(server.files[ROLLOUTS_SUMMARY])["items"]
    kept = [row for row in rows if (row["training_run_id"], row["rollout_id"]) != (FROG, 10)]
    server.files[ROLLOUTS_SUMMARY] = json.dumps({"items": kept}).encode()
    shown = tool(FROG, NO_LOGS)
    assert shown.line("recorded") == "11"
    assert shown.line("note").endswith("the rollouts summary lacks rows up to rollout_id 10")
    assert "\n           9      256       0.3849    3m 48s\n" in shown.out


# ---- Calls that fail, for good or once -------------------------------------------------------

DENIED: dict[str, Any] = {"status": "PERMISSION_DENIED", "message": "not yours"}


def test_a_rollouts_summary_that_fails_is_named_and_the_rest_shown(
    server: LocalModal, tool: Tool
) -> None:
    server.fault("VolumeGetFile2", subject=ROLLOUTS_SUMMARY, **DENIED)
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert shown.line("recorded") == "11"
    assert shown.err == f"error: could not read {ROLLOUTS_SUMMARY}: not yours\n"


def test_folders_that_fail_are_named_and_the_rest_shown(server: LocalModal, tool: Tool) -> None:
    server.fault("VolumeListFiles2", **DENIED)
    shown = tool("elastic-frog", NO_LOGS)
    assert shown.status == 1
    assert shown.line("run") == FROG
    assert "could not read training-runs/: not yours\n" in shown.err


def test_where_nothing_could_be_searched_it_is_not_said_that_no_run_matches(
    server: LocalModal, tool: Tool
) -> None:
    server.fault("VolumeGetFile2", subject=RUNS_SUMMARY, **DENIED)
    server.fault("VolumeListFiles2", subject="training-runs", **DENIED)
    shown = tool("elastic-frog", NO_LOGS)
    assert (shown.status, shown.out) == (1, "")
    assert shown.err.splitlines()[-1] == (
        "error: could not read training-runs/: not yours; "
        "no run matches 'elastic-frog' in what could be read"
    )


def test_a_row_from_before_the_app_does_not_hide_the_run_from_its_app_id(
    server: LocalModal, tool: Tool
) -> None:
    rows = json.loads(server.files[RUNS_SUMMARY])["items"]
    early = [{**row, "modal_app_id": "", "modal_app_url": ""} for row in rows]
    server.files[RUNS_SUMMARY] = json.dumps({"items": early}).encode()
    shown = tool(FROG_APP, NO_LOGS)
    assert (shown.status, shown.line("run")) == (0, FROG)


def test_a_row_that_lags_does_not_hide_the_run_from_its_new_app_id(
    server: LocalModal, tool: Tool
) -> None:
    rows = json.loads(server.files[RUNS_SUMMARY])["items"]
    early = [{**row, "modal_app_id": "ap-before", "updated_at": 1.0} for row in rows]
    for row in early:
        row.pop("metadata", None)
    server.files[RUNS_SUMMARY] = json.dumps({"items": early}).encode()
    shown = tool(FROG_APP, NO_LOGS)
    assert (shown.status, shown.line("run")) == (0, FROG)


def test_a_wandb_id_made_of_the_run_id_is_only_a_prefix(server: LocalModal, tool: Tool) -> None:
    record = {**json.loads(server.files[RECORD]), "config": {"wandb": {}}}
    server.files["training-runs/elastic-moose-b1b2c3d4e5f6.json"] = json.dumps(record).encode()
    server.files[RUNS_SUMMARY] = json.dumps([{**record, "training_run_id": FROG}]).encode()
    shown = tool("elastic-", NO_LOGS)
    assert shown.status == 4
    assert "elastic-frog" in shown.out
    assert "elastic-moose" in shown.out


def test_a_record_that_is_being_written_beside_the_run_is_no_run(
    server: LocalModal, tool: Tool
) -> None:
    server.files[f"{RECORD}.tmp"] = b"{"
    shown = tool("elastic-frog", NO_LOGS)
    assert (shown.status, shown.line("run")) == (0, FROG)


def test_a_lost_row_does_not_make_a_shared_wandb_id_seem_to_be_one_runs(
    server: LocalModal, tool: Tool
) -> None:
    rows = json.loads(server.files[RUNS_SUMMARY])["items"]
    kept = [row for row in rows if not row.get("training_run_id", "").startswith("amber-hawk")]
    server.files[RUNS_SUMMARY] = json.dumps({"items": kept}).encode()
    shown = tool("hq3v8k2n", NO_LOGS)
    assert shown.status == 4
    assert "amber-heron" in shown.out
    assert "amber-hawk" in shown.out


def test_candidates_are_listed_as_their_records_stand(server: LocalModal, tool: Tool) -> None:
    (path,) = [path for path in server.files if path.startswith("training-runs/amber-heron")]
    record = json.loads(server.files[path])
    server.files[path] = json.dumps({**record, "status": "failed"}).encode()
    shown = tool("amber-h", NO_LOGS)
    assert re.search(r"amber-heron-\w+ +failed", shown.out)


def test_an_app_that_is_over_has_not_died_while_its_result_is_unknown(
    server: LocalModal, tool: Tool
) -> None:
    server.fault("VolumeGetFile2", subject="train-results/swift-marten-d59c1e7a3b06.json", **DENIED)
    shown = tool("swift-marten", NO_LOGS)
    assert shown.status == 1
    assert "⚠ APP OVER: status says running, but the app stopped 3m ago; whether" in shown.out


def test_a_run_that_ended_by_another_word_shows_its_error_and_end(
    server: LocalModal, tool: Tool
) -> None:
    record = json.loads(server.files[RECORD])
    record.update(status="crashed", error_message="it broke", ended_at=record["updated_at"])
    server.files[RECORD] = json.dumps(record).encode()
    shown = tool(FROG, NO_LOGS)
    assert shown.line("status") == "crashed"
    assert shown.line("error") == "it broke"
    assert shown.line("ended")


def test_rows_lost_between_others_are_made_up_for(server: LocalModal, tool: Tool) -> None:
    rows = json.loads(server.files[ROLLOUTS_SUMMARY])["items"]
    kept = [row for row in rows if row["training_run_id"] != FROG or row["rollout_id"] in (3, 10)]
    server.files[ROLLOUTS_SUMMARY] = json.dumps({"items": kept}).encode()
    shown = tool(FROG, NO_LOGS)
    assert shown.line("recorded") == "11"
    assert shown.line("note").endswith("the rollouts summary lacks rows before rollout_id 10")


def test_a_block_that_answers_500_is_named(server: LocalModal, tool: Tool) -> None:
    server.fault("block", subject=RECORD, http_status=500)
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert shown.line("step") == "12/50"
    assert "500" in shown.line("source")


@pytest.mark.parametrize("how", ["keep", "cut"])
def test_a_body_shorter_than_promised_is_no_record(
    server: LocalModal, tool: Tool, how: str
) -> None:
    keep, cut = (100, None) if how == "keep" else (None, 100)
    server.fault("block", subject=RECORD, keep=keep, cut=cut)
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert "which may lag" in shown.line("source")


def test_a_call_that_fails_once_is_made_again(server: LocalModal, tool: Tool) -> None:
    for method in ("VolumeGetOrCreate", "VolumeGetFile2", "VolumeListFiles2", "AppGetOrCreate"):
        server.fault(method, times=1, status="UNAVAILABLE", message="busy")
    server.fault("block", times=1, http_status=503)
    shown = tool(FROG, NO_LOGS)
    assert (shown.status, shown.err, shown.line("step")) == (0, "", "12/50")
    assert shown.line("app") == f"{FROG_APP} · live (detached)"


def test_an_app_that_can_t_be_looked_up_is_unknown_with_the_reason(
    server: LocalModal, tool: Tool
) -> None:
    server.fault("AppGetOrCreate", **DENIED)
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert shown.line("app") == f"{FROG_APP} · unknown (not yours)"
    assert shown.line("recorded") == "11"
    assert "POSSIBLY STUCK" not in shown.out
    assert shown.err == "error: could not read the app's state: not yours\n"


def test_an_app_look_up_that_hangs_holds_the_blocks_for_five_seconds_only(
    server: LocalModal, tool: Tool
) -> None:
    server.fault("AppGetOrCreate", hang=True)
    shown = tool(FROG, NO_LOGS)
    assert shown.status == 1
    assert shown.line("app") == f"{FROG_APP} · unknown (no answer in time)"


def test_a_read_that_hangs_is_named_when_its_time_is_over(server: LocalModal, tool: Tool) -> None:
    server.fault("VolumeGetFile2", subject=ROLLOUTS_SUMMARY, hang=True)
    server.fault("VolumeListFiles2", subject="training-rollouts", hang=True)
    shown = tool(FROG, NO_LOGS, "--timeout", "3")
    assert shown.status == 1
    assert shown.line("step") == "12/50"
    assert shown.line("recorded") == "unknown"
    assert f"could not read {ROLLOUTS_SUMMARY}: no answer within 1." in shown.err
    assert "could not read training-rollouts/: no answer within 3 s\n" in shown.err


@pytest.mark.parametrize(
    ("query", "hung"),
    [
        (FROG, RECORD),
        (FROG, ROLLOUTS_SUMMARY),
        ("elastic-frog", RECORD),
        ("elastic-frog", "training-runs/"),
        (FROG_APP, RUNS_SUMMARY),
    ],
)
def test_a_read_that_hangs_leaves_the_time_for_what_stands_in_for_it(
    server: LocalModal, tool: Tool, query: str, hung: str
) -> None:
    method = "VolumeListFiles2" if hung.endswith("/") else "VolumeGetFile2"
    server.fault(method, subject=hung.rstrip("/"), hang=True)
    shown = tool(query, NO_LOGS, "--timeout", "4")
    assert shown.status == 1
    assert shown.line("run") == FROG
    assert shown.line("step") == "12/50"
    assert shown.line("recorded") == "11"
    (error,) = [line for line in shown.err.splitlines() if line.startswith("error: ")]
    assert re.fullmatch(rf"error: could not read {hung}: no answer within [23](\.\d)? s", error)


def test_a_slow_record_without_a_row_is_waited_for(server: LocalModal, tool: Tool) -> None:
    server.files[RUNS_SUMMARY] = b'{"items": []}'
    server.fault("VolumeGetFile2", subject=RECORD, delay=2.5)
    shown = tool(FROG, NO_LOGS, "--timeout", "4")
    assert (shown.status, shown.line("step")) == (0, "12/50")


def test_logs_that_hang_are_named_when_their_time_is_over(server: LocalModal, tool: Tool) -> None:
    server.fault("AppFetchLogs", hang=True)
    shown = tool(FROG, "--timeout", "3")
    assert shown.status == 1
    assert shown.line("run") == FROG
    assert shown.err == ("error: could not read the logs: modal app logs did not end within 3 s\n")


def test_a_record_deleted_between_match_and_read_gives_way_to_its_row(
    server: LocalModal, tool: Tool
) -> None:
    server.fault("VolumeGetFile2", subject=RECORD, status="NOT_FOUND", message="it was deleted")
    shown = tool("elastic-frog", NO_LOGS)
    assert shown.status == 1
    assert shown.line("step") == "12/50"
    assert "which may lag" in shown.line("source")


def test_slow_blocks_are_waited_for(server: LocalModal, tool: Tool) -> None:
    server.fault("block", delay=1.0)
    shown = tool(FROG, NO_LOGS)
    assert (shown.status, shown.err, shown.line("step")) == (0, "", "12/50")


def test_a_server_that_goes_away_before_the_logs_leaves_the_blocks(
    server: LocalModal, start: Follow
) -> None:
    server.fault("AppFetchLogs", hang=True)
    following = start(FROG, "--timeout", "20")
    server.wait_for("AppFetchLogs")
    server.stop()
    following.line_with("Logs: modal app logs")
    status, err = following.end()
    assert status == 1
    assert err.startswith("error: could not read the logs: modal app logs ")


def test_a_volume_rewritten_during_the_read_is_shown_as_it_was_or_is(
    server: LocalModal, start: Follow
) -> None:
    server.fault("block", subject=RECORD, delay=0.5)
    following = start(FROG, NO_LOGS)
    server.wait_for("VolumeGetFile2", subject=RECORD)
    record = json.loads(server.files[RECORD])
    server.files[RECORD] = json.dumps({**record, "framework_status": "weight_sync"}).encode()
    assert re.search("generate_rollouts|weight_sync", following.line_with("  phase "))
    assert following.end() == (0, "")


def test_what_was_known_of_the_end_stays_known_if_it_can_t_be_read_again(
    server: LocalModal, tool: Tool
) -> None:
    (path,) = [f"train-results/{p[14:]}" for p in server.files if p.startswith("training-runs/hol")]
    server.fault("VolumeGetFile2", subject=path, status="NOT_FOUND", times=1)
    server.fault("VolumeGetFile2", subject=path, **DENIED)
    shown = tool("hollow-crane", NO_LOGS)
    assert (shown.status, shown.err) == (0, "")
    assert "✗ APP DIED" in shown.out


def test_a_run_that_ends_between_two_reads_has_not_died(server: LocalModal, start: Follow) -> None:
    server.fault("AppGetOrCreate", delay=0.5)
    following = start(FROG, NO_LOGS)
    server.wait_for("AppGetOrCreate")
    record = json.loads(server.files[RECORD])
    server.files[RECORD] = json.dumps({**record, "status": "completed"}).encode()
    server.finish(FROG_APP)
    assert "completed" in following.line_with("  status ")
    assert following.end() == (0, "")


# ---- Hostile text ----------------------------------------------------------------------------


HOSTILE = "x\x1b[2J\x1b]0;t\x07[red]\n  status     completed\u202e\r\x9b31m"


def test_no_field_can_steer_the_screen_or_forge_a_line(server: LocalModal, tool: Tool) -> None:
    record = json.loads(server.files[RECORD])
    for name in ("status", "framework", "framework_status", "error_message"):
        record[name] = HOSTILE
    record["modal_app_url"] = f"https://x.y/{HOSTILE}"
    record["metadata"] = {"terminal_reason": HOSTILE, "framework_progress": {"unit": HOSTILE}}
    server.files[RECORD] = json.dumps(record).encode()
    shown = tool(FROG, NO_LOGS)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown.out)
    assert len(shown.lines("status")) == 1
    assert "[red]" in shown.line("phase")


# ---- Streams ---------------------------------------------------------------------------------


STREAMS = [
    (f"{FROG} {NO_LOGS} >&-", 0, ""),
    ("nosuch --no-logs 2>&-", 3, ""),
    ("nosuch --no-logs 2>/dev/full", 3, ""),
    ("--tail x a 2>&-", 2, ""),
    ("amber-h --no-logs >/dev/full", 1, "error: [Errno 28] No space left on device\n"),
    ("--help >/dev/full", 1, "error: [Errno 28] No space left on device\n"),
    ("nosuch --json >/dev/full", 1, "error: [Errno 28] No space left on device\n"),
    ("--help | true", 0, ""),
    ("amber-h --no-logs | true", 0, None),
]


def test_streams_that_are_closed_or_full_change_no_status(server: LocalModal) -> None:
    def run(line: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} {SCRIPT} {line}; exit ${{PIPESTATUS[-1]}}"],
            env=clean_environment(server),
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, done.stderr.decode()

    with ThreadPoolExecutor(2) as pool:
        ran = pool.map(run, [line for line, _, _ in STREAMS])
        for (line, status, told), (was, err) in zip(STREAMS, ran, strict=True):
            assert was == status, line
            assert told is None or err == told, line


@pytest.mark.parametrize(
    ("name", "value"),
    [("MODAL_TOKEN_ID", "ak-\nx"), ("MODAL_LOGLEVEL", "GARBAGE")],
)
def test_settings_that_modal_can_t_use_are_one_line(
    fresh_tool: Tool, name: str, value: str
) -> None:
    shown = fresh_tool(FROG, NO_LOGS, **{name: value})
    assert (shown.status, shown.out, shown.err.count("\n")) == (1, "", 1)
    assert shown.err.startswith("error: ")


SETTINGS = [
    ("token_id = 5", {}, "TypeError: Invalid metadata value type, str expected: 5 (grpclib/"),
    (
        "token_id = ['x']",
        {},
        "TypeError: Invalid metadata value type, str expected: ['x'] (grpclib/",
    ),
    ("environment = 5", {}, "TypeError: bad argument type for built-in operation (modal/"),
    ("active = 'yes'\n[b]\n[c]", {}, "TypeError: unsupported operand type(s) for +"),
    ("", {"MODAL_MAX_THROTTLE_WAIT": "x"}, "Invalid value for max_throttle_wait config ('x')"),
    ("loglevel = 5", {}, "modal can't be set up: Invalid value for loglevel"),
    ("token_id = '\udcff'", {}, "modal can't be set up: Error when reading the modal config"),
    ("[", {}, "modal can't be set up: Error when reading the modal config"),
]


@pytest.mark.parametrize(("held", "environment", "told"), SETTINGS)
def test_whatever_modal_makes_of_its_settings_is_one_line_and_one_object(
    server: LocalModal, tmp_path: Path, held: str, environment: dict[str, str], told: str
) -> None:
    config = tmp_path / "modal.toml"
    config.write_bytes(f"[default]\n{held}\n".encode(errors="surrogateescape"))
    outside = clean_environment(server, MODAL_CONFIG_PATH=str(config), **environment)
    if "token_id" in held:
        del outside["MODAL_TOKEN_ID"]
    for flags in ([], ["--debug"]):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), FROG, "--json", "--timeout", "10", *flags],
            env=outside,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        error = json.loads(done.stdout)["error"]
        *before, last = done.stderr.splitlines()
        assert done.returncode == 1
        assert told in error["message"]
        assert last == f"error: {error['message']}"
        assert bool(before) == bool(flags)
        assert ("Traceback (most recent call last):" in before) == bool(flags)


def test_what_the_system_refuses_is_an_object_too(server: LocalModal) -> None:
    done = subprocess.run(
        ["bash", "-c", f"ulimit -n 9; {sys.executable} {SCRIPT} {FROG} --json"],
        env=clean_environment(server),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["message"] == "[Errno 24] Too many open files"


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


def test_an_ascii_stdout_gets_all_that_it_can_hold(fresh_tool: Tool) -> None:
    shown = fresh_tool(FROG, "--tail", "1", PYTHONIOENCODING="ascii")
    assert shown.status == 0
    assert shown.line("app") == f"{FROG_APP} ? live (detached)"


def on_a_terminal(
    server: LocalModal, *words: str, columns: int = 100, environment: dict[str, str] | None = None
) -> str:
    status, written = written_to_a_terminal(server, words, columns=columns, environment=environment)
    assert status == 0
    return written


def test_a_terminal_gets_colour_a_bar_and_a_spinner_that_goes_away(server: LocalModal) -> None:
    shown = on_a_terminal(server, FROG, "--tail", "3")
    assert shown.partition("Verdict")[0].count("401 Unauthorized") == 3
    assert "reading the run from Modal" in shown
    assert "\x1b[?25h" in shown  # the cursor is back
    assert "\x1b[1;33m⚠ POSSIBLY STUCK" in shown
    assert "━━━" in shown
    assert "22% done" in shown


BLIND = [{"TERM": "dumb"}, {"TERM": "unknown"}, {"TTY_COMPATIBLE": "0"}, {"TTY_INTERACTIVE": "0"}]


@pytest.mark.parametrize("environment", BLIND)
@pytest.mark.parametrize("words", [("--watch", "--interval", "2"), ("--follow",), (NO_LOGS,)])
def test_a_terminal_that_can_t_be_steered_is_written_to_as_a_pipe(
    server: LocalModal, environment: dict[str, str], words: tuple[str, ...]
) -> None:
    def end() -> None:
        record = json.loads(server.files[RECORD])
        server.files[RECORD] = json.dumps({**record, "status": "completed"}).encode()
        server.finish(FROG_APP)

    said = re.compile(b"Z running stuck: step 12/50|Logs: modal app logs|Verdict")
    _, written = written_to_a_terminal(
        server, (FROG, *words), environment=environment, meanwhile=end, answered=said
    )
    assert re.search(said, written.encode())
    assert not re.search(r"\x1b\[[0-9?;]*[A-HJKhl]|\r(?!\n)", written)


def test_a_terminal_is_one_whatever_else_is_asked_of_colours(server: LocalModal) -> None:
    shown = on_a_terminal(server, "golden-finch", "--watch", environment={"FORCE_COLOR": ""})
    assert "Verdict" in shown


def test_no_color_leaves_a_terminal_uncoloured(server: LocalModal) -> None:
    shown = on_a_terminal(server, FROG, NO_LOGS, environment={"NO_COLOR": "1"})
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", shown)


@pytest.mark.parametrize("columns", [1, 40])
def test_a_tiny_window_wraps_and_loses_nothing(server: LocalModal, columns: int) -> None:
    shown = on_a_terminal(server, FROG, NO_LOGS, columns=columns, environment={"NO_COLOR": "1"})
    letters = re.sub(r"\s|\x1b\[[^a-zA-Z]*[a-zA-Z]", "", shown)
    assert FROG in letters
    assert f"https://modal.com/id/{FROG_APP}" in letters
