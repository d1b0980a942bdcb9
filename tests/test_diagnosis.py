"""Diagnosis: log tails that nobody here wrote, how fast they are read, and the rules one by one."""

import re
import subprocess
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import run_progress as tool
from conftest import ROOT
from diagnosis import readings, score
from test_logs import NOW, tail

# ---- Measured ---------------------------------------------------------------------------------


def test_most_failures_are_read_right_and_healthy_tails_raise_no_alarm() -> None:
    read = readings()
    told = score(read)
    assert told.lines >= 0.97 * told.failing
    assert told.kinds >= 0.95 * told.failing
    assert told.false_alarms == 0
    assert told.alarms <= 0.03 * told.cuts


# ---- In no time, whatever the lines hold ------------------------------------------------------

# The words that the patterns look for, and what they look for between them.
PATTERNS = {
    name: value.pattern
    for name, value in vars(tool).items()
    if isinstance(value, re.Pattern) and isinstance(value.pattern, str)
}
TOLD = [part.strip() for kind in tool.KINDS for part in kind.words.split(";")]
WORDS = sorted(
    {word for part in TOLD for word in part.partition(" ~ ")[0].split("|")}
    | {
        word
        for pattern in (*PATTERNS.values(), *TOLD)
        for word in re.findall(r"[A-Za-z][\w ./-]{2,30}|[\[({|'\"=:%-]", pattern)
    }
)


def seconds(tail: str) -> float:
    """The fastest of three, since the machine may be busy."""
    times = []
    for _ in range(3):
        began = time.process_time()
        tool.diagnose(tail)
        times.append(time.process_time() - began)
    return min(times)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3), st.sampled_from(["", " ", ": "]))
def test_a_line_of_the_patterns_own_words_takes_no_time(words: list[str], between: str) -> None:
    tool.diagnose("error\n")  # what is compiled once
    part = between.join(words) + between
    line = (part * 4_000)[:3_900]
    assert seconds(line + "\n") < 0.02


@settings(deadline=None)
@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=30)), max_size=40))
def test_any_tail_is_read(parts: list[str]) -> None:
    stamped = [f"2026-09-21 14:13:{n % 60:02}+00:00 {part}" for n, part in enumerate(parts)]
    for told in (" ".join(parts), "\n".join(parts), "\n".join(stamped)):
        judged = tool.diagnose(told)
        assert judged.progress is None or judged.progress.done < judged.progress.total
        assert judged.blocker is None or judged.blocker.count > 0


def test_each_word_of_the_patterns_over_and_over_takes_no_time() -> None:
    tool.diagnose("error\n")
    slow = [word for word in WORDS if seconds((f"{word} " * 4_000)[:3_900] + "\n") >= 0.02]
    assert slow == []


@pytest.mark.parametrize(
    "line",
    ["1" * 100_000, "a.b:1 " * 20_000, "[(" * 50_000, "a:1 " * 25_000, "checkpoint at " * 9_000],
)
def test_a_line_of_any_length_is_read_in_no_time(line: str) -> None:
    assert seconds(tail(*[line] * 20)) < 1


def test_a_long_tail_takes_time_in_proportion() -> None:
    lines = [f"(Actor pid={n % 50}) ValueError: bad input {n}" for n in range(2_000)]
    short, long = seconds(tail(*lines)), seconds(tail(*lines * 8))
    assert long < 16 * short + 0.05


def test_a_bar_that_was_drawn_100_000_times_counts_by_its_last_state() -> None:
    bars = "\r".join(f"Rollout generation: 5%|█ | {n}/200000 [00:01]" for n in range(100_000))
    judged = tool.diagnose(tail(bars))
    assert judged.progress is not None
    assert (judged.progress.done, judged.progress.total) == (99_999, 200_000)
    assert seconds(tail(bars)) < 0.1


# ---- The rules, one by one --------------------------------------------------------------------

FRAMES = ("Traceback (most recent call last):", '  File "/root/x.py", line 3, in f', "    g()")


