#!/usr/bin/env bash
# The lab's own programs, which speak to the broker as Kafka's Java clients do:
#   ./lab.sh DIR COMMAND ARGS...            runs one command and waits for it (see src/lab/Lab.java)
#   ./lab.sh DIR --as NAME COMMAND ARGS...  starts it in the background under this name; ./down.sh DIR NAME stops it
set -euo pipefail
dir=$(cd "$1" && pwd)
shift
# shellcheck disable=SC1091
. "$dir/lab.env"
java=(java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx96m -Xss512k)
main=(-cp "$dir/conf:$dir/classes:$KAFKA_LIB/*" lab.Lab "127.0.0.1:$PORT")
if [ "$1" = --as ]; then
  name=$2
  shift 2
  nohup "${java[@]}" "-Dlab.node=$dir/$name" "${main[@]}" "$@" >>"$dir/log/$name.log" 2>&1 </dev/null &
  echo "$!" >"$dir/pids/$name"
else
  exec "${java[@]}" "${main[@]}" "$@"
fi
