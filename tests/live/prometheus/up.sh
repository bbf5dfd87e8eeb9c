#!/usr/bin/env bash
# Brings up a real Prometheus on the loopback interface, which scrapes what an exporter serves under one path for each name.
#   ./up.sh DIR NAME...    DIR holds its files; ./down.sh DIR stops it
# Environment:
#   PORT        29600             where it listens
#   EXPORTER    127.0.0.1:29601   where http://EXPORTER/NAME is served, for each NAME
#   PROMETHEUS  prometheus        the binary, as of Debian's package of that name
set -euo pipefail
dir=$1
shift
port=${PORT:-29600}
exporter=${EXPORTER:-127.0.0.1:29601}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ -e "$dir/pid" ]; then
  echo "up.sh: $dir/pid is there: run down.sh first" >&2
  exit 1
fi
rm -rf "$dir/data"
{
  printf 'global: { scrape_interval: 1s, scrape_timeout: 1s }\nscrape_configs:\n'
  for name in "$@"; do
    printf '  - { job_name: %s, metrics_path: /%s, static_configs: [ { targets: ["%s"] } ] }\n' "$name" "$name" "$exporter"
  done
} >"$dir/prometheus.yml"
"${PROMETHEUS:-prometheus}" --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/data" --web.listen-address="127.0.0.1:$port" \
  --storage.tsdb.retention.time=1h >"$dir/log" 2>&1 </dev/null &
echo $! >"$dir/pid"
for _ in $(seq 100); do
  if curl -fsS "http://127.0.0.1:$port/-/ready" >/dev/null 2>&1; then
    echo "up: http://127.0.0.1:$port"
    exit 0
  fi
  kill -0 "$(cat "$dir/pid")" 2>/dev/null || break
  sleep 0.2
done
echo "up.sh: Prometheus is not ready" >&2
tail -n 20 "$dir/log" >&2
exit 1
