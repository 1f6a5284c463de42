# keygrasp for simulation and training: the library, its simulation and the ROS 2 graph.
#
#   docker build -f docker/sim.Dockerfile -t keygrasp-sim .
#   docker run --rm -v keygrasp-runs:/home/keygrasp/runs keygrasp-sim             # ten picks through the graph, and a report
#   docker run --rm --gpus all -v keygrasp-runs:/home/keygrasp/runs keygrasp-sim keygrasp train --help
#
# The named volume belongs to the container's user (1001); a folder of the host must be writable for it.
#
# PyBullet has no wheel for this image's Python 3.12, so the build compiles it: several minutes. pip's default torch brings
# CUDA; with --build-arg PIP_EXTRA_INDEX_URL=URL pip can take a CPU build, which makes the image several gigabytes smaller.

FROM ros:jazzy AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Versions of Debian packages aren't pinned: the archive keeps only the newest one of each.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ gcc git make python3-colcon-common-extensions python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
ARG PIP_EXTRA_INDEX_URL=""
ENV KEYGRASP_EXTRAS=grasp,dexnet,hardware,llm PIP_NO_CACHE_DIR=1
WORKDIR /opt/keygrasp
COPY . .
RUN . /opt/ros/jazzy/setup.bash && make setup && rm -rf .cache ros2_ws/log
# The container's user can't write here, so modules are compiled now; some packages hold files that no Python 3 compiles.
RUN .venv/bin/python -m compileall -qq -j 0 .venv/lib src ros2_ws/src || true

FROM ros:jazzy
RUN useradd --create-home --uid 1001 keygrasp \
    && install -d -o keygrasp -g keygrasp /home/keygrasp/runs
COPY --from=build /opt/keygrasp /opt/keygrasp
USER 1001
WORKDIR /home/keygrasp
ENTRYPOINT ["/opt/keygrasp/docker/entrypoint.sh"]
CMD ["python", "-m", "keygrasp_ros.demo"]
