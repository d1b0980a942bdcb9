"""The project holds together: its metadata, its documents and their examples."""

import re
import tomllib

from conftest import ROOT, SCRIPT, Shown, shows

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


def without_times(text: str) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: UTC|\+00:00)", "MOMENT", text)
    return re.sub(r"\([^()]* ago\)", "(AGE)", text)


@shows("elastic-frog", "--tail", "3")
def test_the_example_in_the_readme_is_what_the_command_shows(shown: Shown) -> None:
    readme = (ROOT / "README.md").read_text()
    (example,) = re.findall(r"```text\n\$ [^\n]*elastic-frog --tail 3\n(.*?)```", readme, re.DOTALL)
    # The attempt that a sample log line names depends on when the sample was made.
    loose = [re.sub(r"attempt \d", "attempN", text) for text in (example, shown.out)]
    assert without_times(loose[0]) == without_times(loose[1])
