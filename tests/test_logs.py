"""Judging the log tail: the blocker, the last activity, and what is neither."""

import json
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
    judged = tool.judge_logs((CASES / f"{name}.txt").read_text())
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
        ("httpx.ReadTimeout: timed out", "traceback"),
        ("KeyboardInterrupt", "traceback"),
        ("step 311: {'errors': 0, 'failed': 0}", None),
        ("errors: 0, failed: 0, error_rate: 0.0", None),
        ("token usage: 0.401, #running-req: 429, 403 of 512 done", None),
        ("Finish rollout: ['401 Unauthorized', 'ValueError: x']", None),
        ("prompt: Traceback (most recent call last): ValueError: x", None),
        ('sample=["CUDA out of memory"]', None),
        ("UserWarning: this is deprecated", None),
        ("invalid token id 151645 skipped", None),
        ("Loading weights: 401/512", None),
    ],
)
def test_a_line_is_a_failure_of_its_kind_or_none(line: str, kind: str | None) -> None:
    for prefix in ("", "(RolloutManager pid=1188, ip=10.0.0.4) ", "\x1b[36m(Actor pid=1)\x1b[0m "):
        blocker = tool.judge_logs(tail("starting", prefix + line)).blocker
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
    ],
)
def test_progress_after_a_failure_means_that_it_blocks_nothing(line: str) -> None:
    assert tool.judge_logs(tail("ValueError: bad", f"(Actor pid=1) {line}")).blocker is None


@pytest.mark.parametrize("between", ["10%|█ | 1/10", "", '"GET /health HTTP/1.1" 200', "working"])
def test_noise_and_activity_do_not_clear_a_failure(between: str) -> None:
    blocker = tool.judge_logs(tail("ValueError: bad", between)).blocker
    assert blocker is not None


def test_a_progress_bar_on_the_same_line_does_not_hide_a_failure() -> None:
    raw = tail("10%|█ | 1/10\rtorch.OutOfMemoryError: CUDA out of memory.")
    blocker = tool.judge_logs(raw).blocker
    assert blocker is not None
    assert blocker.kind == "cuda_oom"


def test_the_cause_is_told_and_not_the_last_link_of_its_chain() -> None:
    judged = tool.judge_logs(
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


@pytest.mark.parametrize("offset", ["+00:00", "+02:00", "Z", "-0500"])
def test_timestamps_of_any_offset_are_read(offset: str) -> None:
    at = tool.judge_logs(f"2026-09-21 14:13:20{offset} working\n").activity_at
    hours = {"+00:00": 0, "+02:00": 2, "Z": 0, "-0500": -5}[offset]
    assert at == NOW - 3600 * hours


def test_where_there_is_nothing_but_noise_it_is_said_since_when() -> None:
    judged = tool.judge_logs(tail(*['INFO: - "GET /health_generate HTTP/1.1" 200 OK'] * 30))
    assert (judged.activity, judged.noise_since) == (None, NOW - 30)
    assert tool.activity_text(judged, NOW) == "nothing but health checks since 14:12"


def test_an_empty_tail_tells_nothing() -> None:
    assert tool.judge_logs("") == tool.LogJudgement(None, None, None, None)
