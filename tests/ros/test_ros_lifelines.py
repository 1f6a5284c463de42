"""Who is known to live, where servers of the same name come and go."""

import contextlib
import threading
import time

import pytest
import rclpy
from keygrasp_ros.executor import LeanExecutor
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.lifelines import _GRACE_SECONDS, Lifeline, offer
from keygrasp_ros.topics import EXTRACT
from keygrasp_ros.waiting import Acquaintance, wait_until
from ros_calls import never

pytestmark = pytest.mark.ros


@contextlib.contextmanager
def node(name, domain):
    context = rclpy.Context()
    rclpy.init(context=context, domain_id=domain)
    made = rclpy.create_node(name, context=context)
    try:
        yield made
    finally:
        made.destroy_node()
        rclpy.try_shutdown(context=context)


@pytest.mark.parametrize("own", [True, False])
def test_a_second_graph_that_ends_does_not_take_the_first_one_with_it(own):
    """``keygrasp up`` in two terminals, and Ctrl-C in the second one."""
    domain = free_domain()
    with node("first", domain) as first:
        known = Acquaintance(lambda: True)
        line = Lifeline(first, EXTRACT, known.again)
        executor = LeanExecutor(2, context=first.context)
        executor.add_node(first)
        spinner = threading.Thread(target=executor.spin, daemon=True)
        spinner.start()
        if own:
            served = offer(first, EXTRACT)
        with node("second", domain) as second:
            kept = offer(second, EXTRACT)
            wait_until(lambda: line._alive == 1, "the second was not seen", 20.0, never)
            assert not line.is_cut
            wait_until(known, "nobody got acquainted", 5.0, never)
        wait_until(lambda: line._alive == 0, "the second's end was not seen", 20.0, never)
        assert not line.is_cut, "it may be late for once"
        assert not known(), "who comes next is not known yet"
        time.sleep(_GRACE_SECONDS)
        assert line.is_cut is not own
        executor.shutdown()
        spinner.join(10.0)
    assert kept is not None
    assert not own or served is not None
