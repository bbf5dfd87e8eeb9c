#!/usr/bin/env bash
# Brings up a real Druid cluster on the loopback interface.
#   ./up.sh [DIR]          DIR holds the cluster's files (default ./.lab); ./down.sh [DIR] stops it
# Environment, all optional:
#   DRUID_VERSION  33.0.0    of the Maven artifacts org.apache.druid:druid-services and its extensions
#   PORT           28000     the first of the ports, all on 127.0.0.1: see the table in README.md
#   WORKERS        2         worker processes, of SLOTS slots each; keeper.py adds and removes them later
#   SLOTS          2
#   WORKER         indexer   or: middleManager (a JVM for each task: more memory, and slower to start)
#   OVERLORDS      0         0: the Coordinator is the Overlord too; or so many processes of their own (2 show a non-leader)
#   ROUTER         no        or: yes, with the management proxy
#   KAFKA          no        or: yes, a broker beside it and the Kafka extension in Druid
#   COMMON                   further lines of common.runtime.properties
#   LAB_CACHE      ${XDG_CACHE_HOME:-$HOME/.cache}/loadline-lab   the jars, kept between runs and outside the work tree
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:-$PWD/.lab}
version=${DRUID_VERSION:-33.0.0}
port=${PORT:-28000}
workers=${WORKERS:-2}
overlords=${OVERLORDS:-0}
cache=${LAB_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/loadline-lab}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ -n "$(ls -A "$dir/pids" 2>/dev/null)" ]; then
  echo "up.sh: $dir/pids is not empty: run down.sh first" >&2
  exit 1
fi

# 1. jars. The mark is written last: a download that was cut off is done again.
jars() { # jars POM FOLDER PROPERTY
  local try
  if [ -e "$2/complete" ]; then return; fi
  mkdir -p "$2"
  for try in 1 2 3; do
    if mvn -B -q -f "$1" "$3" -DincludeScope=runtime -DoutputDirectory="$2" -Dmdep.overWriteReleases=true dependency:copy-dependencies; then
      touch "$2/complete"
      return
    fi
    echo "up.sh: try $try to fetch the jars of $1 failed" >&2
    sleep $((try * 5))
  done
  return 1
}
druid_lib=$cache/druid-$version
kafka_lib=$cache/kafka-${KAFKA_VERSION:-3.9.1}
jars "$here/pom.xml" "$druid_lib" "-Ddruid.version=$version"
if [ "${KAFKA:-no}" = yes ]; then jars "$here/kafka/pom.xml" "$kafka_lib" "-Dkafka.version=${KAFKA_VERSION:-3.9.1}"; fi

