"""Pick once on a running graph, from a terminal: ``python -m keygrasp_ros.pick_once [--namespace /left]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from keygrasp.errors import EXIT_INTERRUPTED, KeygraspError
from keygrasp_ros.client import PickClient
from keygrasp_ros.signals import stop_on_signal
from keygrasp_ros.waiting import CancelledError, wait_for

#: What the pick server suggests when it is ready.
COMMAND = "python -m keygrasp_ros.pick_once"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns 0 after a success, 1 after another outcome, 130 where Ctrl-C cancelled it."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Pick once on a running graph; Ctrl-C cancels.")
    parser.add_argument("--namespace", default="", help="namespace of the graph")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds to wait (default: %(default)s)")
    options = parser.parse_args(argv)
    stop = stop_on_signal()
    try:
        with PickClient("pick_once", options.namespace) as client:
            client.wait_ready(min(30.0, options.timeout), stop.is_set)
            return _pick(client, options.timeout, stop.is_set)
    except CancelledError:
        return EXIT_INTERRUPTED
    except KeygraspError as error:
        print(f"keygrasp: {error}", file=sys.stderr)
        return error.exit_code


def _pick(client: PickClient, seconds: float, stopped: Any) -> int:
    handle = client.send(on_feedback=_show)
    try:
        result, status = client.result(handle, seconds, stopped), 1
    except CancelledError:
        wait_for(handle.cancel_goal_async(), "the cancel was not answered", 5.0, lambda: False)
        result, status = client.result(handle, 5.0), EXIT_INTERRUPTED
    outcome = result.outcome
    print(f"{outcome.outcome}{': ' if outcome.message else ''}{outcome.message}")
    return 0 if outcome.success else status


def _show(feedback: Any) -> None:
    if feedback.refinement_step == 0:
        print(f"{feedback.stage}{': ' if feedback.message else ''}{feedback.message}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
