#!/usr/bin/env bash
# Brings up a real Kafka broker on the loopback interface: KRaft mode, one node, controller and broker in one process.
#   ./up.sh [DIR]          DIR holds its files (default ./.lab); ./down.sh [DIR] stops it and what lab.sh started
# Environment, all optional:
#   KAFKA_VERSION  4.4.0     of the Maven artifact org.apache.kafka:kafka_2.13
#   PORT           29500     the first of five ports, all on 127.0.0.1: see the table in README.md
#   LAB_CACHE      ${XDG_CACHE_HOME:-$HOME/.cache}/loadline-lab   the jars, kept between runs and outside the work tree
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:-$PWD/.lab}
version=${KAFKA_VERSION:-4.4.0}
port=${PORT:-29500}
cache=${LAB_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/loadline-lab}
lib=$cache/kafka-lab-$version

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ -n "$(ls -A "$dir/pids" 2>/dev/null)" ]; then
  echo "up.sh: $dir/pids is not empty: run down.sh first" >&2
  exit 1
fi

# 1. jars. The mark is written last: a download that was cut off is done again.
if [ ! -e "$lib/complete" ]; then
  mkdir -p "$lib"
  for try in 1 2 3; do
    if mvn -B -q -f "$here/pom.xml" "-Dkafka.version=$version" -DincludeScope=runtime -DoutputDirectory="$lib" -Dmdep.overWriteReleases=true dependency:copy-dependencies; then
      touch "$lib/complete"
      break
    fi
    echo "up.sh: try $try to fetch the jars failed" >&2
    sleep $((try * 5))
  done
  [ -e "$lib/complete" ]
fi

# 2. the lab's own programs
if [ ! -d "$dir/classes/lab" ] || [ -n "$(find "$here/src" -newer "$dir/classes/lab" -type f)" ]; then
  rm -rf "$dir/classes"
  javac --release 17 -nowarn -cp "$lib/*" -d "$dir/classes" "$here"/src/lab/*.java
fi

# 3. configuration: certificates of an authority that exists for this run alone, users, and the broker's properties
rm -rf "$dir/data" "$dir/conf"
mkdir -p "$dir/conf" "$dir/data" "$dir/pids" "$dir/log"
{
  cd "$dir/conf"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=lab authority" -keyout ca.key -out ca.pem
  for name in broker client; do
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
    printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\n' >"$name.ext"
    openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile "$name.ext" -out "$name.pem"
  done
  cat broker.key broker.pem >broker-keystore.pem
} >"$dir/log/openssl.log" 2>&1
printf 'reader-secret' >"$dir/conf/reader.password"
printf 'wrong-secret' >"$dir/conf/wrong.password"
printf 'stranger-secret' >"$dir/conf/stranger.password"
# an unsecured token, which Kafka's own validator for labs accepts: {"alg":"none"} . {"sub":"reader","iat":...,"exp":...} .
base64url() { base64 -w0 | tr '+/' '-_' | tr -d '='; }
now=$(date +%s)
printf '%s.%s.' "$(printf '{"alg":"none"}' | base64url)" "$(printf '{"sub":"reader","iat":%s,"exp":%s}' "$now" $((now + 86400)) | base64url)" >"$dir/conf/reader.token"

module=org.apache.kafka.common.security
cat >"$dir/conf/server.properties" <<CFG
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1)),SSL://127.0.0.1:$((port + 2)),SASL://127.0.0.1:$((port + 3)),SASLSSL://127.0.0.1:$((port + 4))
advertised.listeners=PLAINTEXT://127.0.0.1:$port,SSL://127.0.0.1:$((port + 2)),SASL://127.0.0.1:$((port + 3)),SASLSSL://127.0.0.1:$((port + 4))
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL:SASL_PLAINTEXT,SASLSSL:SASL_SSL
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location=$dir/conf/broker-keystore.pem
ssl.truststore.type=PEM
ssl.truststore.location=$dir/conf/ca.pem
listener.name.ssl.ssl.client.auth=requested
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
$(for listener in sasl saslssl; do
  echo "listener.name.$listener.plain.sasl.jaas.config=$module.plain.PlainLoginModule required user_reader=\"reader-secret\" user_stranger=\"stranger-secret\";"
  echo "listener.name.$listener.scram-sha-256.sasl.jaas.config=$module.scram.ScramLoginModule required;"
  echo "listener.name.$listener.scram-sha-512.sasl.jaas.config=$module.scram.ScramLoginModule required;"
  echo "listener.name.$listener.oauthbearer.sasl.jaas.config=$module.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"broker\";"
done)
# without TLS and SASL: the lab's own programs, which may do all; reader: what Loadline needs (lab.sh acls); stranger: nothing
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
log.dirs=$dir/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=2
group.initial.rebalance.delay.ms=0
group.consumer.session.timeout.ms=6000
group.consumer.min.session.timeout.ms=6000
group.consumer.heartbeat.interval.ms=1000
group.consumer.min.heartbeat.interval.ms=1000
group.share.heartbeat.interval.ms=1000
group.share.min.heartbeat.interval.ms=1000
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=1000
log.cleaner.dedupe.buffer.size=4194304
auto.create.topics.enable=false
CFG
cat >"$dir/conf/log4j2.xml" <<'XML'
<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="WARN">
  <Appenders>
    <Console name="Console" target="SYSTEM_OUT">
      <PatternLayout pattern="%d{ISO8601} %p [%t] %c{1} - %m%n"/>
    </Console>
  </Appenders>
  <Loggers>
    <Root level="warn"><AppenderRef ref="Console"/></Root>
  </Loggers>
</Configuration>
XML
cat >"$dir/lab.env" <<ENV
KAFKA_LIB='$lib'
PORT=$port
ENV

# 4. the broker
began=$SECONDS
class_path="$dir/conf:$dir/classes:$lib/*"
java -XX:TieredStopAtLevel=1 -cp "$class_path" kafka.tools.StorageTool format -t TG9hZGxpbmVMYWJLYWZrYQ -c "$dir/conf/server.properties" \
  --add-scram 'SCRAM-SHA-256=[name=reader,password=reader-secret]' --add-scram 'SCRAM-SHA-512=[name=reader,password=reader-secret]' >"$dir/log/format.log" 2>&1
# the mark -Dlab.node tells down.sh that the process of an id is still the one that was started here
nohup java "-Dlab.node=$dir/broker" -XX:+UseSerialGC -Xms128m -Xmx384m -Xss512k -cp "$class_path" kafka.Kafka "$dir/conf/server.properties" >"$dir/log/broker.log" 2>&1 </dev/null &
echo "$!" >"$dir/pids/broker"
"$here/lab.sh" "$dir" ready
echo "up: Kafka $version, 127.0.0.1:$port, after $((SECONDS - began)) s"
