#!/usr/bin/env bash
# Stops what up.sh, node.sh and keeper.py started, by process id:  ./down.sh [DIR] [NAME...]   (default ./.lab, all of it)
set -euo pipefail
dir=$(cd "${1:-$PWD/.lab}" 2>/dev/null && pwd) || exit 0
shift || true
ours() { # ours PID NAME: is it still the process that was started under this name, or one of its tasks?
  { tr '\0' ' ' <"/proc/$1/cmdline"; } 2>/dev/null | grep -q -F -- "-Dlab.node=$dir/$2 "
}
all() { # the ids of a name: the process itself, and the tasks of a MiddleManager, which outlive it
  local id
  cat "$dir/pids/$1" 2>/dev/null || true
  for id in /proc/[0-9]*; do
    if ours "${id#/proc/}" "$1"; then echo "${id#/proc/}"; fi
  done
}
names=("$@")
if [ $# = 0 ]; then
  for f in "$dir"/pids/*; do [ -e "$f" ] && names+=("$(basename "$f")"); done
fi
# ZooKeeper last: the others take their leave of it
ids=()
for name in "${names[@]}"; do
  for id in $(all "$name" | sort -u); do
    if ours "$id" "$name"; then
      [ "$name" = zookeeper ] || kill "$id" 2>/dev/null || true
      ids+=("$id:$name")
    fi
  done
done
for one in "${ids[@]}"; do
  id=${one%%:*} name=${one#*:}
  [ "$name" = zookeeper ] && continue
  for _ in $(seq 100); do
    kill -0 "$id" 2>/dev/null || break
    sleep 0.1
  done
  if ours "$id" "$name"; then kill -9 "$id" 2>/dev/null || true; fi
done
for one in "${ids[@]}"; do
  if [ "${one#*:}" = zookeeper ]; then kill -9 "${one%%:*}" 2>/dev/null || true; fi
done
for name in "${names[@]}"; do rm -f "$dir/pids/$name"; done
echo "down: $dir"
