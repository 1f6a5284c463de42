"""Every way in which the command can end: status, message, and never a traceback."""

import errno
import os
import resource
import subprocess
import sys
import types

import pytest

from keygrasp import errors
from keygrasp.cli import main as cli
from keygrasp.cli.main import COMMANDS, Command, main

_HEAVY = ("torch", "pybullet", "cv2", "scipy", "trimesh", "jinja2")


@pytest.fixture
def command(monkeypatch):
    """Install a command 'try' that does what the test says."""

    def install(function):
        module = types.ModuleType("keygrasp_test_command")
        module.run = function
        monkeypatch.setitem(sys.modules, "keygrasp_test_command", module)
        monkeypatch.setitem(COMMANDS, "try", Command("keygrasp_test_command:run", "a command for tests"))

    return install


def _raising(error):
    def run(argv):
        raise error

    return run


def _keygrasp(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "keygrasp.cli.main", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name, known in COMMANDS.items():
        assert f"  {name} " in text
        assert known.summary in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_help_is_fast():
    """Processor time, so that a busy machine doesn't matter; the best of three, so that a cold disk doesn't either."""

    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert _keygrasp("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(once() for _ in range(3)) < 0.4


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_imports_nothing_heavy(arguments):
    code = (
        "import sys\nfrom keygrasp.cli.main import main\n"
        "try:\n    status = main(sys.argv[1:])\nexcept SystemExit as end:\n    status = end.code\n"
        f"sys.exit(status or ','.join(m for m in {_HEAVY} if m in sys.modules) or None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: keygrasp" in done.stdout


def test_no_command_shows_the_overview_and_fails(capsys):
    assert main([]) == 2
    assert "commands:" in capsys.readouterr().out


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("keygrasp 0.")


def test_unknown_command_names_the_nearest(capsys):
    assert main(["trails"]) == 2
    assert capsys.readouterr().err == "keygrasp: unknown command 'trails'\n  Did you mean 'trials'?\n"


def test_unknown_command_that_resembles_nothing(capsys):
    assert main(["zzzz"]) == 2
    assert "keygrasp --help" in capsys.readouterr().err


_KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.KeygraspError)]


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_its_status_and_message(kind, command, capsys):
    command(_raising(kind("the lamp [red] is off", "Switch it on")))
    assert main(["try"]) == kind.exit_code != 0
    captured = capsys.readouterr()
    assert captured.err == "keygrasp: the lamp [red] is off\n  Switch it on\n"
    assert captured.out == ""


def test_an_error_without_remedy_takes_one_line(command, capsys):
    command(_raising(errors.InputError("no lamp")))
    assert main(["try"]) == 2
    assert capsys.readouterr().err == "keygrasp: no lamp\n"


def test_status_of_a_command_is_passed_on(command):
    command(lambda argv: 1 if argv == ["--x", "y"] else 0)
    assert main(["try", "--x", "y"]) == 1
    assert main(["try"]) == 0


def test_ctrl_c(command, capsys):
    command(_raising(KeyboardInterrupt()))
    assert main(["try"]) == 130
    assert capsys.readouterr().err.startswith("keygrasp: stopped")


def test_an_internal_fault_leaves_its_traceback_in_a_log(command, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path))
    monkeypatch.delenv("KEYGRASP_DEBUG", raising=False)
    command(lambda argv: 1 // 0)
    assert main(["try"]) == 70
    message = capsys.readouterr().err
    (log,) = (tmp_path / "logs").iterdir()
    assert "ZeroDivisionError" in message
    assert "Traceback" not in message
    assert str(log) in message
    assert "KEYGRASP_DEBUG=1" in message
    assert "Traceback" in log.read_text()


def test_the_log_goes_elsewhere_where_the_cache_cannot_be_written(command, capsys, monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("KEYGRASP_CACHE", str(blocked))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    command(lambda argv: 1 // 0)
    assert main(["try"]) == 70
    assert len(list(tmp_path.glob("keygrasp-*.log"))) == 1
    assert str(tmp_path) in capsys.readouterr().err


def test_debug_shows_the_traceback(command, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path))
    monkeypatch.setenv("KEYGRASP_DEBUG", "1")
    command(lambda argv: 1 // 0)
    assert main(["try"]) == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_or_closed_disk_is_a_storage_error(code, command, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KEYGRASP_CACHE", str(tmp_path))
    command(_raising(OSError(code, os.strerror(code), "/some/file")))
    assert main(["try"]) == errors.StorageError.exit_code
    message = capsys.readouterr().err
    assert "/some/file" in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", [["--help"], ["objects", "list"]])
def test_a_reader_that_has_gone_is_no_fault(arguments):
    pytest.importorskip("pybullet_data")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "keygrasp.cli.main", *arguments],
        check=False,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(writer)
    assert done.returncode == 141
    assert "Error" not in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_options_end_with_status_2():
    done = _keygrasp("trials", "--objects", "many")
    assert done.returncode == 2
    assert "--objects" in done.stderr
    assert "Traceback" not in done.stderr


class _Point:
    """An entry point as ``importlib.metadata`` gives it."""

    def __init__(self, name, value):
        self.name, self.value = name, value
        self.dist = types.SimpleNamespace(name="a-package")


def test_commands_of_other_packages_are_listed_and_run(monkeypatch, capsys):
    module = types.ModuleType("keygrasp_test_added")
    seen = []
    module.up = lambda argv: seen.append(argv) or 7
    monkeypatch.setitem(sys.modules, "keygrasp_test_added", module)
    points = [_Point("up", "keygrasp_test_added:up"), _Point("trials", "keygrasp_test_added:evil")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points if group == cli.ENTRY_POINTS else [])
    assert main(["up", "--now"]) == 7
    assert seen == [["--now"]]
    assert "up" in cli.overview()
    assert "a-package" in cli.overview()
    assert cli.overview().count("from the package") == 1, "a package can't replace a command of the library"


def test_ctrl_c_while_the_command_is_still_imported_shows_no_traceback():
    interrupted = (
        "import sys\n"
        "class Early:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'keygrasp.cli.main':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Early())\n"
        "from keygrasp.cli.entry import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (errors.EXIT_INTERRUPTED, "")


def test_the_command_begins_with_few_imports():
    code = "import sys\nfrom keygrasp.cli.entry import main\nprint(*sorted(n for n in sys.modules if 'keygrasp' in n))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["keygrasp", "keygrasp.cli", "keygrasp.cli.entry"]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("EMPTY_", "Did you mean 'empty'?"),
        ("Unreachabel", "Did you mean 'unreachable'?"),
        ("nosuch", "Known: empty, unreachable, random"),
        (7, "Known: empty, unreachable, random"),
    ],
)
def test_only_what_is_near_is_suggested(name, remedy):
    assert errors.suggestion(name, ("empty", "unreachable", "random")) == remedy
