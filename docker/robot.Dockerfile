# keygrasp for a robot's computer: the ROS 2 graph, the planners and the robots' drivers; no training tools.
#
#   docker build -f docker/robot.Dockerfile -t keygrasp-robot .
#   docker run --rm --network host --device /dev/ttyUSB0 keygrasp-robot keygrasp up --help
#
# The container's user is in the group `dialout`, which owns serial ports on Debian and Ubuntu. Notes on the build time and
# on torch are in sim.Dockerfile.

FROM ros:jazzy AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Versions of Debian packages aren't pinned: the archive keeps only the newest one of each.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ gcc git make python3-colcon-common-extensions python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
ARG PIP_EXTRA_INDEX_URL=""
ENV KEYGRASP_EXTRAS=grasp,hardware PIP_NO_CACHE_DIR=1
WORKDIR /opt/keygrasp
COPY . .
RUN . /opt/ros/jazzy/setup.bash && make setup && rm -rf .cache ros2_ws/log
# The container's user can't write here, so modules are compiled now; some packages hold files that no Python 3 compiles.
RUN .venv/bin/python -m compileall -qq -j 0 .venv/lib src ros2_ws/src || true

FROM ros:jazzy
RUN useradd --create-home --uid 1001 --groups dialout keygrasp \
    && install -d -o keygrasp -g keygrasp /home/keygrasp/runs
COPY --from=build /opt/keygrasp /opt/keygrasp
USER 1001
WORKDIR /home/keygrasp
# Every node of the graph reports on /diagnostics once a second; silence means that the graph is dead or stuck.
HEALTHCHECK --interval=30s --timeout=15s --start-period=60s --retries=3 \
    CMD ["/opt/keygrasp/docker/entrypoint.sh", "timeout", "10", "ros2", "topic", "echo", "--once", "/diagnostics"]
ENTRYPOINT ["/opt/keygrasp/docker/entrypoint.sh"]
CMD ["keygrasp", "up", "sim"]
