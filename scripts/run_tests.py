"""Runs the test suite: the library's tests on all cores, then those that drive the ROS 2 graph, a few files at a time.

The graph's tests mostly wait, for nodes and for messages, so that three of them fit on two cores; but within time
limits, so that no more may run beside them. Those that fail there are tried once more, alone and in new processes: what
passes then was too slow for its limit in the crowd, and is named. Options go to pytest; with options nothing is tried
again. The last line sums up all runs; the exit status is 0 only if some test ran and none failed for good.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
MOST_WORKERS = 8
MOST_GRAPHS = 3
CORES = len(os.sched_getaffinity(0))


def parallel(workers: int) -> tuple[str, ...]:
    """Options that spread the test files over processes, the longest first, or in the order of an exploring run."""
    order = ("--no-loadscope-reorder",) if os.environ.get("KEYGRASP_EXPLORE") else ()
    return ("-n", str(workers), "--dist", "loadfile", *order)


#: Name, expression over pytest's markers, further options, and how many failed tests at the most are tried once more.
RUNS = (
    ("library", "not ros", parallel(min(MOST_WORKERS, CORES)), 0),
    ("ROS 2 graph", "ros", parallel(min(MOST_GRAPHS, CORES + 1)), 20),
)
#: The only plugins that are loaded: ROS 2 distributions bring some that this pytest refuses, and then no test runs.
PLUGINS = ("xdist.plugin", "pytest_timeout", "_hypothesis_pytestplugin")
PYTEST_OK, PYTEST_FAILED, PYTEST_NO_TESTS = 0, 1, 5
EXIT_INTERRUPTED = 130


def counted(report: Path) -> Counter[str]:
    """Counts of passed, failed and skipped tests in a JUnit report; empty if there is none."""
    counts: Counter[str] = Counter()
    if not report.exists():
        return counts
    # The report was written a moment ago by pytest itself.
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):  # noqa: S314
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        counts.update(failed=failed, skipped=skipped, passed=int(suite.get("tests", 0)) - failed - skipped)
    return counts


def failed_tests(report: Path) -> list[str]:
    """Ids of the tests that failed, from a JUnit report of the family xunit1."""
    found = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):  # noqa: S314
        if case.find("failure") is None and case.find("error") is None:
            continue
        file, name, owner = case.get("file", ""), case.get("name", ""), case.get("classname", "")
        classes = owner.removeprefix(file.removesuffix(".py").replace("/", ".")).strip(".")
        found.append("::".join([file, *filter(None, classes.split(".")), name]))
    return list(dict.fromkeys(found))


def pytest(report: Path, options: Sequence[str]) -> int:
    """Run pytest; returns its exit status."""
    environment = {"OMP_NUM_THREADS": "1"} | dict(os.environ) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = [f"-p{name}" for name in PLUGINS]
    reporting = [f"--junitxml={report}", "-ojunit_family=xunit1"]
    command = [sys.executable, "-m", "pytest", *plugins, *reporting, *options]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def once_more(report: Path, counts: Counter[str], most: int) -> tuple[int, Counter[str]]:
    """Try failed tests again, one after the other; returns the exit status and the counts of both tries."""
    failed = failed_tests(report)
    if not 0 < len(failed) <= most:
        return PYTEST_FAILED, counts
    print(f"[test] {len(failed)} once more, alone", flush=True)
    again = report.with_name("again.xml")
    code, second = pytest(again, failed), counted(again)
    if second.total() < len(failed):
        return PYTEST_FAILED, counts
    good = set(failed) - set(failed_tests(again))
    for name in sorted(good):
        print(f"keygrasp: {name} failed among others and passed alone", flush=True)
    return code, counts + Counter(passed=len(good), failed=-len(good))


def main(options: list[str]) -> int:
    """Run both parts; see the module's text."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-m", dest="marks", default="")  # pytest would take the last one only
    own, further = parser.parse_known_args(options)
    total: Counter[str] = Counter()
    status = PYTEST_OK
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, marks, spread, most) in enumerate(RUNS):
            report = Path(folder) / f"{number}.xml"
            print(f"[test] {name}", flush=True)
            selection = f"({marks}) and ({own.marks})" if own.marks else marks
            code = pytest(report, ["-m", selection, *spread, *further])
            counts = counted(report)
            if code == PYTEST_FAILED and not options:
                code, counts = once_more(report, counts, most)
            total += counts
            if code not in (PYTEST_OK, PYTEST_NO_TESTS):
                status = code
    if not total["passed"] and status == PYTEST_OK:
        print("keygrasp: no test ran", file=sys.stderr)
        status = PYTEST_NO_TESTS
    print(f"keygrasp: {total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped", flush=True)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