# 2. the lab's own: a transform that takes time (in Druid), and a producer (for Kafka)
jar=$dir/lab-$version.jar
if [ ! -s "$jar" ] || [ -n "$(find "$here/src/druid" -newer "$jar" -type f)" ]; then
  rm -rf "$dir/classes"
  javac --release 17 -nowarn -cp "$druid_lib/*" -d "$dir/classes" "$here"/src/druid/lab/*.java
  cp -R "$here/src/druid/META-INF" "$dir/classes/"
  jar --create --file "$jar" -C "$dir/classes" .
fi
if [ "${KAFKA:-no}" = yes ]; then
  javac --release 17 -nowarn -cp "$kafka_lib/*" -d "$dir/kafka-classes" "$here"/src/kafka/lab/*.java
fi

# 3. configuration
mkdir -p "$dir/conf/common" "$dir/data" "$dir/pids" "$dir/log"
cat >"$dir/lab.env" <<ENV
DRUID_VERSION=$version
DRUID_LIB='$druid_lib'
KAFKA_LIB='$kafka_lib'
ZK_PORT=$((port + 1))
DERBY_PORT=$((port + 2))
KAFKA_PORT=$((port + 3))
ROUTER_PORT=$((port + 5))
COORDINATOR_PORT=$((port + 6))
OVERLORD_PORT=$((port + 7))
WORKER_PORT=$((port + 10))
WORKER=${WORKER:-indexer}
SLOTS=${SLOTS:-2}
OVERLORDS=$overlords
ENV
# shellcheck disable=SC1091
. "$dir/lab.env"
# names as in Kubernetes, so that a worker's host tells its ordinal; only the lab's own JVMs know them
{
  echo "127.0.0.1 localhost $(hostname)"
  echo "127.0.0.1 druid-coordinator-0.druid-coordinator"
  echo "127.0.0.1 druid-router-0.druid-router"
  for i in $(seq 0 3); do echo "127.0.0.1 druid-overlord-$i.druid-overlord"; done
  for i in $(seq 0 31); do echo "127.0.0.1 druid-mm-$i.druid-mm"; done
} >"$dir/conf/hosts"
cat >"$dir/conf/common/common.runtime.properties" <<PROPERTIES
druid.extensions.loadList=[]
druid.startup.logging.logProperties=false
druid.bindOnHost=true
druid.zk.service.host=127.0.0.1:$ZK_PORT
druid.metadata.storage.type=derby
druid.metadata.storage.connector.connectURI=jdbc:derby://127.0.0.1:$DERBY_PORT/$dir/data/metadata.db;create=true
druid.metadata.storage.connector.host=127.0.0.1
druid.metadata.storage.connector.port=$DERBY_PORT
druid.storage.type=local
druid.storage.storageDirectory=$dir/data/segments
druid.indexer.logs.type=file
druid.indexer.logs.directory=$dir/data/tasklogs
druid.selectors.indexing.serviceName=druid/overlord
druid.selectors.coordinator.serviceName=druid/coordinator
druid.emitter=noop
druid.lookup.enableLookupSyncOnStartup=false
${COMMON:-}
PROPERTIES
cat >"$dir/conf/common/log4j2.xml" <<'XML'
<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="WARN">
  <Appenders>
    <Console name="Console" target="SYSTEM_OUT">
      <PatternLayout pattern="%d{ISO8601} %p [%t] %c{1} - %m%n"/>
    </Console>
  </Appenders>
  <Loggers>
    <Root level="info"><AppenderRef ref="Console"/></Root>
    <Logger name="org.apache.kafka" level="warn"/>
    <Logger name="kafka" level="warn"/>
    <Logger name="org.apache.zookeeper" level="warn"/>
  </Loggers>
</Configuration>
XML

# 4. processes
began=$SECONDS
url=http://127.0.0.1
healthy() { # healthy PORT: until the process there is up
  for i in $(seq 240); do
    [ "$(curl -s -m 2 "$url:$1/status/health" || true)" = true ] && return
    sleep 0.5
  done
  echo "up.sh: nothing is up at port $1 after 120 s: see $dir/log" >&2
  return 1
}
"$here/node.sh" "$dir" zookeeper
sleep 1.5
"$here/node.sh" "$dir" coordinator
if [ "${KAFKA:-no}" = yes ]; then "$here/node.sh" "$dir" kafka; fi
for i in $(seq 0 $((workers - 1))); do "$here/node.sh" "$dir" "worker-$i"; done
healthy "$COORDINATOR_PORT"
for i in $(seq 0 $((overlords - 1))); do
  "$here/node.sh" "$dir" "overlord-$i"
  healthy $((OVERLORD_PORT + i))
done
if [ "${ROUTER:-no}" = yes ]; then
  "$here/node.sh" "$dir" router
  healthy "$ROUTER_PORT"
fi
# there is no Historical: segments are not loaded anywhere, and a task does not wait for that after it has published
curl -sS -m 10 -X POST -H 'Content-Type: application/json' -d '[{"type":"dropForever"}]' "$url:$COORDINATOR_PORT/druid/coordinator/v1/rules/_default"
leader=$url:$([ "$overlords" = 0 ] && echo "$COORDINATOR_PORT" || echo "$OVERLORD_PORT")
for i in $(seq 240); do
  n=$(curl -s -m 2 "$leader/druid/indexer/v1/workers" | grep -o '"host"' | wc -l || true)
  [ "$n" -ge "$workers" ] && break
  if [ "$i" = 240 ]; then
    echo "up.sh: $n of $workers workers after 120 s: see $dir/log" >&2
    exit 1
  fi
  sleep 0.5
done
echo "up: Druid $version, Overlord $leader, $n workers of $SLOTS slots, after $((SECONDS - began)) s"
