#!/usr/bin/env bash
# Stops what up.sh, node.sh and keeper.py started, by process id:  ./down.sh [DIR] [NAME...]   (default ./.lab, all of it)
set -euo pipefail
dir=$(cd "${1:-$PWD/.lab}" 2>/dev/null && pwd) || exit 0
shift || true
names=("$@")
if [ $# = 0 ]; then
  for f in "$dir"/pids/*; do [ -e "$f" ] && names+=("$(basename "$f")"); done
fi
ids() { # ids NAME: what runs under this name: the process that was started, and the tasks of a MiddleManager, which outlive it
  { grep -l -z -x -F -e "-Dlab.node=$dir/$1" /proc/[0-9]*/cmdline || true; } 2>/dev/null | cut -d/ -f3
}
signal() { # signal WHICH NAME
  for id in $(ids "$2"); do kill "-$1" "$id" 2>/dev/null || true; done
}
# ZooKeeper at the end: the others take their leave of it
for name in "${names[@]}"; do [ "$name" = zookeeper ] || signal TERM "$name"; done
for _ in $(seq 40); do
  left=""
  for name in "${names[@]}"; do [ "$name" = zookeeper ] || left+=$(ids "$name"); done
  [ -z "$left" ] && break
  sleep 0.2
done
for name in "${names[@]}"; do
  signal KILL "$name"
  rm -f "$dir/pids/$name"
done
echo "down: $dir"
