#!/usr/bin/env bash
# Stops what up.sh started, by process id:  ./down.sh [DIR] [NAME...]   (default ./.lab, all of it)
set -euo pipefail
dir=$(cd "${1:-$PWD/.lab}" 2>/dev/null && pwd) || exit 0
shift || true
names=("$@")
if [ $# = 0 ]; then names=(kube-controller-manager kube-apiserver etcd); fi
# the process of an id is still the one that was started here when its arguments name this folder
ours() { grep -q -a -F -e "$dir/" "/proc/$1/cmdline" 2>/dev/null; }
for name in "${names[@]}"; do
  id=$(cat "$dir/pids/$name" 2>/dev/null || true)
  if [ -n "$id" ] && ours "$id"; then
    kill -TERM "$id" 2>/dev/null || true
    for _ in $(seq 50); do
      ours "$id" || break
      sleep 0.1
    done
    if ours "$id"; then kill -KILL "$id" 2>/dev/null || true; fi
  fi
  rm -f "$dir/pids/$name"
done
echo "down: $dir ${*:-}"
