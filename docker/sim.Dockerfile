# keygrasp for simulation and training: the library, its simulation and the ROS 2 graph.
#
#   docker build -f docker/sim.Dockerfile -t keygrasp-sim .
#   docker run --rm keygrasp-sim                                   # ten picks through the graph
#   docker run --rm --gpus all -v "$PWD/runs:/home/keygrasp/runs" keygrasp-sim keygrasp train --help
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

FROM ros:jazzy
RUN useradd --create-home --uid 1001 keygrasp
COPY --from=build /opt/keygrasp /opt/keygrasp
USER 1001
WORKDIR /home/keygrasp
ENTRYPOINT ["/opt/keygrasp/docker/entrypoint.sh"]
CMD ["python", "-m", "keygrasp_ros.demo"]