def blocker_of(*lines: str, apart: float = 1.0) -> tool.Blocker | None:
    """What blocks after lines that were written so many seconds apart."""
    stamps = (
        datetime.fromtimestamp(NOW - apart * (len(lines) - n), UTC) for n in range(len(lines))
    )
    told = zip(stamps, lines, strict=True)
    return tool.diagnose(
        "".join(f"{at:%Y-%m-%d %H:%M:%S}+00:00 {line}\n" for at, line in told)
    ).blocker


@pytest.mark.parametrize(
    "exception",
    ["queue.Empty", "pyarrow.lib.ArrowInvalid: no comma", "grpc._channel._Rendezvous: <RPC>"],
)
def test_what_ends_a_traceback_is_the_exception_whatever_its_name(exception: str) -> None:
    prefix = "(EngineCore pid=5) ERROR 09-21 14:12:10 [core.py:710] "
    blocker = blocker_of(*(prefix + line for line in (*FRAMES, "", exception)))
    assert blocker is not None
    assert blocker.line == exception


def test_tracebacks_of_two_writers_that_alternate_are_told_apart() -> None:
    ones = [f"(A pid=1) {line}" for line in (*FRAMES, "KeyError: 'a'")]
    others = [f"[rank3]: {line}" for line in (*FRAMES, "ValueError: b")]
    mixed = [line for pair in zip(ones, others, strict=True) for line in pair]
    blocker = blocker_of(*mixed, apart=0)
    assert blocker is not None
    assert blocker.line == "KeyError: 'a'"


@pytest.mark.parametrize(
    "lines",
    [
        ("Exception ignored in: <function f>", *FRAMES, "RuntimeError: closed"),
        ("Task exception was never retrieved", "future: <Task>", *FRAMES, "ValueError: x"),
        (FRAMES[0], '  File "/tmp/sbx/solution.py", line 1, in f', "ZeroDivisionError: x"),
        ("[prompt] fix it", *FRAMES, "KeyError: 'x'", "[score] 0.0"),
        ("=== FAILURES ===", "E   KeyError: 1", "t.py:4: KeyError", "=== 1 failed in 0.3s ==="),
        ("│ CUDA out of memory │", "│ 401 Unauthorized │"),
        ("[a] sample 7 tool output follows", *FRAMES, "KeyError: 'x'"),
        ("(SweAgent pid=3) command ran too long (killed, exit 137)",),
        ("after training is done", *FRAMES, "RuntimeError: closed"),
        ("Job 'raysubmit_x' succeeded", "ray.exceptions.ActorDiedError: The actor died"),
        ("wandb: ERROR Error while calling W&B API: 502 Bad Gateway",) * 5,
        ("trajectory 8 failed: TimeoutError('x'); returning reward=0 masked sample",),
        ("grading failed, returning error to the model", *FRAMES, "ValueError: x"),
        ("WARNING judge.py:3 - Traceback (most recent call last):", *FRAMES[1:], "KeyError: 'x'"),
        (FRAMES[0], '  File "/workspace/solution.py", line 1, in f', "EOFError: no line"),
        ("{'train_runtime': 30.1}", "(EngineCore pid=3) ERROR: engine core died unexpectedly"),
        ('{"level": "info", "event": "sample", "text": "Traceback: KeyError: 1"}',),
    ],
)
def test_data_and_what_says_that_it_ends_nothing_are_no_failure(lines: tuple[str, ...]) -> None:
    assert blocker_of("(Trainer pid=1) step:12 - loss:0.1", *lines) is None


