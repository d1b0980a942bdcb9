"""The project holds together: its metadata, its documents and their examples."""

import ast
import re
import tomllib

import pytest

from conftest import ROOT, SCRIPT, Shown, Tool, shows

SKILL = ROOT / ".claude" / "skills" / "rollout-progress" / "SKILL.md"


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


def test_the_skill_is_found_by_its_trigger_phrases() -> None:
    head = SKILL.read_text().split("---")[1]
    assert "name: rollout-progress" in head
    assert "version: 0.1.0" in head
    for phrase in (
        "check the progress of a run",
        "what step is run X on",
        "is my training run stuck",
        "what is run <id> doing",
        "grab the app logs for a run",
        "how far along is the rollout",
    ):
        assert f'"{phrase}"' in head


def test_the_skill_is_short_enough_to_be_read() -> None:
    assert len(SKILL.read_text().splitlines()) < 200


def test_every_flag_is_explained_in_both_documents() -> None:
    flags = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", SCRIPT.read_text(), re.MULTILINE))
    assert {"--tail", "--no-logs", "--follow", "--env"} <= flags
    for document in (SKILL, ROOT / "README.md"):
        text = document.read_text()
        for flag in flags - {"--help"}:
            assert flag in text, f"{flag} in {document.name}"


def test_the_proxy_auth_note_stands_where_the_skill_points() -> None:
    for document in (SKILL, ROOT / ".claude" / "CLAUDE.md"):
        text = document.read_text()
        for word in ("requires_proxy_auth=True", "401", "Modal-Key", "Modal-Secret"):
            assert word in text, f"{word} in {document.name}"


README = (ROOT / "README.md").read_text()
SCREENS = dict(re.findall(r"```text\n\$ uv run python \S+ ([^\n]*)\n(.*?)```", README, re.DOTALL))


def masked(text: str) -> str:
    """The text without what depends on when it was made, and the room that took."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: UTC|\+00:00)", "MOMENT", text)
    text = re.sub(r"since \d\d:\d\d:\d\d", "since CLOCK", text)
    text = re.sub(r"<?\b\d+[smhd]\b(?: \d+[smhd]\b)?", "SPAN", text)
    text = re.sub(r"about (?:\d{4}-\d\d-\d\d )?\d\d:\d\d UTC", "about MOMENT", text)
    return re.sub(r" +", " ", re.sub(r"attempt \d/", "attempt N/", text))


def test_the_readme_shows_its_example_and_three_more_screens() -> None:
    assert len(SCREENS) == 4


@pytest.mark.parametrize(
    "words", [pytest.param(words, marks=shows(*words.split())) for words in SCREENS]
)
def test_a_screen_in_the_readme_is_what_the_command_shows(shown: Shown, words: str) -> None:
    assert masked(shown.out) == masked(SCREENS[words])


# What the README and SKILL.md tell to run; the rest of each line is the user's own.
COMMANDS = (
    "pip install uv && python3 -m uv run python tests/demo.py elastic-frog",
    "pip install uv && python3 -m uv run pytest",
)


def test_the_readmes_two_commands_are_those_that_are_tried() -> None:
    """.ci/run runs the second one, the demo's tests the first."""
    assert set(re.findall(r"^pip install uv.*$", README, re.MULTILINE)) == set(COMMANDS)
    assert "pip install uv && " in (ROOT / ".ci" / "run").read_text()


def test_the_skills_command_runs(tool: Tool) -> None:
    (command,) = re.findall(r"^uv run python (.*)$", SKILL.read_text(), re.MULTILINE)
    script, query, *flags = command.split()
    assert ROOT / script == SCRIPT
    assert query == "<run_id>"
    assert tool("elastic-frog", *flags).status == 0


def test_each_section_and_each_function_is_read_in_one_sitting() -> None:
    source = SCRIPT.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
            assert node.end_lineno - node.lineno < 50, node.name
    banners = re.split(r"^# =+\n# (?=[A-Z]|main)", source, flags=re.MULTILINE)
    assert len(banners) > 8
    for section in banners:
        assert section.count("\n") <= 700, section[:40]
