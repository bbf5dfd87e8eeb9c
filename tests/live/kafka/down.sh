#!/usr/bin/env bash
# Stops what up.sh and lab.sh started, by process id:  ./down.sh [DIR] [NAME...]   (default ./.lab, all of it)
set -euo pipefail
dir=$(cd "${1:-$PWD/.lab}" 2>/dev/null && pwd) || exit 0
shift || true
names=("$@")
if [ $# = 0 ]; then
  for f in "$dir"/pids/*; do [ -e "$f" ] && names+=("$(basename "$f")"); done
fi
ids() { { grep -l -z -x -F -e "-Dlab.node=$dir/$1" /proc/[0-9]*/cmdline || true; } 2>/dev/null | cut -d/ -f3; }
signal() { for id in $(ids "$2"); do kill "-$1" "$id" 2>/dev/null || true; done; }
# clients first, so that they take their leave of a broker that is there
for which in client broker; do
  some=()
  for name in "${names[@]}"; do
    if { [ "$name" = broker ] && [ $which = broker ]; } || { [ "$name" != broker ] && [ $which = client ]; }; then some+=("$name"); fi
  done
  # a process that was stopped takes no other signal until it goes on
  for name in "${some[@]}"; do signal TERM "$name"; signal CONT "$name"; done
  for _ in $(seq 50); do
    left=""
    for name in "${some[@]}"; do left+=$(ids "$name"); done
    [ -z "$left" ] && break
    sleep 0.1
  done
  for name in "${some[@]}"; do
    signal KILL "$name"
    rm -f "$dir/pids/$name"
  done
done
echo "down: $dir ${*:-}"
