#!/usr/bin/env bash
# Brings up a real Flink cluster on the loopback interface, and submits the lab's jobs to it.
#   ./up.sh [DIR]          DIR holds the clusters' files (default ./.lab); ./down.sh [DIR] stops them all
# Environment, all optional:
#   FLINK_VERSION  2.3.0     a version of the Python package apache-flink-libraries, which ships Flink's jars
#   SCHEDULER      default   or: adaptive (PUT /jobs/:id/resource-requirements then rescales in place)
#   REST_PORT      8081      the REST API, on 127.0.0.1
#   TASKMANAGERS   2         processes, of SLOTS slots each
#   SLOTS          4
#   PROM_PORT      9250      Flink's Prometheus reporter: JobManager here, TaskManager n at PROM_PORT + n; "" for none
#   FETCH_MS       10000     metrics.fetcher.update-interval (Flink's own default)
#   JOBS           "pipeline join"   what to submit, of: pipeline join chained healthy failing batch sql; "" for none
#   CONF                     further 'key: value' lines for config.yaml
#   LAB_CACHE      ${XDG_CACHE_HOME:-$HOME/.cache}/loadline-lab   the download, kept between runs and outside the work tree
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=${1:-$PWD/.lab}
version=${FLINK_VERSION:-2.3.0}
scheduler=${SCHEDULER:-default}
rest=${REST_PORT:-8081}
tms=${TASKMANAGERS:-2}
slots=${SLOTS:-4}
prom=${PROM_PORT-9250}
fetch_ms=${FETCH_MS:-10000}
jobs=${JOBS-pipeline join}
cache=${LAB_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/loadline-lab}

mkdir -p "$lab"
lab=$(cd "$lab" && pwd)
run=$lab/run-$rest
if [ -s "$run/pids" ]; then
  echo "up.sh: $run/pids is there already: run down.sh first" >&2
  exit 1
fi
mkdir -p "$run/conf" "$run/log" "$run/tmp" "$run/checkpoints"

# 1. Flink's jars, from the Python package. The mark is written last: a download that was cut off is done again.
venv=$cache/flink-$version
if [ ! -e "$venv/complete" ]; then
  mkdir -p "$cache"
  for try in 1 2 3; do
    rm -rf "$venv"
    if python3 -m venv "$venv" &&
      "$venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --no-deps --timeout 60 \
        "apache-flink-libraries==$version"; then
      touch "$venv/complete"
      break
    fi
    if [ "$try" = 3 ]; then
      echo "up.sh: apache-flink-libraries $version could not be installed in $try tries" >&2
      exit 1
    fi
    echo "up.sh: try $try to install apache-flink-libraries $version failed; again in $((try * 5)) s" >&2
    sleep $((try * 5))
  done
fi
flink=$(echo "$venv"/lib/python3*/site-packages/pyflink)

