#!/usr/bin/env python3
"""Records what a cluster of the lab answers at one moment, as fixtures.

  ./record.py DIR OUT MOMENT --base URL --version VERSION --note TEXT [--set overlord,coordinator,worker | none]
      [--supervisor ID]... [--get PATH]... [--post PATH]... [--prefix NAME] [--auth USER:PASSWORD]

Writes OUT/MOMENT/_index.json and one file for each answer, as it was sent (only DIR is written as /opt/lab). What is asked
is added to a moment that is there already.
"""

import argparse
import base64
import http.client
import json
import re
import time
import urllib.parse
from pathlib import Path

I = "/druid/indexer/v1"
OVERLORD = [
    "/status", "/status/health", "/status/selfDiscovered/status",
    f"{I}/leader", f"{I}/isLeader", f"{I}/workers", f"{I}/pendingTasks", f"{I}/waitingTasks", f"{I}/runningTasks",
    f"{I}/completeTasks?n=5", f"{I}/tasks?state=pending", f"{I}/tasks?state=waiting", f"{I}/tasks?state=running",
    f"{I}/totalWorkerCapacity", f"{I}/worker", f"{I}/scaling", f"{I}/supervisor?full",
]
COORDINATOR = [
    "/druid/coordinator/v1/leader", "/druid/coordinator/v1/isLeader", "/druid/coordinator/v1/servers?simple",
    "/druid/coordinator/v1/loadstatus", "/druid/coordinator/v1/rules", "/druid/coordinator/v1/config",
]
WORKER = ["/status/health", "/druid/worker/v1/enabled", "/druid/worker/v1/tasks"]


def ask(base, method, path, auth=None):
    url = urllib.parse.urlsplit(base)
    began = time.time()
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
    headers = {"Accept": "application/json"}
    if auth:
        headers["Authorization"] = "Basic " + base64.b64encode(auth.encode()).decode()
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        heads = {k: v for k, v in answer.getheaders() if k.lower() in ("location", "content-type", "www-authenticate", "retry-after", "allow")}
        return {"status": answer.status, "headers": heads, "ms": round((time.time() - began) * 1000, 1)}, body
    except OSError as error:
        return {"error": type(error).__name__, "ms": round((time.time() - began) * 1000, 1)}, b""


def name_of(method, path):
    path = path.replace(I, "indexer").replace("/druid/worker/v1", "worker").replace("/druid/coordinator/v1", "coordinator")
    name = re.sub(r"[^A-Za-z0-9_-]+", ".", path.strip("/"))
    return (name if method == "GET" else f"{method}.{name}").strip(".")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    p.add_argument("out")
    p.add_argument("moment")
    p.add_argument("--base", required=True, help="URL of the server that is asked")
    p.add_argument("--set", default="overlord", help="of overlord coordinator worker, with commas; or none")
    p.add_argument("--supervisor", action="append", default=[], help="ask for all of this supervisor")
    p.add_argument("--get", action="append", default=[])
    p.add_argument("--post", action="append", default=[])
    p.add_argument("--prefix", default="", help="of the file names, for a second server in one moment")
    p.add_argument("--auth")
    p.add_argument("--note", default="")
    p.add_argument("--version", default="")
    a = p.parse_args()
    asks = []
    for s in a.set.split(","):
        asks += [("GET", path) for path in {"overlord": OVERLORD, "coordinator": COORDINATOR, "worker": WORKER, "none": []}[s]]
    for s in a.supervisor:
        one = f"{I}/supervisor/{s}"
        asks += [("GET", f"{I}/supervisor"), ("GET", f"{I}/supervisor?full"), ("GET", f"{I}/supervisor?state=true"), ("GET", one)]
        asks += [("GET", f"{one}/{x}") for x in ("status", "stats", "health", "history", "parseErrors")]
        asks += [("GET", f"{I}/workers"), ("GET", f"{I}/pendingTasks"), ("GET", f"{I}/runningTasks"), ("GET", f"{I}/totalWorkerCapacity")]
    asks += [("GET", x) for x in a.get] + [("POST", x) for x in a.post]
    out = Path(a.out) / a.moment
    out.mkdir(parents=True, exist_ok=True)
    index_file = out / "_index.json"
    index = json.loads(index_file.read_text()) if index_file.exists() else {"druid": a.version, "note": a.note, "answers": []}
    real = str(Path(a.dir).resolve()).encode()
    for method, path in dict.fromkeys(asks):
        at = time.time()
        head, body = ask(a.base, method, path, a.auth)
        body = body.replace(real, b"/opt/lab")
        row = {"file": None, "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z",
               "method": method, "base": a.base, "path": path, **head, "bytes": len(body)}
        if body:
            json_like = body.lstrip()[:1] in (b"{", b"[", b'"', b"t", b"f", b"n") and "json" in head.get("headers", {}).get("Content-Type", "json")
            row["file"] = a.prefix + name_of(method, path) + (".json" if json_like else ".txt")
            (out / row["file"]).write_bytes(body)
        index["answers"].append(row)
    rows = ",\n".join("  " + json.dumps(r) for r in index["answers"])
    index_file.write_text("{\n" + "".join(f' {json.dumps(k)}: {json.dumps(v)},\n' for k, v in index.items() if k != "answers") + ' "answers": [\n' + rows + "\n ]\n}\n")
    print(a.moment, [r.get("status") or r.get("error") for r in index["answers"]])


main()
