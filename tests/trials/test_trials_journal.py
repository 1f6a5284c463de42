"""The journal survives torn lines, full disks and a second writer, and refuses another configuration."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keygrasp.errors import ConfigurationError, InputError, StorageError
from keygrasp.trials.journal import Journal, config_hash

_CONFIG = {"rule": "E", "planners": ["reference"], "seed": 3}


def _journal(path, records=({"scene": 0}, {"scene": 1})):
    with Journal(path, _CONFIG) as journal:
        for record in records:
            journal.append([record])
    return path


def test_records_come_back_in_order(tmp_path):
    path = _journal(tmp_path / "deep" / "run.jsonl")
    with Journal(path, dict(reversed(_CONFIG.items()))) as journal:
        assert journal.records == [{"scene": 0}, {"scene": 1}]
        journal.append([{"scene": 2}, {"scene": 3}])
    lines = path.read_text().splitlines()
    assert len(lines) == 5
    assert json.loads(lines[0])["config_hash"] == config_hash(_CONFIG)


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(1, 300))
def test_a_torn_end_loses_the_torn_line_only(tmp_path_factory, cut):
    path = _journal(tmp_path_factory.mktemp("torn") / "run.jsonl")
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    whole = max(0, data[:-cut].count(b"\n") - 1)
    with Journal(path, _CONFIG) as journal:
        assert journal.records == [{"scene": i} for i in range(whole)]
        journal.append([{"scene": 9}])
    with Journal(path, _CONFIG) as journal:
        assert journal.records == [*({"scene": i} for i in range(whole)), {"scene": 9}]


def test_another_configuration_is_refused_and_named(tmp_path):
    path = _journal(tmp_path / "run.jsonl")
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match=r"different: seed"):
        Journal(path, {**_CONFIG, "seed": 4})
    assert path.read_bytes() == before


@pytest.mark.parametrize("content", ["hello", "hello\n", '{"a": 1}\n', '{"a": 1}', "[1]\n"])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with pytest.raises(InputError):
        Journal(path, _CONFIG)
    assert path.read_text() == content


def test_damage_in_the_middle_is_named_by_its_line(tmp_path):
    path = _journal(tmp_path / "run.jsonl")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{torn", lines[2]]) + "\n")
    with pytest.raises(InputError, match="line 2"):
        Journal(path, _CONFIG)


def test_two_writers_are_refused(tmp_path):
    with Journal(tmp_path / "run.jsonl", _CONFIG), pytest.raises(InputError, match="another run"):
        Journal(tmp_path / "run.jsonl", _CONFIG)


def test_a_full_device_is_a_storage_error():
    with pytest.raises(StorageError, match="No space left"):
        Journal(Path("/dev/full"), _CONFIG)


def test_when_the_disk_fills_up_what_was_written_is_intact(tmp_path):
    script = textwrap.dedent(
        """
        import resource, sys
        from pathlib import Path
        from keygrasp.errors import StorageError
        from keygrasp.trials.journal import Journal

        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        with Journal(Path(sys.argv[1]), {"seed": 1}) as journal:
            try:
                for index in range(100):
                    journal.append([{"scene": index, "text": "x" * 300}])
            except StorageError as error:
                print(index, error.exit_code)
        """
    )
    path = tmp_path / "run.jsonl"
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    written, code = map(int, done.stdout.split())
    assert code == 4
    assert written > 1
    with Journal(path, {"seed": 1}) as journal:
        assert [record["scene"] for record in journal.records] == list(range(written))
    assert path.read_bytes().endswith(b"\n")
