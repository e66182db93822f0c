"""What is printed cannot command a terminal, whatever stands in it."""

import ast
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import made_up
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convdyno.report.console import Screen
from convdyno.report.training import Watcher
from convdyno.stage.progress import Narrator
from convdyno.store.folder import Store
from convdyno.store.slurm_jobs import Job, new_run
from convdyno.terminal import Visible, visible

SOURCE = Path(__file__).parents[1] / "src" / "convdyno"
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eexe\r"
SHOWN = r"\u001b]0;owned\u0007\u001b[2J\u009b31m\u202eexe\r"


class Terminal(io.StringIO):
    """Somebody who looks on."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(*words: str) -> str:
    """What a command sends to a terminal, on both streams."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "convdyno", *words],
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
        env=os.environ | {"COLUMNS": "400", "TERM": "dumb"}  # No styles of ours.,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:
            break
        if not some:
            break
        said += some
    process.wait()
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A results folder in which every text is an attack."""
    store = Store(tmp_path)
    for n, engine in enumerate(("torch", "jax")):
        store.write(
            made_up.made(
                100.0 + n,
                engine=engine,
                data=EVIL,
                host=EVIL,
                command=EVIL,
                role="",
                id=f"ok{n}",
                labels={EVIL: EVIL},
                warnings=(EVIL,),
                settings={"flags": {EVIL: EVIL}},
                versions={EVIL: EVIL},
            )
        )
    store.write(made_up.failed(EVIL, engine="torch", batch=64, id="bad", labels={"a": EVIL}))
    (tmp_path / f"{EVIL.replace('/', '')}.json").write_text("{")
    job = Job(
        number=1, id="7", what=EVIL, trials=(), record_ids=(), asked={}, state="COMPLETED",
        reason=EVIL, nodes=EVIL,
    )  # fmt: skip
    new_run("x", EVIL).with_jobs([job]).write(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("results", "list"), ("results", "show", "bad"), ("results", "show", "ok0"),
        ("results", "csv"), ("results", "show", "ok0", "--json"), ("results", "list", "--json"),
        ("results", "archive"), ("results", "list", "--where", "label.a=x"), ("jobs", "list"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_records_cannot_command_a_terminal(hostile: Path, words: tuple[str, ...]) -> None:
    harmless(on_a_terminal(*words, "--out", str(hostile)), told=words[0] != "jobs")


def test_other_folders_cannot_either(hostile: Path, tmp_path: Path) -> None:
    harmless(on_a_terminal("results", "merge", str(hostile), "--out", str(tmp_path / "to")))
    harmless(on_a_terminal("compare", str(hostile), "--by", "engine"))
    harmless(on_a_terminal("report", str(hostile), "--json"))


def harmless(said: str, told: bool = True) -> None:
    assert "Traceback" not in said
    assert not set(said) & set("\x1b\x07\x9b\u202e\r")
    assert ("owned" in said) == told


def test_what_is_shown_is_the_same_json() -> None:
    out = io.StringIO()
    document = json.dumps({"a": EVIL + "\U000e0041é\ud800"}, ensure_ascii=False)
    Visible(out).write(document)
    assert json.loads(out.getvalue()) == json.loads(document)
    assert SHOWN in out.getvalue()


@given(st.text(st.characters()))
def test_nothing_unseen_is_left(text: str) -> None:
    shown = visible(text)
    assert not any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in shown)
    assert shown.encode().decode() == shown
    assert visible(shown) == shown
    out = io.StringIO()
    Visible(out).write(text)
    assert out.getvalue().count("\n") == text.count("\n")


def test_plain_text_is_left_as_it_is() -> None:
    text = "résumé 日本 ± → 5 % 🙂"
    assert visible(text) == text


def test_a_value_cannot_begin_a_line_of_its_own() -> None:
    out = io.StringIO()
    screen = Screen(out)
    screen.line("a\nconvdyno: all is well")
    screen.table([{"label": "a\nconvdyno: all is well"}])
    assert not any(line.startswith("convdyno:") for line in out.getvalue().splitlines())


def test_styles_and_progress_are_still_drawn(tmp_path: Path) -> None:
    out = Terminal()
    narrator = Narrator(Visible(out))
    narrator.clear()
    assert out.getvalue() == "", "nothing was drawn"
    narrator.opening(0, EVIL, 5)
    narrator.measuring(0, 0, EVIL, 5)
    narrator.clear()
    Watcher(tmp_path, out=out).warn(EVIL)
    plain = out.getvalue().replace("\r\x1b[K", "")
    assert out.getvalue().count("\r\x1b[K") >= 3
    assert SHOWN in plain
    assert not set(plain) & set("\x1b\x07\x9b\r")


def test_only_one_module_commands_terminals() -> None:
    """A second one would be a second place to forget what records may hold."""
    for path in SOURCE.rglob("*.py"):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert "\x1b" not in node.value, path
