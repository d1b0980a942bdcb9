"""Judging the log tail: the blocker, the last activity, and what is neither."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import run_progress as tool

CASES = Path(__file__).parent / "cases" / "logs"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CASES / "expected.json").read_text())
NOW = 1_790_000_000.0


@pytest.mark.parametrize("name", EXPECTED)
def test_a_log_tail_is_judged_as_its_case_says(name: str) -> None:
    expected = EXPECTED[name]
    judged = tool.diagnose((CASES / f"{name}.txt").read_text())
    if expected["kind"] is None:
        assert judged.blocker is None
    else:
        assert judged.blocker is not None
        assert judged.blocker.kind == expected["kind"]
        assert expected["contains"] in judged.blocker.line
        assert judged.blocker.at == expected["at"]
        assert judged.blocker.count == expected.get("count", judged.blocker.count)
    if "last_activity" in expected:
        assert judged.activity is not None
        assert expected["last_activity"] in judged.activity
    if "quiet_seconds" in expected:
        assert judged.activity_at is not None
        assert NOW - judged.activity_at == expected["quiet_seconds"]


def tail(*lines: str) -> str:
    """A tail with a line a second, up to now."""
    stamps = [datetime.fromtimestamp(NOW - len(lines) + n, UTC) for n in range(len(lines))]
    return "".join(
        f"{at:%Y-%m-%d %H:%M:%S}+00:00 {line}\n" for at, line in zip(stamps, lines, strict=True)
    )


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("torch.cuda.OutOfMemoryError: CUDA out of memory.", "cuda_oom"),
        ("Memory on the node (IP: 10.0.0.4) was 190GB, which exceeds the threshold", "host_oom"),
        ("Task was killed due to the node running low on memory.", "host_oom"),
        ("[E] Watchdog caught collective operation timeout: WorkNCCL", "nccl_timeout"),
        ("httpx.HTTPStatusError: 403 Forbidden for url 'https://x'", "auth"),
        ("Cannot access gated repo for url https://huggingface.co/x", "auth"),
        ("wandb: ERROR invalid API token", "auth"),
        ('INFO: 10.0.0.2:1 - "POST /score HTTP/1.1" 401 Unauthorized', "auth"),
        ("openai.RateLimitError: Error code: 429 - {'error': 'slow down'}", "rate_limited"),
        ("requests: Too Many Requests", "rate_limited"),
        ("OSError: [Errno 28] No space left on device: '/ckpt'", "disk_full"),
        ("Task's current input in-x hit its timeout of 86400s", "timeout"),
        ("Runner interrupted due to worker preemption. Your Function will restart", "preempted"),
        ("ray.exceptions.ActorDiedError: The actor died unexpectedly", "actor_died"),
        ("ValueError: bad input", "traceback"),
        ("httpx.ReadTimeout: timed out", "network"),
        ("KeyboardInterrupt", "traceback"),
        ("[rank3]: ValueError: loss is nan", "nan"),
        ("ERROR 09-01 12:00:00 [core.py:708] ValueError: No available memory", "traceback"),
        ("2026-09-01 12:00:00,111 ERROR train.py:12 -- RuntimeError: boom", "traceback"),
        ("ERROR:root:RuntimeError: boom", "traceback"),
        ("    | ValueError: inner", "traceback"),
        ("Fatal Python error: Segmentation fault", "killed"),
        ("torch.OutOfMemoryError: Allocation on device 0", "cuda_oom"),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction", "cuda_oom"),
        ("4 Workers (tasks / actors) killed due to memory pressure (OOM)", "host_oom"),
        ("reward request failed: HTTP 401", "auth"),
        ('reward said {"status":401,"x":1}', None),
        ("aiohttp.ClientResponseError: 401, message='Unauthorized', url='x'", "auth"),
        ("modal-http: missing credentials for proxy authorization", "auth"),
        ("wandb: ERROR API key must be 40 characters long", "auth"),
        ("step 311: {'errors': 0, 'failed': 0}", None),
        ("errors: 0, failed: 0, error_rate: 0.0", None),
        ("token usage: 0.401, #running-req: 429, 403 of 512 done", None),
        ("Finish rollout: ['401 Unauthorized', 'ValueError: x']", None),
        ("prompt: Traceback (most recent call last): ValueError: x", None),
        ('sample=["CUDA out of memory"]', None),
        ("UserWarning: NCCL watchdog timed out after 600 seconds is the default", None),
        ("NCCL timeout=1800s", None),
        ("Access to gated repo checked: ok", None),
        ("transformers.Trainer: using bf16", None),
        ("response: You get torch.cuda.OutOfMemoryError", None),
        ("ERROR: checkpoint iter_20 was not saved", None),
        ("invalid token id 151645 skipped", None),
        ("Loading weights: 401/512", None),
        ("[rollout 11] reward request failed: 401 Unauthorized for url https://x", "auth"),
        ("step 12: RuntimeError: loss is NaN", "nan"),
        ("rollout 4: {'rollout/error': '401 Unauthorized'}", None),
        ("sample 31: reward request failed: 401 Unauthorized for url https://x", "auth"),
        ("sample 31: ['401 Unauthorized']", None),
        ("Response status 429 Too Many Requests", "rate_limited"),
        ("Completion request failed: 429 Too Many Requests", "rate_limited"),
        ("scored ([{'role': 'user'}], 'It answers HTTP 401 Unauthorized', 1.0)", None),
        ('RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")', "cuda_oom"),
        ("reward: HTTPStatusError(\"Client error '401 Unauthorized' for url 'x'\")", "auth"),
        ("[rollout 11] reward, attempt 13 of 15: 401 Unauthorized for url https://x", "auth"),
        ("[rollout 12] 429 Too Many Requests for url https://x", "rate_limited"),
        ("Exception: judge gave no score after 60 attempts", "traceback"),
        ("attempt 5 of 5: Error code: 429 - {'error': 'insufficient_quota'}", "quota"),
        ("TimeoutError: Timed out after 600 s waiting for the update lock", "hang"),
        ("train/loss is nan at step 12", "nan"),
        ("ERROR rewards contain nan", "nan"),
        ("jinja2.exceptions.UndefinedError: 'x' is undefined", "config"),
        ("TimeoutError: waiting for workers: the node does not have enough resources", "resources"),
        (
            "2026-09-01 12:00:00 | ERROR    | slime.rollout:generate:212 - ValueError: x",
            "traceback",
        ),
        ("eval | reward model error: 401.23 | len 1800", None),
        ("Invalid EOS token, ignoring", None),
        ("Unauthorized tool calls: 0", None),
    ],
)
def test_a_line_is_a_failure_of_its_kind_or_none(line: str, kind: str | None) -> None:
    for prefix in ("", "(RolloutManager pid=1188, ip=10.0.0.4) ", "\x1b[36m(Actor pid=1)\x1b[0m "):
        blocker = tool.diagnose(tail("starting", prefix + line)).blocker
        assert (blocker.kind if blocker else None) == kind


@pytest.mark.parametrize(
    "line",
    [
        "rollout 4: {'rollout/rewards': 0.2}",
        "[2026-09-21 14:12:40] step 7: {'train/loss': 0.1}",
        "perf 3: {'tokens': 1}",
        "Timer actor_train start",
        "Timer save_model end (elapsed: 3.0s)",
        "successfully saved checkpoint to /ckpt/iter_0000019",
        " [2026-09-21 14:12:40] iteration       12/     100 | consumed samples: 512",
        "step:12 - actor/loss:0.1",
        "[step 14] loss=0.1",
        "{'loss': 0.5, 'epoch': 1.0}",
        "step 7/50 | loss 0.21 | reward 0.30 | failed 0 | aborted 0",
        "rollout 7: 256 samples, 0 failed, 0 aborted, mean reward 0.30",
        "step 12: failed requests 0/256",
        "step 12: 3 samples failed, 253 ok",
        "[rollout 12] 256/256 samples, aborted 12 (over-sampled), mean reward 0.31",
        "eval 12: FormatError: 12, WrongAnswer: 30, reward 0.31",
        "step 11: error: 429 of 7473 | reward 0.3",
        "Saved checkpoint to /ckpt/grpo-error-correction; will resume from it",
    ],
)
def test_progress_after_a_failure_means_that_it_blocks_nothing(line: str) -> None:
    assert tool.diagnose(tail("ValueError: bad", f"(Actor pid=1) {line}")).blocker is None


@pytest.mark.parametrize(
    "line",
    ["step 12: training failed, shutting down", "checkpoint: will be saved every 20 steps"],
)
def test_what_only_names_a_step_or_a_checkpoint_is_no_progress(line: str) -> None:
    assert tool.diagnose(tail("ValueError: bad", line)).blocker is not None


@pytest.mark.parametrize("between", ["10%|█ | 1/10", "", '"GET /health HTTP/1.1" 200', "working"])
def test_noise_and_activity_do_not_clear_a_failure(between: str) -> None:
    blocker = tool.diagnose(tail("ValueError: bad", between)).blocker
    assert blocker is not None


def test_a_progress_bar_on_the_same_line_does_not_hide_a_failure() -> None:
    raw = tail("10%|█ | 1/10\rtorch.OutOfMemoryError: CUDA out of memory.")
    blocker = tool.diagnose(raw).blocker
    assert blocker is not None
    assert blocker.kind == "cuda_oom"


def test_the_cause_is_told_and_not_the_last_link_of_its_chain() -> None:
    judged = tool.diagnose(
        tail(
            "(Actor pid=1) Traceback (most recent call last):",
            '(Actor pid=1)   File "a.py", line 1, in f',
            "(Other pid=2) working",
            "(Actor pid=1) KeyError: 'reward'",
            "ray.exceptions.RayTaskError(KeyError): ray::f()",
            "ray.exceptions.ActorDiedError: The actor is dead",
        )
    )
    assert judged.blocker is not None
    assert judged.blocker.line == "KeyError: 'reward'"
    assert judged.activity == "working"


def test_a_failure_far_older_than_the_newest_is_not_its_cause() -> None:
    old = tail("WARNING torch.OutOfMemoryError: CUDA out of memory, smaller batch")
    lines = [old.replace("14:13:19", "14:00:00"), tail("requests.HTTPError: 401 Client Error")]
    blocker = tool.diagnose("".join(lines)).blocker
    assert blocker is not None
    assert blocker.kind == "auth"


def test_what_failed_long_before_a_wait_that_never_ends_is_its_cause() -> None:
    failure = "(Engine pid=1) ERROR: address already in use"
    waits = ["http://10.0.0.4:15000/health_generate not up yet, retrying"] * 300
    judged = tool.diagnose(tail(failure, *["Loading the model"] * 100, *waits))
    assert judged.blocker is not None
    assert judged.blocker.kind == "config"


def test_an_exception_that_nobody_caught_is_no_attempt_that_is_made_again() -> None:
    judged = tool.diagnose(
        tail(
            "Connection refused [Retry 1/5]",
            "Traceback (most recent call last):",
            '  File "download.py", line 12, in <module>',
            "PermissionError: [Errno 13] Permission denied: '/data'",
        )
    )
    assert judged.blocker is not None
    assert judged.blocker.line == "PermissionError: [Errno 13] Permission denied: '/data'"


@pytest.mark.parametrize("end", ["Job 'raysubmit_b2' failed", "Runner failed with exit code: 1"])
def test_what_is_only_mentioned_before_all_ends_is_what_it_ends_of(end: str) -> None:
    mention = "Could not override 'actor_rollout_ref.rollout.tensor_parallel'."
    assert tool.diagnose(tail(mention)).blocker is None
    blocker = tool.diagnose(tail(mention, end)).blocker
    assert blocker is not None
    assert blocker.line == mention


def test_a_refused_request_that_was_made_again_is_not_the_cause_of_what_comes_later() -> None:
    working = ["Downloaded part of the data"] * 30
    refused = "429 Client Error: Too Many Requests. Retrying in 10s"
    later = tool.diagnose(tail(refused, *working, "KeyError: 'question'")).blocker
    assert later is not None
    assert later.line == "KeyError: 'question'"
    for before in ([refused], [refused, *working, refused, *working]):
        gave_up = tool.diagnose(tail(*before, "RuntimeError: gave up")).blocker
        assert gave_up is not None
        assert gave_up.kind == "rate_limited"


def test_an_iteration_after_a_traceback_is_progress_though_it_is_set_in() -> None:
    iteration = " [2026-09-21 14:12:40] iteration       12/     100 | consumed samples: 512"
    assert tool.diagnose(tail("ValueError: bad", iteration)).blocker is None


def test_repeats_that_ray_sums_up_or_that_differ_in_their_url_are_counted() -> None:
    lines = [f"reward: 401 Unauthorized for url https://x.y/{letter}" for letter in "abc"]
    judged = tool.diagnose(tail(*lines, f"{lines[0]} [repeated 24x across cluster]"))
    assert judged.blocker is not None
    assert judged.blocker.count == 28


def test_what_passes_on_a_failure_is_not_its_cause() -> None:
    judged = tool.diagnose(
        tail(
            "ray.exceptions.RayTaskError(ValueError): ray::f() (pid=1)",
            '  File "a.py", line 1, in f',
            "ValueError: no samples left",
            "During handling of the above exception, another exception occurred:",
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: train.py FAILED",
        )
    )
    assert judged.blocker is not None
    assert judged.blocker.line == "ValueError: no samples left"
    assert judged.activity is None


@pytest.mark.parametrize(
    "line",
    ['"GET /v1/health HTTP/1.1" 200', '"GET /healthz HTTP/1.1" 200', "INFO: Health check passed"],
)
def test_health_checks_of_any_path_are_noise(line: str) -> None:
    assert tool.diagnose(tail(line)).noise


def test_a_progress_bar_is_activity() -> None:
    bar = "Rollout generation:  5%|█ | 5/256 [01:00, 1.0s/it]"
    judged = tool.diagnose(tail(bar))
    assert (judged.activity, judged.noise) == (bar, False)


@pytest.mark.parametrize("offset", ["+00:00", "+02:00", "Z", "-0500"])
def test_timestamps_of_any_offset_are_read(offset: str) -> None:
    at = tool.diagnose(f"2026-09-21 14:13:20{offset} working\n").activity_at
    hours = {"+00:00": 0, "+02:00": 2, "Z": 0, "-0500": -5}[offset]
    assert at == NOW - 3600 * hours


def test_a_step_whose_figures_are_named_like_what_is_handled_is_progress() -> None:
    judged = tool.diagnose(tail("ValueError: bad", "step 12: loss 0.1 masked 0.2"))
    assert (judged.blocker, judged.alive_at) == (None, NOW - 1)


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_last_entry_that_has_no_line_end_is_one_of_those_that_were_asked(end: str) -> None:
    entries = tail("a", "b", "c").rstrip("\n") + end
    assert not tool.diagnose(entries, 3).whole
    assert tool.diagnose(entries, 4).whole


def test_where_there_is_nothing_but_noise_it_is_said_since_when() -> None:
    judged = tool.diagnose(tail(*['INFO: - "GET /health_generate HTTP/1.1" 200 OK'] * 30))
    assert (judged.activity, judged.noise, judged.since) == (None, True, NOW - 30)
    assert tool.activity_text(judged, NOW) == "nothing but health checks since 14:12"


STAMP = b"2026-09-21 14:13:20+00:00 "


@pytest.mark.parametrize(
    ("written", "left"),
    [
        (b"plain\nlines\n", b"plain\nlines\n"),
        (b"%b 1%%\r%b 2%%\r%b 3%%\nnext\n" % (STAMP, STAMP, STAMP), b"%b 3%%\nnext\n" % STAMP),
        (b"%b\r%b 1%%\r%b  \r\n" % (STAMP, STAMP, STAMP), b"%b 1%%\n" % STAMP),
        (b"%b\n%b\x1b[1A\r 6%%\n" % (STAMP, STAMP), b"%b 6%%\n" % STAMP),
        (b"%b\n%b\x1b[1A\r%b 6%%\n" % (STAMP, STAMP, STAMP), b"%b 6%%\n" % STAMP),
        (b"%b 5%%\nother\n%b\x1b[1A\n" % (STAMP, STAMP), b"%b 5%%\nother\n" % STAMP),
        (b"dos\r\nlines\r\n", b"dos\nlines\n"),
        (b"\r\r\n \n\xff\r\xfe", b"\n \n\xfe"),
        (b"", b""),
    ],
)
def test_of_what_is_written_over_the_last_state_is_left(written: bytes, left: bytes) -> None:
    assert tool.last_states(written) == left


def test_an_empty_tail_tells_nothing() -> None:
    assert tool.diagnose("") == tool.Diagnosis()


@pytest.mark.parametrize(
    "line",
    ["1" * 100_000, "a.b:1 " * 20_000, "[(" * 50_000, "a:1 " * 25_000, "checkpoint at " * 9_000],
)
def test_a_line_of_any_length_is_judged_in_no_time(line: str) -> None:
    begun = time.process_time()
    for written in (line.encode(), b"\n" + STAMP[:-1] * 9_000, (STAMP + b"\x1b[1A\r") * 9_000):
        tool.last_states(written * 5)
    tool.diagnose(tail(*[line] * 20))
    # Generous: a pattern gone quadratic takes minutes.
    assert time.process_time() - begun < 3
