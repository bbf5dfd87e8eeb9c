#!/usr/bin/env bash
# Starts one process of the lab in the background:  ./node.sh DIR NAME
# of: zookeeper, coordinator, overlord-N, router, historical, worker-N (N from 0), kafka
# Its id is put into DIR/pids/NAME, its output into DIR/log/NAME.log. up.sh has written DIR/lab.env before.
set -euo pipefail
dir=$(cd "$1" && pwd)
name=$2
# shellcheck disable=SC1091
. "$dir/lab.env"

if kill -0 "$(cat "$dir/pids/$name" 2>/dev/null || echo none)" 2>/dev/null; then
  echo "node.sh: $name runs already" >&2
  exit 1
fi
conf=$dir/conf/$name
mkdir -p "$conf" "$dir/log" "$dir/pids" "$dir/tmp/$name"

start() { # start ARGS-OF-JAVA...
  # the mark -Dlab.node tells down.sh and keeper.py that the process of an id is still the one that was started here
  nohup java "-Dlab.node=$dir/$name" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k -Djava.io.tmpdir="$dir/tmp/$name" \
    -Djdk.net.hosts.file="$dir/conf/hosts" -Dderby.stream.error.file="$dir/log/derby.log" "$@" >>"$dir/log/$name.log" 2>&1 </dev/null &
  echo "$!" >"$dir/pids/$name"
}

opens=()
for p in nio io lang util; do opens+=("--add-opens=java.base/java.$p=ALL-UNNAMED"); done
for p in sun.nio.ch jdk.internal.ref; do opens+=("--add-opens=java.base/$p=ALL-UNNAMED"); done
opens+=(--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED)
for p in misc ref; do opens+=("--add-exports=java.base/jdk.internal.$p=ALL-UNNAMED"); done

druid() { # druid SERVER HEAP PORT HOST PROPERTIES...: the properties beside those that all have in common
  local server=$1 heap=$2 port=$3 host=$4
  shift 4
  {
    printf '%s\n' "druid.host=$host" "druid.plaintextPort=$port" "$@" "${EXTRA:-}"
  } >"$conf/runtime.properties"
  start "-Xms$heap" "-Xmx$heap" -XX:MaxDirectMemorySize=256m "${opens[@]}" -Duser.timezone=UTC -Dfile.encoding=UTF-8 \
    -Djava.util.logging.manager=org.apache.logging.log4j.jul.LogManager -Ddruid.properties.file="$dir/conf/common/common.runtime.properties" \
    -cp "$conf:$dir/conf/common:$dir/lab-$DRUID_VERSION.jar:$DRUID_LIB/*" org.apache.druid.cli.Main server "$server"
}

small=(druid.server.http.numThreads=20 druid.processing.numThreads=1 druid.processing.numMergeBuffers=1 druid.processing.buffer.sizeBytes=5MiB)
overlord=("druid.indexer.runner.type=httpRemote" "druid.indexer.storage.type=metadata" "druid.indexer.queue.startDelay=PT1S")
n=${name##*-}
case $name in
  zookeeper)
    cat >"$conf/zoo.cfg" <<CFG
tickTime=2000
dataDir=$dir/data/zookeeper
clientPort=$ZK_PORT
clientPortAddress=127.0.0.1
admin.enableServer=false
maxClientCnxns=0
CFG
    start -Xmx96m -cp "$dir/conf/common:$DRUID_LIB/*" org.apache.zookeeper.server.ZooKeeperServerMain "$conf/zoo.cfg"
    ;;
  coordinator)
    as=(druid.coordinator.asOverlord.enabled=false)
    if [ "$OVERLORDS" = 0 ]; then
      as=(druid.coordinator.asOverlord.enabled=true druid.coordinator.asOverlord.overlordService=druid/overlord "${overlord[@]}")
    fi
    druid coordinator 256m "$COORDINATOR_PORT" druid-coordinator-0.druid-coordinator "druid.service=druid/coordinator" \
      druid.coordinator.startDelay=PT5S druid.coordinator.period=PT5S "${small[@]}" "${as[@]}"
    ;;
  overlord-*)
    druid overlord 192m $((OVERLORD_PORT + n)) "druid-overlord-$n.druid-overlord" "druid.service=druid/overlord" "${small[@]}" "${overlord[@]}"
    ;;
  router)
    druid router 96m "$ROUTER_PORT" druid-router-0.druid-router "druid.service=druid/router" druid.router.managementProxy.enabled=true \
      druid.router.http.numConnections=10 "${small[@]}"
    ;;
  worker-*)
    own=("druid.service=druid/middleManager" "druid.worker.capacity=$SLOTS" "druid.worker.category=${CATEGORY:-_default_worker_category}"
      "druid.indexer.task.baseTaskDir=$dir/data/$name" "${small[@]}")
    if [ "$WORKER" = indexer ]; then
      druid indexer 192m $((WORKER_PORT + n)) "druid-mm-$n.druid-mm" "${own[@]}" "druid.worker.globalIngestionHeapLimitBytes=60000000"
    else
      # peons take the class path and the system properties named here from their MiddleManager
      druid middleManager 64m $((WORKER_PORT + n)) "druid-mm-$n.druid-mm" "${own[@]}" \
        "druid.indexer.runner.startPort=$((WORKER_PORT + 100 + 50 * n))" druid.indexer.runner.javaCommand=java \
        "druid.indexer.runner.javaOptsArray=[\"-Xms32m\",\"-Xmx96m\",\"-XX:MaxDirectMemorySize=64m\",\"-XX:+UseSerialGC\",\"-XX:TieredStopAtLevel=1\",\"-Xss512k\",\"-Djdk.net.hosts.file=$dir/conf/hosts\",\"-Dlab.node=$dir/$name\"$(printf ',"%s"' "${opens[@]}")]" \
        druid.indexer.fork.property.druid.processing.numThreads=1 druid.indexer.fork.property.druid.processing.numMergeBuffers=1 \
        druid.indexer.fork.property.druid.processing.buffer.sizeBytes=5MiB druid.indexer.fork.property.druid.server.http.numThreads=10
    fi
    ;;
  kafka)
    cat >"$conf/server.properties" <<CFG
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((KAFKA_PORT + 1))
listeners=PLAINTEXT://127.0.0.1:$KAFKA_PORT,CONTROLLER://127.0.0.1:$((KAFKA_PORT + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$KAFKA_PORT
controller.listener.names=CONTROLLER
log.dirs=$dir/data/kafka
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
log.cleaner.dedupe.buffer.size=4194304
CFG
    if [ ! -e "$dir/data/kafka/meta.properties" ]; then
      java -cp "$KAFKA_LIB/*" kafka.tools.StorageTool format -t TG9hZGxpbmVMYWJLYWZrYQ -c "$conf/server.properties" >>"$dir/log/kafka.log" 2>&1
    fi
    # Druid's logger: Kafka brings none of its own
    logger=$(printf ':%s' "$DRUID_LIB"/log4j-*.jar)
    start -Xms96m -Xmx192m -cp "$dir/conf/common:$KAFKA_LIB/*$logger" kafka.Kafka "$conf/server.properties"
    ;;
  *)
    echo "node.sh: no such process: $name" >&2
    exit 1
    ;;
esac
