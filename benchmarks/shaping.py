"""Scores a millisecond of the language model's potential: cached in batches, and uncached against a local server.

The server works on so many requests at once (its slots) and lets others wait, as llama.cpp's and vLLM's do: its limit
is slots over seconds. A client with as many requests under way as there are slots leaves each idle from an answer to
the next request; with twice as many the next one waits at the server already. Beside each run, with the same server, a
bare HTTP connection a thread tells what of the limit is lost to the server and the machine.

python benchmarks/shaping.py --json benchmarks/results/shaping-client.json
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import sys
import tempfile
import threading
import time
import tracemalloc
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from keygrasp.files import write_json
from keygrasp.provenance import provenance
from keygrasp.scene import Task
from keygrasp.scene.symbols import COLUMN
from keygrasp.shaping.grasp_mdp import grasp_mdp
from keygrasp.shaping.llm import LLMPotential
from keygrasp.shaping.llm_client import LLMConfig
from keygrasp.shaping.llm_prompt import messages

# The server that misbehaves in the tests behaves here.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from chat_server import ChatServer

_BATCH = 4096
#: Seconds that the server takes for a request, and its slots.
_SERVERS = ((0.05, 4), (0.05, 16), (0.2, 8), (0.2, 32))
_SETTINGS = tuple((seconds, slots, times * slots) for seconds, slots in _SERVERS for times in (1, 2))


def states(count: int) -> np.ndarray:
    """So many states that differ after quantisation."""
    rows = np.repeat(grasp_mdp().rows[:1], count, axis=0)
    rows[:, COLUMN["gripper_x"]] = 0.005 * (np.arange(count) % 200)
    rows[:, COLUMN["gripper_y"]] = 0.005 * (np.arange(count) // 200)
    return rows


def serve(server_seconds: float, slots: int, pipe: Connection) -> None:
    """A server in a process of its own, until the other end of the pipe says something."""
    free = threading.Semaphore(slots)

    def behave(*_: Any) -> str:
        with free:
            time.sleep(server_seconds)
        return '{"score": 0.5}'

    with ChatServer(behave) as server:
        pipe.send(server.url)
        pipe.recv()


def uncached(server_seconds: float, slots: int, at_once: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Scores a second of states that were never seen, once connections are open; then those of bare connections."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(server_seconds, slots, there))
    server.start()
    url = here.recv()
    limit = slots / server_seconds
    count, first = round(seconds * limit / at_once) * at_once, 2 * at_once
    rows = states(first + count)
    config = LLMConfig(base_url=url, cache=folder / f"{server_seconds}-{slots}-{at_once}.db", concurrency=at_once)
    with LLMPotential(config) as potential:
        potential.values(rows[:first], Task())
        begin, used = time.perf_counter(), time.process_time()
        potential.values(rows[first:], Task())
        wall, cpu = time.perf_counter() - begin, time.process_time() - used
        assert potential.counters.calls == first + count
    bare = bare_rate(url, rows[0], count // at_once, at_once)
    here.send("end")
    server.join()
    return {
        "server_seconds": server_seconds,
        "slots": slots,
        "at_once": at_once,
        "scores_a_second": count / wall,
        "limit_of_the_server": limit,
        "share_of_the_limit": count / wall / limit,
        "share_of_bare_connections": bare / limit,
        "cpu_milliseconds_a_score": cpu / count * 1e3,
    }


def bare_rate(url: str, row: np.ndarray, requests: int, at_once: int) -> float:
    """Answers a second of ``at_once`` threads, each with an open connection and ``requests`` requests."""
    parts = urlsplit(url)
    body = json.dumps({"model": "default", "messages": messages(row, Task()), "temperature": 0})

    opened = threading.Barrier(at_once + 1)

    def ask() -> None:
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port)
        for number in range(1 + requests):
            if number == 1:
                opened.wait()
            connection.request("POST", f"{parts.path}/chat/completions", body, {"Content-Type": "application/json"})
            connection.getresponse().read()
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    opened.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    return requests * at_once / (time.perf_counter() - begin)


def cached(seconds: float, folder: Path) -> dict[str, Any]:
    rows = states(_BATCH)
    with (
        ChatServer(lambda *_: '{"score": 0.5}') as server,
        LLMPotential(LLMConfig(base_url=server.url, cache=folder / "cached.db", max_calls=0)) as potential,
    ):
        potential.values(rows, Task())  # the budget is 0: all get the fallback, which is cached like a score
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        potential.values(rows, Task())
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        calls, begin, used = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - begin < seconds:
            potential.values(rows, Task())
            calls += 1
        wall, cpu = time.perf_counter() - begin, time.process_time() - used
    scores = calls * _BATCH
    return {
        "batch": _BATCH,
        "scores_a_millisecond": scores / wall / 1e3,
        "scores_a_cpu_millisecond": scores / cpu / 1e3,
        "bytes_grown_by_a_repeated_batch": grown,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of each measurement")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        known = cached(arguments.seconds, folder)
        new = [uncached(*setting, arguments.seconds, folder) for setting in _SETTINGS]
    print(f"cached, batches of {_BATCH}: {known['scores_a_millisecond']:.0f} scores/ms wall clock, ", end="")
    print(f"{known['scores_a_cpu_millisecond']:.0f} scores a ms of processor time")
    for row in new:
        print(
            f"uncached, server takes {1e3 * row['server_seconds']:.0f} ms with {row['slots']:2d} slots, "
            f"{row['at_once']:2d} at once: {row['scores_a_second']:6.1f} scores/s, "
            f"{100 * row['share_of_the_limit']:.0f}% of the server's limit, bare connections "
            f"{100 * row['share_of_bare_connections']:.0f}%, {row['cpu_milliseconds_a_score']:.2f} ms of processor time"
        )
    if arguments.json:
        write_json(arguments.json, {"cached": known, "uncached": new, "provenance": provenance()})


if __name__ == "__main__":
    main()
