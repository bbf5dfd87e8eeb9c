#!/usr/bin/env bash
# Stops what up.sh started, by process id:  ./down.sh DIR
set -euo pipefail
dir=$(cd "${1:?a folder}" 2>/dev/null && pwd) || exit 0
[ -e "$dir/pid" ] || exit 0
pid=$(cat "$dir/pid")
# the id may be another process' by now
ours() { grep -z -q -x -F -e "--config.file=$dir/prometheus.yml" "/proc/$pid/cmdline" 2>/dev/null; }
if ours; then kill "$pid" 2>/dev/null || true; fi
for _ in $(seq 50); do
  ours || break
  sleep 0.1
done
if ours; then kill -9 "$pid" 2>/dev/null || true; fi
rm -f "$dir/pid"
echo "down: $dir"
