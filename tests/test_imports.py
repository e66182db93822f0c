"""The parent process never imports a framework, and help imports next to nothing."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "jax", "tensorflow", "keras", "flax", "scipy", "pandas"}


def modules_after(*arguments: str) -> set[str]:
    code = (
        "import sys\n"
        f"sys.argv = ['convdyno', *{arguments!r}]\n"
        "from convdyno.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('modules:', *sorted({m.partition('.')[0] for m in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("arguments", [("--help",), ("bench", "--help"), ("--version",)])
def test_help_imports_no_framework_and_not_even_numpy(arguments: tuple[str, ...]) -> None:
    assert not modules_after(*arguments) & (HEAVY | {"numpy", "rich"})


@pytest.mark.parametrize(
    "arguments",
    [
        ("list", "networks"),
        ("list", "engines"),
        ("show", "resnet50"),
        ("doctor", "--quick"),
        ("bench", "trivial", "--engine", "torch", "--out", "/proc/none"),
    ],
)
def test_no_command_imports_a_framework_into_the_parent(arguments: tuple[str, ...]) -> None:
    assert not modules_after(*arguments) & HEAVY


def test_the_python_package_itself_imports_nothing_heavy() -> None:
    code = "import sys, convdyno; print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & (HEAVY | {"numpy", "pydantic", "typer"})