@pytest.mark.parametrize(
    ("lines", "told", "kind"),
    [
        (
            (
                *FRAMES,
                "pydantic_core.ValidationError: 1 validation error for C",
                "  Value error, 28 heads",
            ),
            "pydantic_core.ValidationError: 1 validation error for C Value error, 28 heads",
            "config",
        ),
        (
            (
                *FRAMES,
                "RuntimeError: Build failed. Output:",
                "[1/3] nvcc -c a.cu",
                "sh: 1: nvcc: not found",
            ),
            "RuntimeError: Build failed. Output: sh: 1: nvcc: not found",
            "config",
        ),
        (
            (
                *FRAMES,
                "OSError: failed, see the output:",
                "cc1: fatal error: x.h: gone",
                "compilation over",
            ),
            "OSError: failed, see the output: cc1: fatal error: x.h: gone",
            "traceback",
        ),
    ],
)
def test_an_exception_is_told_with_the_lines_that_it_goes_on_with(
    lines: tuple[str, ...], told: str, kind: str
) -> None:
    blocker = blocker_of(*lines, apart=0)
    assert blocker is not None
    assert (blocker.line, blocker.kind) == (told, kind)


def test_of_a_record_in_json_message_level_and_error_are_read() -> None:
    record = '{"ts": 1, "level": "error", "event": "save", "error": "No space left on device"}'
    blocker = blocker_of(record)
    assert blocker is not None
    assert (blocker.line, blocker.kind) == ("save: No space left on device {}", "disk_full")
    assert blocker_of(record.replace("error", "info", 1)) is None
    assert tool.diagnose(tail('{"step": 4, "loss": 0.1}')).alive_at is not None


GRADED = (FRAMES[0], '  File "/root/reward.py", line 3, in f', "KeyError: 'x'")


def test_a_graders_exception_blocks_once_it_is_quiet_or_another_process_passes_it_on() -> None:
    step = "(Trainer pid=1) step:12 - loss:0.1"
    assert blocker_of(step, *GRADED, "working") is None
    assert blocker_of(step, *GRADED, "working", apart=200) is not None
    assert blocker_of(step, *GRADED, "Runner failed with exit code: 1") is not None
    passed_on = "(A pid=2) ray.exceptions.RayTaskError(KeyError): ray::f() (pid=3)"
    told = blocker_of(step, *GRADED, passed_on)
    assert told is not None
    assert told.line == "KeyError: 'x'"
    outermost = GRADED[1].replace("in f", "in <module>")
    assert blocker_of(step, GRADED[0], outermost, GRADED[2]) is not None


def test_an_exception_that_modal_says_nobody_caught_is_no_graders() -> None:
    step = "(Trainer pid=1) step:12 - loss:0.1"
    ended = "Stopping app - uncaught exception raised locally: KeyError('x')"
    told = blocker_of(step, *GRADED, ended)
    assert told is not None
    assert told.line == "KeyError: 'x'"


def test_what_only_loads_undoes_nothing_of_another_process() -> None:
    failed = tuple(f"[serve] {line}" for line in (*FRAMES, "Exception: no such tokenizer"))
    assert blocker_of(*failed, "[train] Loading shards: 100%|██| 2/2 [00:01<00:00]") is not None


def test_a_warning_of_the_driver_explains_what_follows_from_it() -> None:
    warning = "/x/cuda.py:182: UserWarning: Error 804: forward compatibility was attempted"
    caused = blocker_of(warning, *FRAMES, "RuntimeError: no device")
    assert caused is not None
    assert caused.kind == "config"
    assert blocker_of(warning) is None


def test_what_a_process_mentioned_before_it_ended_is_what_it_ended_of() -> None:
    mentioned = "Key 'foo' is not in struct"
    assert blocker_of(mentioned) is None
    ended = blocker_of(mentioned, "Runner failed with exit code: 1")
    assert ended is not None
    assert ended.line == mentioned


def refusals(numbers: Iterable[int]) -> list[str]:
    """Attempts of one request."""
    return [
        f"(RolloutManager pid=2) Error: Connection refused, retrying (attempt {n}/60, "
        "url=http://10.0.0.4:3592/generate)"
        for n in numbers
    ]


