#!/bin/sh
# Drains a Druid MiddleManager or Indexer before its pod goes: takes no new tasks, then waits until none is left.
# Needs curl, or a wget that knows --post-data. The pod is killed after terminationGracePeriodSeconds all the same.
# With authentication, give curl its credentials in ~/.curlrc ("user = name:password").
worker=${DRUID_WORKER_URL:-http://127.0.0.1:8091}

get() { if command -v curl >/dev/null; then curl -sf -m 10 "$1"; else wget -q -T 10 -O - "$1"; fi; }
post() { if command -v curl >/dev/null; then curl -sf -m 10 -X POST "$1"; else wget -q -T 10 -O - --post-data= "$1"; fi; }

# A MiddleManager that is slow to answer may still have tasks in processes of their own, so it is asked again for a while.
# One that has never come up has none, and must not keep its pod for the whole grace period.
tries=0
until post "$worker/druid/worker/v1/disable" >/dev/null; do
  tries=$((tries + 1))
  [ "$tries" -ge "${DRAIN_TRIES:-30}" ] && exit 0
  sleep 2
done

# an answer that is no list is not an empty list: ask on
until [ "$(get "$worker/druid/worker/v1/tasks" | tr -d ' \n')" = "[]" ]; do
  sleep "${DRAIN_POLL_SECONDS:-5}"
done
