# shellcheck shell=sh
# The project's environment for this shell: Python packages, ROS 2 and the built workspace.
#
#   . scripts/env.sh          (bash or zsh from anywhere; other POSIX shells from the checkout's top folder)
#
# ROS_DOMAIN_ID and the RMW choice stay as the caller set them. Run `make setup` first.

# BASH_SOURCE exists in bash alone; zsh gives the sourced file as $0; other shells give no way to know.
# shellcheck disable=SC3028
_keygrasp_root=$(dirname -- "${BASH_SOURCE:-$0}")/..
[ -f "$_keygrasp_root/scripts/env.sh" ] || _keygrasp_root=.
_keygrasp_root=$(cd -- "$_keygrasp_root" && pwd)

if [ ! -f "$_keygrasp_root/.venv/bin/activate" ]; then
  echo "keygrasp: there is no $_keygrasp_root/.venv. Run: make setup" >&2
  unset _keygrasp_root
  return 1
fi

# shellcheck source=/dev/null
. "$_keygrasp_root/.venv/bin/activate"

if ! grep -qi '^include-system-site-packages *= *true' "$VIRTUAL_ENV/pyvenv.cfg"; then
  # ROS 2 comes from wheels inside the venv. Paths of a distribution would mix two builds of the same libraries.
  if [ -n "${ROS_DISTRO:-}" ]; then
    unset PYTHONPATH LD_LIBRARY_PATH CMAKE_PREFIX_PATH ROS_DISTRO
  fi
  export AMENT_PREFIX_PATH="$VIRTUAL_ENV"
  for _keygrasp_libs in "$VIRTUAL_ENV/lib" "$VIRTUAL_ENV"/lib/python3.*/site-packages/ros_*.libs; do
    case ":${LD_LIBRARY_PATH:-}:" in
      *":$_keygrasp_libs:"*) ;;
      *) export LD_LIBRARY_PATH="$_keygrasp_libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ;;
    esac
  done
  # The wheels restart each Python process to set LD_LIBRARY_PATH, unless this says that it is set.
  export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1
  unset _keygrasp_libs
fi

if [ -f "$_keygrasp_root/ros2_ws/install/local_setup.sh" ]; then
  if [ -n "${BASH_VERSION:-}" ]; then
    # shellcheck source=/dev/null
    . "$_keygrasp_root/ros2_ws/install/local_setup.bash"
  else
    # shellcheck disable=SC2034 # read by the script that comes next
    COLCON_CURRENT_PREFIX="$_keygrasp_root/ros2_ws/install"
    # shellcheck source=/dev/null
    . "$_keygrasp_root/ros2_ws/install/local_setup.sh"
    unset COLCON_CURRENT_PREFIX
  fi
fi
unset _keygrasp_root