def test_retries_are_a_blocker_once_they_last() -> None:
    assert blocker_of(*refusals([1])) is None
    assert blocker_of(*refusals([1, 2, 3])) is None
    step = "(Trainer pid=1) step:12 - loss:0.1"
    assert blocker_of(step, *refusals([1, 2, 3]), apart=40) is not None
    assert blocker_of(*refusals([1, 2, 3]), apart=40) is None  # all may still be starting
    assert blocker_of(*refusals([1, 2, 3]), apart=100) is not None
    last = blocker_of(*refusals([58]))
    assert last is not None
    assert last.kind == "network"


def test_success_and_progress_undo_the_retries_of_their_operation() -> None:
    served = '(SGLangEngine pid=9) INFO: 10.0.0.4:1 - "POST /generate HTTP/1.1" 200 OK'
    assert blocker_of(*refusals([57, 58]), served) is None
    assert blocker_of(*refusals([57, 58]), served.replace("/generate", "/score")) is not None
    counter = "(RolloutManager pid=2) Rollout generation:  5%|█ | {}/512 [00:10<00:50]"
    assert blocker_of(counter.format(5), *refusals([57, 58]), counter.format(9)) is None
    assert blocker_of(counter.format(5), *refusals([57, 58]), counter.format(5)) is not None


def test_a_dead_engine_is_not_undone_by_the_trainer_nor_by_what_was_under_way() -> None:
    died = "(SGLangEngine pid=9) Rank 0 died: exit code: -9"
    trained = "(MegatronTrainRayActor pid=1) Timer actor_train end (elapsed: 30.9s)"
    finished = "(RolloutManager pid=2) rollout 7: {'rollout/rewards': 0.2}"
    assert blocker_of(died, trained, apart=90) is not None
    assert blocker_of(died, finished, apart=5) is not None
    assert blocker_of(died, finished, apart=90) is None


def test_a_timeout_may_have_its_cause_as_far_back_as_it_waited() -> None:
    fault = "(A pid=5) CUDA error: uncorrectable ECC error encountered"
    waited = "(A pid=1) Watchdog caught collective operation timeout: ran for {} milliseconds"
    caused = blocker_of(fault, waited.format(300_010), apart=301)
    assert caused is not None
    assert (caused.kind, caused.led_to) == ("gpu_fault", None)
    other = blocker_of(fault, waited.format(60_010), apart=301)
    assert other is not None
    assert other.kind == "nccl_timeout"


def test_an_echo_is_told_only_where_nothing_else_stands() -> None:
    echo = (*FRAMES, "ray.exceptions.ActorDiedError: The actor died unexpectedly")
    alone = blocker_of(*echo)
    assert alone is not None
    assert alone.kind == "actor_died"
    caused = blocker_of("(A pid=1) Exit code: -9", *FRAMES, "EOFError", *echo)
    assert caused is not None
    assert (caused.line, caused.led_to) == ("Exit code: -9", "ActorDiedError")


def test_one_cause_on_many_ranks_is_one() -> None:
    ranks = [f"[rank{n}]: torch.OutOfMemoryError: CUDA out of memory on GPU {n}" for n in range(64)]
    blocker = blocker_of(*ranks)
    assert blocker is not None
    assert (blocker.count, blocker.first_at, blocker.at) == (64, NOW - 64, NOW - 1)


def test_the_speed_of_a_counter_is_measured_by_the_logs_times() -> None:
    lines = [f"eval/gsm8k: {n} of 1319 prompts" for n in (100, 200, 511)]
    progress = tool.diagnose(tail(lines[0], *["working"] * 9, *lines[1:])).progress
    assert progress is not None
    assert (progress.what, progress.done, progress.total) == ("eval/gsm8k", 511, 1319)
    assert progress.per_second == pytest.approx(411 / 11)
    assert progress.left_seconds == pytest.approx(808 / (411 / 11))


def test_a_counter_is_over_once_it_is_full_or_the_next_thing_is_done() -> None:
    bar = "Rollout generation:  5%|█ | {}/512 [00:10<00:50]"
    assert tool.diagnose(tail(bar.format(511))).progress is not None
    assert tool.diagnose(tail(bar.format(511), bar.format(512))).progress is None
    assert tool.diagnose(tail(bar.format(511), "rollout 7: {'reward': 0.2}")).progress is None


