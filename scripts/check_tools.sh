#!/bin/sh
# Looks for the tools that the set-up needs. Prints the path of the Python to use; where something is missing, names it
# in one line on stderr together with the command that installs it, and exits with 1.
#
# KEYGRASP_PYTHON=PATH chooses the Python; otherwise the one that .venv was made with, then python3.12, 3.11 and python3.

set -u
root=$(cd -- "$(dirname -- "$0")/.." && pwd)

# real NAME: the interpreter behind a name: not a shim, and not the Python of an activated venv, which may be replaced.
real() {
  "$1" -S -c 'import os, sys; print(os.path.realpath(sys._base_executable))' 2>/dev/null
}

# facts PYTHON: which of "version", "headers", "venv" and "ros" the interpreter has, as words.
facts() {
  "$1" -c '
import importlib.util, os, sys, sysconfig
if sys.implementation.name == "cpython" and (3, 11) <= sys.version_info[:2] <= (3, 12):
    print("version")
if os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    print("headers")
if all(map(importlib.util.find_spec, ("ensurepip", "venv"))):
    print("venv")
if "ROS_DISTRO" in os.environ:
    import rclpy
    print("ros")
' 2>/dev/null | tr '\n' ' '
}

if [ -n "${KEYGRASP_PYTHON:-}" ]; then
  set -- "$KEYGRASP_PYTHON"
else
  set -- "$(sed -n 's/^executable *= *//p' "$root/.venv/pyvenv.cfg" 2>/dev/null)" python3.12 python3.11 python3 /usr/bin/python3
fi

python=''  # has all that is needed
partial='' # has the right version, but not all
has=''     # facts about it
# consider WISH NAME...: sets these from the first fitting names; WISH is "ros" or "version".
consider() {
  wish=$1
  shift
  for name in "$@"; do
    candidate=$(real "$name") || continue
    found=$(facts "$candidate")
    case $found in version*"${wish#version}"*) ;; *) continue ;; esac
    [ -n "$partial" ] || { partial=$candidate && has=$found; }
    case $found in *headers\ venv*) python=$candidate && return ;; esac
  done
}
# A sourced ROS 2 belongs to one Python; without one, or where that Python is too old or new, any will do.
[ -z "${ROS_DISTRO:-}" ] || consider ros "$@"
[ -n "$partial" ] || consider version "$@"

missing=''
packages=''
need() {
  missing="$missing${missing:+, }$1"
  packages="$packages $2"
}
if [ -z "$python" ]; then
  if [ -n "$partial" ]; then
    version=$("$partial" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    case $has in *headers*) ;; *) need "the headers of Python $version" "python$version-dev" ;; esac
    case $has in *venv*) ;; *) need "the venv module of Python $version" "python$version-venv" ;; esac
  else
    version=$(. /etc/os-release 2>/dev/null && [ "${ID:-} ${VERSION_ID:-}" = "ubuntu 24.04" ] && echo 3.12 || echo 3.11)
    need "Python 3.11 or 3.12${KEYGRASP_PYTHON:+ (KEYGRASP_PYTHON=$KEYGRASP_PYTHON is neither)}" "python$version python$version-dev python$version-venv"
  fi
fi
command -v git >/dev/null 2>&1 || need git git
command -v make >/dev/null 2>&1 || need make make
command -v "${CC:-cc}" >/dev/null 2>&1 || need "a C compiler" gcc
command -v "${CXX:-c++}" >/dev/null 2>&1 || need "a C++ compiler" g++

if [ -n "$missing" ]; then
  [ "$(id -u)" = 0 ] && sudo= || sudo="sudo "
  echo "keygrasp: missing: $missing. Install with: ${sudo}apt-get update && ${sudo}apt-get install -y$packages" >&2
  exit 1
fi
echo "$python"
