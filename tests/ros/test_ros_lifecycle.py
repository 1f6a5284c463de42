"""Changes of state that whoever is on the network may ask of a node that owns something."""

import pytest
from keygrasp_ros.client import PickClient
from keygrasp_ros.isolation import free_domain
from keygrasp_ros.lifecycle import OwningNode
from keygrasp_ros.running import spinning
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from ros_calls import Calls

pytestmark = pytest.mark.ros


class Owner(OwningNode):
    """Owns nothing."""

    def _nothing(self):
        pass

    _set_up = _begin = _come_to_rest = _put_away = _nothing


@pytest.fixture(scope="module")
def call(own_corner):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", str(free_domain()))
        with spinning([lambda: Owner("owner")]), PickClient("lifecycle_client") as client:
            yield Calls(client.node)


@pytest.fixture
def change(call):
    def change(number=0, label=""):
        transition = Transition(id=number, label=label)
        return call(ChangeState, "owner/change_state", ChangeState.Request(transition=transition), 5.0).success

    return change


@pytest.mark.parametrize(
    "asked",
    [
        {"number": Transition.TRANSITION_ACTIVATE},
        {"number": Transition.TRANSITION_ACTIVE_SHUTDOWN},
        {"number": Transition.TRANSITION_ON_CONFIGURE_SUCCESS},
        {"number": 255},
        {"label": "deactivate"},
        {"label": "dance"},
    ],
)
def test_what_the_state_does_not_allow_is_refused_and_the_node_lives_on(call, change, asked):
    assert not change(**asked)
    state = call(GetState, "owner/get_state", GetState.Request()).current_state
    assert state.id == State.PRIMARY_STATE_UNCONFIGURED


def test_twice_the_same_is_refused_the_second_time(change):
    for number in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE, Transition.TRANSITION_DEACTIVATE):
        assert change(number)
        assert not change(number)
    assert change(label="activate")
    assert not change(label="activate")
