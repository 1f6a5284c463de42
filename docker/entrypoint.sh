#!/bin/bash
# Runs a command of the container with ROS 2, the venv and the workspace activated.
set -e
# shellcheck source=/dev/null
. /opt/ros/jazzy/setup.bash
# shellcheck source=/dev/null
. /opt/keygrasp/scripts/env.sh
exec "$@"
