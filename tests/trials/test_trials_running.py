"""Whole runs with real worker processes: same results however they are run, killed, stopped or resumed."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from keygrasp.errors import ConfigurationError
from keygrasp.trials import PlannerSpec, Results, TrialsConfig, planner_spec, run_trials

_NAMES = ("149", "327", "356")


def _config(**changes):
    values = {"planners": (planner_spec("centroid"),), "names": _NAMES, "up_to": 1, "robust": False, "workers": 1}
    return TrialsConfig(**{**values, **changes})


def _facts(results: Results):
    """All of a run that must not vary: everything but the clocks."""
    facts = []
    for record in results.records:
        data = record.to_json()
        del data["build_s"]
        for attempt in data["attempts"]:
            for clock in ("plan_ms", "timings_ms", "execute_s"):
                del attempt[clock]
        facts.append(data)
    return facts


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing disturbed, and its journal."""
    journal = tmp_path_factory.mktemp("whole") / "run.jsonl"
    steps = []
    results = run_trials(_config(), steps.append, journal=journal)
    return results, journal, steps


def _wait_for_lines(path: Path, count: int, seconds: float = 120.0):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.02)
    pytest.fail(f"{path} did not reach {count} lines in {seconds} s")


def _children(pid: int):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _gone(pid: int):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.slow
def test_progress_and_records_of_a_whole_run(whole):
    results, journal, steps = whole
    assert [(step.done, step.total) for step in steps] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [(r.scene, r.planner) for r in results.records] == [
        (scene, planner) for scene in range(3) for planner in ("reference", "centroid")
    ]
    assert not any(record.fault or record.scene_fault for record in results.records)
    assert any(record.single_shot for record in results.records if record.planner == "reference")
    assert sum(steps[-1].trials.values()) == 6
    assert len(journal.read_text().splitlines()) == 1 + 6
    assert results.summary()["planners"]["reference"]["single_shot"]["trials"] == 3
    assert results.provenance["scenes_run_now"] == 3
    json.dumps(results.summary(), allow_nan=False)


@pytest.mark.slow
def test_two_workers_find_what_one_finds(whole):
    assert _facts(run_trials(_config(workers=2))) == _facts(whole[0])


@pytest.mark.slow
def test_a_finished_run_is_read_from_its_journal_and_another_configuration_refused(whole):
    results, journal, _ = whole
    again = run_trials(_config(workers=2), journal=journal)
    assert again.records == results.records
    assert again.provenance["scenes_run_now"] == 0
    with pytest.raises(ConfigurationError, match="seed"):
        run_trials(_config(seed=1), journal=journal)


@pytest.mark.slow
def test_a_journal_that_a_crash_cut_short_is_completed(whole, tmp_path):
    results, journal, _ = whole
    lines = journal.read_bytes().splitlines(keepends=True)
    torn = tmp_path / "torn.jsonl"
    # One planner's record of the second scene is whole, the other's is torn: the scene is done again.
    torn.write_bytes(b"".join(lines[:4]) + lines[4][:40])
    resumed = run_trials(_config(), journal=torn)
    assert resumed.provenance["scenes_run_now"] == 2
    assert _facts(resumed) == _facts(results)


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced_without_a_trace_in_the_results(whole, tmp_path):
    killed = []

    def kill_once(progress):
        if progress.done == 1 and not killed:
            killed.extend(_children(os.getpid()))
            os.kill(killed[0], signal.SIGKILL)

    results = run_trials(_config(), kill_once, journal=tmp_path / "run.jsonl")
    assert killed
    assert _facts(results) == _facts(whole[0])


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done_and_the_run_can_be_resumed(whole, tmp_path):
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            from pathlib import Path
            from keygrasp.trials import TrialsConfig, planner_spec, run_trials

            config = TrialsConfig(
                planners=(planner_spec("centroid"),), names={_NAMES!r}, up_to=1, robust=False, workers=1
            )
            try:
                run_trials(config, journal=Path(sys.argv[1]))
            except KeyboardInterrupt:
                sys.exit(130)
            """
        )
    )
    journal = tmp_path / "run.jsonl"
    process = subprocess.Popen([sys.executable, str(script), str(journal)], stderr=subprocess.PIPE)
    _wait_for_lines(journal, 3)
    workers = _children(process.pid)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=30)
    assert process.returncode == 130
    assert messages == b""
    assert workers
    assert all(_gone(pid) for pid in workers)
    assert journal.read_bytes().endswith(b"\n")
    done = (journal.read_bytes().count(b"\n") - 1) // 2
    assert 1 <= done < 3
    resumed = run_trials(_config(), journal=journal)
    assert resumed.provenance["scenes_run_now"] == 3 - done
    assert _facts(resumed) == _facts(whole[0])


def test_a_planner_that_can_not_be_built_ends_the_run():
    nobody = PlannerSpec("nobody", "keygrasp.trials.planners:no_such_function")
    with pytest.raises(ConfigurationError, match="no function"):
        run_trials(_config(planners=(nobody,), names=("149",)))


def test_an_object_that_does_not_exist_is_a_fault_of_its_trial():
    results = run_trials(_config(names=("no such object",)))
    assert {record.planner for record in results.records} == {"reference", "centroid"}
    assert all("no embedded object" in record.fault for record in results.records)
