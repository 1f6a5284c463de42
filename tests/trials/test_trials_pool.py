"""Worker processes that die, hang, raise and are interrupted: real processes, real signals."""

import os
import textwrap
import time
from pathlib import Path

import pytest

from keygrasp.errors import ConfigurationError, InputError, MeshError, StorageError, WorkerError
from keygrasp.trials.pool import Done, run_tasks

_HANDLER = "keygrasp.misbehaving:build"


@pytest.fixture
def misbehaving(tmp_path, monkeypatch):
    """Make a module with handlers of all sorts known to worker processes (they accept keygrasp's modules only)."""
    source = textwrap.dedent(
        """
        import os, signal, sys, time
        from pathlib import Path
        from keygrasp import errors

        def build(setup):
            if setup.get("raise"):
                raise getattr(errors, setup["raise"])("can't build", "do something")
            if setup.get("exit"):
                print("missing library", file=sys.stderr)
                os._exit(9)
            def do(task):
                return globals()[task["do"]](**{k: v for k, v in task.items() if k != "do"})
            return do

        def fill():
            raise OSError(28, "No space left on device")

        def double(x):
            print("noise on the standard output")
            os.write(1, b"noise from C\\n")
            return {"twice": 2 * x, "pid": os.getpid(), "threads": os.environ["OMP_NUM_THREADS"]}

        def die(mark, times):
            path = Path(mark)
            count = len(path.read_text()) if path.exists() else 0
            path.write_text("x" * (count + 1))
            if count < times:
                os.kill(os.getpid(), signal.SIGKILL)
            return {"tries": count + 1}

        def hang():
            time.sleep(600)

        def fail(kind):
            raise getattr(errors, kind, ValueError)("bad thing")
        """
    )
    (tmp_path / "misbehaving_source.py").write_text(source)
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, types\n"
        "module = types.ModuleType('keygrasp.misbehaving')\n"
        f"exec(open({str(tmp_path / 'misbehaving_source.py')!r}).read(), module.__dict__)\n"
        "sys.modules['keygrasp.misbehaving'] = module\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _children():
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


def test_all_tasks_are_done_on_one_thread_each_whatever_libraries_print(misbehaving):
    ends = list(run_tasks(_HANDLER, {}, [{"do": "double", "x": x} for x in range(7)], workers=2))
    assert {end.index: end.result["twice"] for end in ends} == {x: 2 * x for x in range(7)}
    assert {end.result["threads"] for end in ends} == {"1"}
    assert 1 <= len({end.result["pid"] for end in ends}) <= 2
    assert not any(_alive(end.result["pid"]) for end in ends)


def test_no_tasks_start_no_workers(misbehaving):
    assert list(run_tasks(_HANDLER, {"exit": True}, [], workers=2)) == []


def test_a_killed_worker_is_replaced_and_its_task_done_again(misbehaving, tmp_path):
    tasks = [{"do": "double", "x": 1}, {"do": "die", "mark": str(tmp_path / "mark"), "times": 1}]
    ends = {end.index: end for end in run_tasks(_HANDLER, {}, tasks, workers=1)}
    assert ends[0].result["twice"] == 2
    assert ends[1].result == {"tries": 2}


def test_a_task_that_kills_its_worker_twice_is_given_up_and_the_rest_goes_on(misbehaving, tmp_path):
    tasks = [{"do": "die", "mark": str(tmp_path / "mark"), "times": 9}, {"do": "double", "x": 3}]
    ends = {end.index: end for end in run_tasks(_HANDLER, {}, tasks, workers=1)}
    assert ends[0].result is None
    assert "died 2 times" in ends[0].problem
    assert "SIGKILL" in ends[0].problem
    assert ends[1].result["twice"] == 6
    assert (tmp_path / "mark").read_text() == "xx"


def test_a_hung_task_is_stopped(misbehaving):
    others = _children()  # helpers of other libraries in this process
    tasks = [{"do": "hang"}, {"do": "double", "x": 3}]
    ends = {end.index: end for end in run_tasks(_HANDLER, {}, tasks, workers=1, timeout_s=1.0)}
    assert "no answer within 1 s" in ends[0].problem
    assert ends[1].result["twice"] == 6
    assert not any(_alive(pid) for pid in _children() - others)


def test_an_error_in_a_task_is_its_result_and_is_not_retried(misbehaving):
    tasks = [{"do": "fail", "kind": "MeshError"}, {"do": "fail", "kind": "odd"}, {"do": "double", "x": 1}]
    ends = {end.index: end for end in run_tasks(_HANDLER, {}, tasks, workers=1)}
    assert ends[0] == Done(0, None, "bad thing")
    assert ends[1].problem == "ValueError: bad thing"
    assert ends[2].result["twice"] == 2


@pytest.mark.parametrize(("kind", "raised"), [("MeshError", MeshError), ("ConfigurationError", ConfigurationError)])
def test_an_error_while_building_ends_the_run_with_the_same_error(misbehaving, kind, raised):
    with pytest.raises(raised, match=r"can't build\. do something"):
        list(run_tasks(_HANDLER, {"raise": kind}, [{"do": "hang"}], workers=1))


def test_a_full_disk_in_a_worker_ends_the_run(misbehaving):
    with pytest.raises(StorageError):
        list(run_tasks(_HANDLER, {}, [{"do": "fail", "kind": "StorageError"}], workers=1))
    with pytest.raises(StorageError, match=r"can't write .*: No space left.*TMPDIR"):
        list(run_tasks(_HANDLER, {}, [{"do": "fill"}], workers=1))


def test_workers_that_never_start_end_the_run_with_their_last_words(misbehaving):
    with pytest.raises(WorkerError, match="exit status 9: missing library"):
        list(run_tasks(_HANDLER, {"exit": True}, [{"do": "hang"}] * 5, workers=2))


def test_closing_the_iterator_stops_the_workers(misbehaving):
    others = _children()
    ends = run_tasks(_HANDLER, {}, [{"do": "double", "x": 1}, {"do": "hang"}, {"do": "hang"}], workers=2)
    assert next(ends).result["twice"] == 2
    started = _children() - others
    assert any(_alive(pid) for pid in started)
    begin = time.monotonic()
    ends.close()
    assert time.monotonic() - begin < 5
    assert not any(_alive(pid) for pid in started)


def test_only_factories_of_this_package_are_accepted():
    with pytest.raises(ConfigurationError, match="no factory"):
        list(run_tasks("os:system", {}, [{}], workers=1))


def test_senseless_numbers_are_refused():
    with pytest.raises(InputError):
        run_tasks(_HANDLER, {}, [{}], workers=0)
    with pytest.raises(InputError):
        run_tasks(_HANDLER, {}, [{}], workers=1, timeout_s=0)