# 2. the lab's jobs
jar=$lab/lab-jobs-$version.jar
if [ ! -s "$jar" ] || [ -n "$(find "$here/src" -newer "$jar" -type f)" ]; then
  rm -rf "$lab/classes-$version"
  mkdir -p "$lab/classes-$version"
  javac --release 11 -nowarn -cp "$flink/lib/*" -d "$lab/classes-$version" "$here"/src/lab/*.java
  cp "$here/src/orders.sql" "$lab/classes-$version/"
  jar --create --file "$jar" --main-class lab.LabJob -C "$lab/classes-$version" .
fi

# 3. configuration
offset=$((rest - 8081))
cat >"$run/conf/config.yaml" <<YAML
jobmanager.rpc.address: 127.0.0.1
jobmanager.rpc.port: $((6123 + offset))
jobmanager.bind-host: 127.0.0.1
jobmanager.memory.process.size: 1024m
jobmanager.scheduler: $scheduler
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.memory.process.size: 1024m
taskmanager.memory.managed.size: 64m
taskmanager.numberOfTaskSlots: $slots
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: $rest
rest.bind-port: "$rest"
metrics.fetcher.update-interval: $fetch_ms ms
execution.checkpointing.dir: file://$run/checkpoints
execution.checkpointing.savepoint-dir: file://$run/checkpoints
io.tmp.dirs: $run/tmp
${CONF:-}
YAML
if [ -n "$prom" ]; then
  cat >>"$run/conf/config.yaml" <<YAML
metrics.reporters: prom
metrics.reporter.prom.factory.class: org.apache.flink.metrics.prometheus.PrometheusReporterFactory
metrics.reporter.prom.port: $prom
YAML
fi
cat >"$run/conf/log4j.properties" <<'LOG'
monitorInterval=0
rootLogger.level=INFO
rootLogger.appenderRef.file.ref=File
appender.file.name=File
appender.file.type=File
appender.file.fileName=${sys:log.file}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d{HH:mm:ss,SSS} %-5p %c{1} - %m%n
LOG

# 4. processes
export FLINK_PLUGINS_DIR=$flink/plugins FLINK_CONF_DIR=$run/conf FLINK_LIB_DIR=$flink/lib FLINK_OPT_DIR=$flink/opt
opens=()
for p in lang net io nio lang.reflect text time util util.concurrent util.concurrent.atomic util.concurrent.locks; do
  opens+=("--add-opens=java.base/java.$p=ALL-UNNAMED")
done
opens+=(--add-opens=java.base/sun.nio.ch=ALL-UNNAMED --add-exports=java.base/sun.net.util=ALL-UNNAMED)

memory() { # memory GET_JM_RESOURCE_PARAMS|GET_TM_RESOURCE_PARAMS: Flink's own sums, as its start scripts do them
  java -XX:TieredStopAtLevel=1 -cp "$flink/bin/bash-java-utils.jar:$flink/lib/*" \
    org.apache.flink.runtime.util.bash.BashJavaUtils "$1" --configDir "$run/conf" 2>/dev/null |
    sed -n 's/^BASH_JAVA_UTILS_EXEC_RESULT://p'
}
start() { # start NAME MAIN-CLASS JVM-ARGS DYNAMIC-ARGS...
  local name=$1 main=$2 jvm=$3
  shift 3
  # shellcheck disable=SC2086
  nohup java $jvm -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "${opens[@]}" -Dlog.file="$run/log/$name.log" \
    -Dlog4j.configurationFile="file:$run/conf/log4j.properties" -cp "$flink/lib/*" \
    "$main" --configDir "$run/conf" "$@" >"$run/log/$name.out" 2>&1 </dev/null &
  echo "$!" >>"$run/pids"
}
mapfile -t jm < <(memory GET_JM_RESOURCE_PARAMS)
mapfile -t tm < <(memory GET_TM_RESOURCE_PARAMS)
read -r -a jm_dynamic <<<"${jm[1]}"
read -r -a tm_dynamic <<<"${tm[1]}"
start jobmanager org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint "${jm[0]}" \
  --executionMode cluster "${jm_dynamic[@]}"
for i in $(seq "$tms"); do
  # an id of its own, so that what is captured is the same on every machine, and a port of its own for Prometheus
  # (a JobManager of 2.3.0 takes no notice of -D: its port is in config.yaml)
  own=(-D "taskmanager.resource-id=tm-$i")
  if [ -n "$prom" ]; then own+=(-D "metrics.reporter.prom.port=$((prom + i))"); fi
  start "taskmanager-$i" org.apache.flink.runtime.taskexecutor.TaskManagerRunner "${tm[0]}" "${tm_dynamic[@]}" "${own[@]}"
done

base=http://127.0.0.1:$rest
for i in $(seq 120); do
  n=$(curl -s -m 2 "$base/overview" | sed -n 's/.*"slots-total":\([0-9]*\).*/\1/p' || true)
  [ "${n:-0}" -ge $((tms * slots)) ] && break
  if [ "$i" = 120 ]; then
    echo "up.sh: no cluster of $((tms * slots)) slots after 60 s: see $run/log" >&2
    exit 1
  fi
  sleep 0.5
done
echo "up: Flink $version, $scheduler scheduler, $base, $n slots"

# 5. jobs
id=$(curl -sS -m 30 -X POST -F "jarfile=@$jar;type=application/java-archive" "$base/jars/upload" |
  sed -n 's|.*/\([^/"]*\.jar\)".*|\1|p')
echo "$id" >"$run/jar-id"
"$here/submit.sh" "$lab" "$rest" $jobs