@pytest.mark.parametrize(
    ("line", "alive"),
    [
        ("Decode batch. #running-req: 96, gen throughput (token/s): 3120.44", True),
        ("Engine 000: Avg generation throughput: 410.2 tokens/s, Running: 8 reqs", True),
        ("Engine 000: Avg generation throughput: 0.0 tokens/s, Running: 96 reqs", False),
        ("========== Step 14/100 ==========", True),
        ("Timer train_wait start", False),
        ("Timer actor_train end (elapsed: 3s)", True),
        ("Loading weights", False),
    ],
)
def test_what_is_a_sign_of_life(line: str, alive: bool) -> None:
    assert (tool.diagnose(tail(line)).alive_at is not None) == alive


def test_a_chain_may_begin_above_a_tail_that_holds_no_progress_before_it() -> None:
    assert tool.diagnose(tail("KeyError: 'x'")).begins_above
    assert not tool.diagnose(tail("step:12 - loss:0.1", "KeyError: 'x'")).begins_above
    assert not tool.diagnose(tail("working")).begins_above
    assert not tool.diagnose(tail("KeyError: 'x'"), asked=200).begins_above


def test_each_kind_is_told_in_lower_case_since_that_is_how_messages_are_searched() -> None:
    for kind in tool.KINDS:
        words = [part.partition(" ~ ")[0] for part in kind.words.split(";")]
        assert words == [word.lower() for word in words]


def test_the_scorer_runs_and_comes_to_what_the_readme_tells() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "diagnosis.py")], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    shares = re.findall(r"(\d+)/(\d+)", done.stdout.decode())
    (lines, failing), (kinds, _), (_, healthy), (alarms, cuts) = shares
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"{lines} of {failing} failures, a fitting kind for {kinds}, " in readme
    assert f"no alarm for {healthy} healthy ones, and one at {alarms} of the {cuts} " in readme


# ---- How far the phase is ---------------------------------------------------------------------


def bars(*states: tuple[int, str]) -> str:
    """A bar's states, each so many seconds after the first."""
    first = 1_790_000_000 - 600
    return "".join(
        f"{datetime.fromtimestamp(first + at, UTC):%Y-%m-%d %H:%M:%S}+00:00 {text}\n"
        for at, text in states
    )


def bar(done: int, at: int) -> tuple[int, str]:
    return at, f"(RolloutManager pid=1) Rollout generation: 5%|█ | {done}/256 [01:00]"


@pytest.mark.parametrize("first", [0, 20, 40])
def test_the_speed_of_a_bar_is_that_since_it_began_anew(first: int) -> None:
    before = [bar(done, 10 * done // 8) for done in (20, 120, 240)]
    now = [bar(first, 500), bar(first + 100, 525), bar(first + 200, 550)]
    for between in ([], [(400, "(RolloutManager pid=1) step 7: {'train/loss': 0.5}")]):
        progress = tool.diagnose(bars(*before, *between, *now)).progress
        assert progress is not None
        assert (progress.done, progress.per_second) == (first + 200, 4.0)


@pytest.mark.parametrize("line", ["x: 5%|█ | 1/{} [01:00]", "eval: 5 of {} prompts"])
def test_a_number_beyond_all_counting_is_no_counter(line: str) -> None:
    assert tool.diagnose(line.format("9" * 400)).progress is None


def test_a_bar_of_bytes_is_read_with_its_units() -> None:
    states = [
        (0, "model.safetensors:  2%|▏ | 100M/4.97G [00:10<02:00, 100MB/s]"),
        (20, "model.safetensors: 44%|█ | 2.20G/4.97G [00:30<01:00, 100MB/s]"),
    ]
    progress = tool.diagnose(bars(*states)).progress
    assert progress is not None
    assert (progress.done, progress.total) == (2_200_000_000, 4_970_000_000)
