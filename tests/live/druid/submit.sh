#!/usr/bin/env bash
# Gives work to a cluster that up.sh started:
#   ./submit.sh DIR noop COUNT [SECONDS [PREFIX]]        tasks that only take time (default 600 s): more than slots stay PENDING
#   ./submit.sh DIR batch COUNT [SECONDS [PREFIX]]       batch tasks that lock the same interval: one runs, the rest stay WAITING
#   ./submit.sh DIR shutdown ID...                       ends tasks
#   ./submit.sh DIR strategy NAME                        how tasks are placed: fillCapacity or equalDistribution
#   ./submit.sh DIR topic TOPIC PARTITIONS RATE SECONDS [SHARE-OF-PARTITION-0]   makes the topic and sends RATE records/s
#   ./submit.sh DIR supervisor NAME                      a Kafka supervisor that reads the topic NAME; settings by environment:
#       TASKS 1  REPLICAS 1  MICROS 1000 (a record takes a task so long)  DURATION PT2M (of a task)  STOP (stopTaskCount)
#       SCALER '{...}' (autoScalerConfig)  OFFSETS PT30S (offsetFetchPeriod)  IDLE ms (inactiveAfterMillis)
set -euo pipefail
here=$(cd "$1" && pwd)
what=$2
shift 2
# shellcheck disable=SC1091
. "$here/lab.env"
if [ "$OVERLORDS" = 0 ]; then port=$COORDINATOR_PORT; else port=$OVERLORD_PORT; fi
api=http://127.0.0.1:$port/druid/indexer/v1

post() { # post PATH [BODY]
  curl -sS -L --post301 --post302 -m 30 -X POST -H 'Content-Type: application/json' ${2:+-d "$2"} "$api$1"
  echo
}
case $what in
  noop)
    for i in $(seq "$1"); do
      post /task "{\"type\":\"noop\",\"id\":\"${3:-noop}_$i\",\"dataSource\":\"none\",\"runTime\":$((${2:-600} * 1000))}"
    done
    ;;
  batch)
    for i in $(seq "$1"); do
      post /task "{\"type\":\"index_parallel\",\"id\":\"${3:-batch}_$i\",\"context\":{\"forceTimeChunkLock\":true,\"useConcurrentLocks\":false},
        \"spec\":{\"dataSchema\":{\"dataSource\":\"history\",\"timestampSpec\":{\"column\":\"time\",\"format\":\"iso\"},
        \"dimensionsSpec\":{\"dimensions\":[\"key\",\"cost\"]},
        \"transformSpec\":{\"transforms\":[{\"type\":\"labCost\",\"name\":\"cost\",\"micros\":$((${2:-600} * 1000000))}]},
        \"granularitySpec\":{\"segmentGranularity\":\"day\",\"intervals\":[\"2026-01-01/2026-01-02\"]}},
        \"ioConfig\":{\"type\":\"index_parallel\",\"inputFormat\":{\"type\":\"json\"},
        \"inputSource\":{\"type\":\"inline\",\"data\":\"{\\\"time\\\":\\\"2026-01-01T00:00:00Z\\\",\\\"key\\\":\\\"a\\\"}\"}},
        \"tuningConfig\":{\"type\":\"index_parallel\"}}}"
    done
    ;;
  shutdown) for id in "$@"; do post "/task/$id/shutdown"; done ;;
  strategy) post /worker "{\"type\":\"default\",\"selectStrategy\":{\"type\":\"$1\"}}" ;;
  topic)
    # down.sh ends it too
    touch "$here/pids/producer"
    java "-Dlab.node=$here/producer" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx96m -cp "$here/kafka-classes:$here/conf/common:$KAFKA_LIB/*" lab.Produce "127.0.0.1:$KAFKA_PORT" "$@"
    ;;
  supervisor)
    more=${STOP:+,\"stopTaskCount\":$STOP}${SCALER:+,\"autoScalerConfig\":$SCALER}
    if [ -n "${IDLE:-}" ]; then more+=",\"idleConfig\":{\"enabled\":true,\"inactiveAfterMillis\":$IDLE}"; fi
    post /supervisor "{\"type\":\"kafka\",\"spec\":{\"dataSchema\":{\"dataSource\":\"$1\",
      \"timestampSpec\":{\"column\":\"time\",\"format\":\"iso\"},
      \"dimensionsSpec\":{\"dimensions\":[\"key\",{\"type\":\"long\",\"name\":\"value\"},\"cost\"]},
      \"transformSpec\":{\"transforms\":[{\"type\":\"labCost\",\"name\":\"cost\",\"micros\":${MICROS:-1000}}]},
      \"granularitySpec\":{\"segmentGranularity\":\"day\",\"queryGranularity\":\"minute\",\"rollup\":true}},
      \"ioConfig\":{\"type\":\"kafka\",\"topic\":\"$1\",\"inputFormat\":{\"type\":\"json\"},
      \"consumerProperties\":{\"bootstrap.servers\":\"127.0.0.1:$KAFKA_PORT\"},\"useEarliestOffset\":true,
      \"taskCount\":${TASKS:-1},\"replicas\":${REPLICAS:-1},\"taskDuration\":\"${DURATION:-PT2M}\",\"period\":\"PT5S\",\"startDelay\":\"PT1S\"
      $more},
      \"tuningConfig\":{\"type\":\"kafka\",\"maxRowsInMemory\":20000,\"offsetFetchPeriod\":\"${OFFSETS:-PT30S}\"}}}"
    ;;
  *)
    echo "submit.sh: no such work: $what" >&2
    exit 1
    ;;
esac
