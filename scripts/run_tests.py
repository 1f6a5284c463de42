"""Runs the test suite: the library's tests on all cores, then those that drive the ROS 2 graph, a few files at a time.

The graph's tests mostly wait, for nodes and for messages, so that three of them fit on two cores; but within time
limits, so that no more may run beside them. Options go to pytest.
The last line sums up both runs; the exit status is 0 only if some test ran and none failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
MOST_WORKERS = 8
MOST_GRAPHS = 3
CORES = len(os.sched_getaffinity(0))


def parallel(workers: int) -> tuple[str, ...]:
    """Options that spread the test files over processes."""
    return ("-n", str(workers), "--dist", "loadfile")


#: Name, expression over pytest's markers, further options.
RUNS = (
    ("library", "not ros", parallel(min(MOST_WORKERS, CORES))),
    ("ROS 2 graph", "ros", parallel(min(MOST_GRAPHS, CORES + 1))),
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


def main(options: list[str]) -> int:
    """Run both parts; see the module's text."""
    environment = {"OMP_NUM_THREADS": "1"} | dict(os.environ) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = [f"-p{name}" for name in PLUGINS]
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-m", dest="marks", default="")  # pytest would take the last one only
    own, options = parser.parse_known_args(options)
    total: Counter[str] = Counter()
    status = PYTEST_OK
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, marks, further) in enumerate(RUNS):
            report = Path(folder) / f"{number}.xml"
            print(f"[test] {name}", flush=True)
            selection = f"({marks}) and ({own.marks})" if own.marks else marks
            command = [
                sys.executable,
                "-m",
                "pytest",
                *plugins,
                "-m",
                selection,
                *further,
                f"--junitxml={report}",
                *options,
            ]
            code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
            total += counted(report)
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
