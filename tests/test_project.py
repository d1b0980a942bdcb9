"""The project holds together: its metadata, its documents and their examples."""

import ast
import json
import re
import time
import tomllib
from typing import Any

import pytest

import run_progress
from conftest import ROOT, SCRIPT, Tool
from dojo import dojo
from gym import Gym
from local_modal import LocalModal

FOLDER = ROOT / ".claude" / "skills" / "rollout-progress"
SKILL = (FOLDER / "SKILL.md").read_text()
README = (ROOT / "README.md").read_text()
REFERENCES = {path.name: path.read_text() for path in sorted((FOLDER / "references").iterdir())}


def test_the_scripts_own_metadata_asks_for_what_the_project_asks_for() -> None:
    block = re.search(r"^# /// script\n((?:# .*\n)+)# ///$", SCRIPT.read_text(), re.MULTILINE)
    assert block
    inline = tomllib.loads(re.sub(r"^# ", "", block[1], flags=re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert inline["dependencies"] == project["dependencies"]
    assert inline["requires-python"] == project["requires-python"]


def test_modal_and_rich_are_all_that_it_needs_at_run_time() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [re.split(r"[<>=~]", need)[0] for need in project["dependencies"]] == ["modal", "rich"]


def test_nothing_else_stands_at_the_top() -> None:
    visible = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert visible == {"pyproject.toml", "uv.lock", "README.md", "tests"}


# ---- The skill's pages -----------------------------------------------------------------------


def test_the_skill_is_found_by_its_trigger_phrases() -> None:
    head = SKILL.split("---")[1]
    assert "name: rollout-progress" in head
    assert "version: 0.1.0" in head
    for phrase in (
        "check the progress of a run",
        "what step is run X on",
        "is my training run stuck",
        "what is run <id> doing",
        "grab the app logs for a run",
        "how far along is the rollout",
        "why did it die",
        "did it crash",
        "no progress",
    ):
        assert f'"{phrase}"' in head


def test_the_skill_is_short_enough_to_be_read() -> None:
    assert len(SKILL.splitlines()) <= 100
    prose = re.sub(r"```text\n.*?```", "", SKILL.split("---", 2)[2], flags=re.DOTALL)
    assert max(map(len, prose.splitlines())) <= 112


def test_the_skill_names_each_of_its_references_and_no_other() -> None:
    assert set(re.findall(r"`references/([\w-]+\.md)`", SKILL)) == set(REFERENCES)


def test_each_flag_that_a_page_names_is_one_that_help_explains() -> None:
    explained = set(
        re.findall(r"^  (?:-\w, )?(--[a-z-]+) ", run_progress.__doc__ or "", re.MULTILINE)
    )
    for page in (SKILL, README, *REFERENCES.values()):
        named = set(re.findall(r"`(--[a-z-]+)", page))
        assert named <= {*explained, "--help"}
    assert {"--tail", "--no-logs", "--follow", "--watch"} <= set(re.findall(r"`(--[a-z-]+)", SKILL))


def test_the_proxy_auth_note_stands_where_the_skill_points() -> None:
    note = (ROOT / ".claude" / "CLAUDE.md").read_text()
    assert "references/proxy-auth.md" in note
    for text in (note, REFERENCES["proxy-auth.md"]):
        for word in ("requires_proxy_auth=True", "401", "Modal-Key", "Modal-Secret"):
            assert word in text


def test_each_phase_is_explained() -> None:
    explained = set(re.findall(r"`(\w+)`", REFERENCES["phases.md"]))
    assert explained >= run_progress.PHASES


def verdict_words() -> set[str]:
    """The words that the skill's table explains."""
    table = SKILL.split("## The verdict's words\n\n")[1].split("\n\n")[0]
    return {
        word for row in table.splitlines() for word in re.findall(r"`(\w+)`", row.split("|")[1])
    }


def test_the_skill_explains_each_word_of_a_verdict(server: LocalModal, tool: Tool) -> None:
    dojo("release", time.time()).install(server)
    rows = json.loads(tool("--limit", "100", "--json").out)
    assert {row["verdict"] for row in rows} <= verdict_words()
    for word in verdict_words():
        assert f'"{word}"' in SCRIPT.read_text(), f"{word} is no word of a verdict"


# ---- Examples and commands -------------------------------------------------------------------

SCREEN = re.compile(r"```text\n\$ uv run python \S+ ([^\n]*)\n(.*?)```", re.DOTALL)
SCREENS = SCREEN.findall(README) + SCREEN.findall(SKILL)


def masked(text: str) -> str:
    """The text without what depends on when it was made, and the room that took."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: UTC|\+00:00)", "MOMENT", text)
    text = re.sub(r"\b\d\d:\d\d:\d\d\b", "CLOCK", text)
    text = re.sub(r"<?\b\d+[smhd]\b(?: \d+[smhd]\b)?", "SPAN", text)
    text = re.sub(r"about (?:\d{4}-\d\d-\d\d )?\d\d:\d\d UTC", "about MOMENT", text)
    return re.sub(r" +", " ", re.sub(r"attempt \d/", "attempt N/", text))


def test_the_readme_shows_four_screens_and_the_skill_one() -> None:
    assert [len(SCREEN.findall(page)) for page in (README, SKILL)] == [4, 1]


@pytest.mark.parametrize(("words", "screen"), SCREENS)
def test_a_screen_in_the_pages_is_what_the_command_shows(
    tool: Tool, words: str, screen: str
) -> None:
    """An excerpt has a line of `…` wherever lines are left out, but for the end."""
    out = masked(tool(*words.split()).out)
    if "…\n" not in screen:
        assert out == masked(screen)
    for part in filter(None, re.split(r"^…\n", masked(screen), flags=re.MULTILINE)):
        _, found, out = out.partition(part)
        assert found == part


def test_the_ideal_answer_says_in_three_sentences_what_the_sample_shows() -> None:
    ((_, sample),) = SCREEN.findall(SKILL)
    answer = " ".join(re.findall(r"^> (.*)$", SKILL, re.MULTILINE))
    assert len(re.findall(r"\.(?: |$)", answer)) == 3
    assert set(re.findall(r"\d+\w?", answer)) <= set(re.findall(r"\d+\w?", sample))


# What the README and SKILL.md tell to run; the rest of each line is the user's own.
COMMANDS = (
    "pip install uv && python3 -m uv run python tests/demo.py elastic-frog",
    "pip install uv && python3 -m uv run pytest",
)


def test_the_readmes_two_commands_are_those_that_are_tried() -> None:
    """.ci/run runs the second one, the demo's tests the first."""
    assert set(re.findall(r"^pip install uv.*$", README, re.MULTILINE)) == set(COMMANDS)
    assert "pip install uv && " in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("page", [SKILL, README], ids=["SKILL.md", "README.md"])
def test_the_command_of_a_page_runs(tool: Tool, page: str) -> None:
    (command,) = re.findall(r"^uv run python (.*)$", page, re.MULTILINE)
    script, query, *flags = command.split()
    assert ROOT / script == SCRIPT
    assert query == "<run_id>"
    assert tool("elastic-frog", *flags).status == 0


def test_each_file_that_the_readme_names_exists() -> None:
    named = re.findall(r"[\w./-]+/[\w-]+\.(?:py|md|json)", README)
    assert {name for name in named if name.partition("/")[0] in ("tests", ".claude")}
    for name in named:
        assert (ROOT / name).exists() or name == "path/to/run_progress.py"


# ---- Questions to try the skill with ---------------------------------------------------------

QUESTIONS = json.loads((FOLDER / "evals" / "evals.json").read_text())
EVALS = QUESTIONS["evals"]


def test_there_are_eight_questions_to_answer_each_on_another_run(gym: Gym) -> None:
    assert QUESTIONS["skill_name"] == "rollout-progress"
    assert [question["id"] for question in EVALS] == list(range(1, 9))
    assert len({question["run"] for question in EVALS}) == 8
    for question in EVALS:
        assert question["run"] in question["prompt"]
        assert any(run.run_id.startswith(question["run"]) for run in gym.runs)
        assert question["expected_output"]
        assert len(question["expectations"]) > 2
        assert question["files"] == []


def test_ten_questions_should_bring_the_skill_up_and_ten_should_not() -> None:
    triggers = QUESTIONS["trigger_evals"]
    assert sorted(trigger["should_trigger"] for trigger in triggers) == [False] * 10 + [True] * 10
    assert len({trigger["query"] for trigger in triggers}) == 20


@pytest.mark.parametrize("question", [pytest.param(each, id=each["run"]) for each in EVALS])
def test_what_a_right_answer_rests_on_is_what_the_tool_tells(
    tool: Tool, question: dict[str, Any]
) -> None:
    shown = tool(question["run"], "--tail", "200")
    told = re.sub(r"\s+", " ", shown.out + shown.err)
    assert question["grounds"]
    for ground in question["grounds"]:
        assert ground in told


# ---- The script -------------------------------------------------------------------------------


def test_each_section_and_each_function_is_read_in_one_sitting() -> None:
    source = SCRIPT.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            assert node.end_lineno - node.lineno < 50, node.name
    banners = re.split(r"^# =+\n# (?=[A-Z]|main)", source, flags=re.MULTILINE)
    assert len(banners) > 8
    for section in banners:
        assert section.count("\n") <= 700, section[:40]
