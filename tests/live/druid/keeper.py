#!/usr/bin/env python3
"""Stands for Kubernetes' StatefulSet controller: keeps as many workers of the lab as are wanted, by ordinal.

  ./keeper.py DIR --replicas 2 [--advice URL] [--port 28020] [--grace 30] ...

Adds the lowest missing ordinal, one at a time and the next when it is ready (--parallel: all at once), and removes the
highest: SIGTERM, and SIGKILL after --grace seconds. What is left of a pod when its first process has gone is killed, and
a pod that ends by itself is started again after --restart seconds, as Kubernetes does.

The wanted count is --replicas, until someone sets another:
  --advice URL   `recommended` of Loadline's answer at URL (its /v1/targets/NAME/advice), asked each --every seconds; null,
                 an answer without it and a failed question change nothing. "Nothing to do" and "unknown" look alike here
  --file FILE    a number in a file
  PATCH or PUT   of the scale below, as `kubectl scale` and autoscalers do it

On --port of 127.0.0.1 it answers as the Kubernetes API does, for
  /apis/apps/v1/namespaces/NAMESPACE/statefulsets/NAME         (status.replicas, status.readyReplicas)
  /apis/apps/v1/namespaces/NAMESPACE/statefulsets/NAME/scale   (spec.replicas, status.replicas)
with TLS if --cert and --key are given. Each action is a line of JSON on the standard output. SIGTERM ends the keeper and
leaves the workers to down.sh. Needs nothing beside Python's own library.
"""

import argparse
import datetime
import http.server
import json
import os
import signal
import ssl
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCK = threading.Lock()


def say(action, **more):
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    print(json.dumps({"at": now, "action": action, **more}), flush=True)


def fetch(url, timeout):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=timeout) as answer:
        return answer.read().decode()


class Keeper:
    def __init__(self, options):
        self.options = options
        self.dir = Path(options.dir).resolve()
        env = dict(line.split("=", 1) for line in (self.dir / "lab.env").read_text().split("\n") if "=" in line)
        self.port = int(env["WORKER_PORT"])
        self.wanted = options.replicas
        self.going = {}  # ordinal: when it is killed
        self.started = {}  # ordinal: when it was started
        self.ended = {}  # ordinal: when it was found gone by itself
        self.was_ready = set()
        self.ready = set()

    # processes

    def processes(self, ordinal):
        """Ids of the pod's first process and of what it started, as marked by node.sh."""
        mark = f"-Dlab.node={self.dir}/worker-{ordinal}"
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "cmdline").read_text(errors="replace").split("\0"):
                        found.append(int(entry.name))
                except OSError:
                    pass
        return found

    def main(self, ordinal):
        """The id of the pod's first process, if it lives."""
        try:
            pid = int((self.dir / "pids" / f"worker-{ordinal}").read_text())
        except (OSError, ValueError):
            return None
        return pid if pid in self.processes(ordinal) else None

    def pods(self):
        """Ordinals that there are, whether or not their process lives."""
        return sorted(int(p.name.removeprefix("worker-")) for p in (self.dir / "pids").glob("worker-*"))

    def healthy(self, ordinal):
        try:
            return fetch(f"http://127.0.0.1:{self.port + ordinal}/status/health", 1).strip() == "true"
        except (OSError, ValueError):
            return False

    def start(self, ordinal, why):
        subprocess.run([str(HERE / "node.sh"), str(self.dir), f"worker-{ordinal}"], check=True)
        self.started[ordinal] = time.monotonic()
        self.was_ready.discard(ordinal)
        say(why, ordinal=ordinal, pid=self.main(ordinal))

    def forget(self, ordinal, how):
        killed = self.processes(ordinal)
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        (self.dir / "pids" / f"worker-{ordinal}").unlink(missing_ok=True)
        self.going.pop(ordinal, None)
        say("removed", ordinal=ordinal, how=how, killed=len(killed))

    def tick(self):
        now = time.monotonic()
        pods = self.pods()
        self.ready = {n for n in pods if n not in self.going and self.healthy(n)}
        for n in sorted(self.ready - self.was_ready):
            say("ready", ordinal=n, **({"seconds": round(now - self.started[n], 1)} if n in self.started else {}))
        self.was_ready = set(self.ready)
        for n, deadline in list(self.going.items()):
            if self.main(n) is None:
                self.forget(n, "ended in time")
            elif now >= deadline:
                self.forget(n, "grace is over")
        pods = self.pods()
        for n in [n for n in pods if n not in self.going and self.main(n) is None]:
            ended = self.ended.setdefault(n, now)
            if ended == now:
                say("ended by itself", ordinal=n)
            if now - ended >= self.options.restart:
                for pid in self.processes(n):
                    os.kill(pid, signal.SIGKILL)
                del self.ended[n]
                self.start(n, "restarted")
        booting = [n for n in pods if n not in self.going and n not in self.ready]
        missing = [n for n in range(self.wanted) if n not in pods]
        if missing and not self.going and (self.options.parallel or not booting):
            for n in missing if self.options.parallel else missing[:1]:
                self.start(n, "started")
        for n in sorted((n for n in pods if n >= self.wanted and n not in self.going), reverse=True):
            if self.going and not self.options.parallel:
                break
            pid = self.main(n)
            self.ended.pop(n, None)
            self.going[n] = now + self.options.grace
            say("stopping", ordinal=n, grace=self.options.grace, tasks=self.tasks(n))
            if pid is not None:
                os.kill(pid, signal.SIGTERM)

    def tasks(self, ordinal):
        """What runs on a worker that is about to go; null if it does not say."""
        try:
            return json.loads(fetch(f"http://127.0.0.1:{self.port + ordinal}/druid/worker/v1/tasks", 1))
        except (OSError, ValueError):
            return None

    # the wanted count

    def want(self, count, who):
        with LOCK:
            if count == self.wanted:
                return
            say("wanted", before=self.wanted, now=count, by=who)
            self.wanted = count

    def ask(self):
        o = self.options
        try:
            if o.file and Path(o.file).exists():
                self.want(int(Path(o.file).read_text()), "file")
            if o.advice:
                count = json.loads(fetch(o.advice, 5)).get("recommended")
                if isinstance(count, int) and 0 <= count <= o.max:
                    self.want(count, "advice")
        except (OSError, ValueError) as error:
            say("wanted count not had", error=str(error))

    def scale(self):
        return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": self.options.name, "namespace": self.options.namespace},
                "spec": {"replicas": self.wanted}, "status": {"replicas": len(self.pods())}}

    def object(self):
        return {"kind": "StatefulSet", "apiVersion": "apps/v1", "metadata": {"name": self.options.name, "namespace": self.options.namespace},
                "spec": {"replicas": self.wanted}, "status": {"replicas": len(self.pods()), "readyReplicas": len(self.ready)}}


def serve(keeper):
    o = keeper.options
    path = f"/apis/apps/v1/namespaces/{o.namespace}/statefulsets/{o.name}"

    class Api(http.server.BaseHTTPRequestHandler):
        def answer(self, status, value):
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            asked = self.path.split("?")[0]
            if asked not in (path, path + "/scale"):
                return self.answer(404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404})
            self.answer(200, keeper.scale() if asked.endswith("/scale") else keeper.object())

        def do_PATCH(self):
            try:
                count = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))["spec"]["replicas"]
                assert self.path.split("?")[0] in (path, path + "/scale") and isinstance(count, int) and 0 <= count <= o.max
            except (ValueError, LookupError, TypeError, AssertionError):
                return self.answer(400, {"kind": "Status", "status": "Failure", "reason": "BadRequest", "code": 400})
            keeper.want(count, "API")
            self.answer(200, keeper.scale())

        do_PUT = do_PATCH

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", o.port), Api)
    if o.cert:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(o.cert, o.key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir")
    p.add_argument("--replicas", type=int, required=True)
    p.add_argument("--max", type=int, default=8)
    p.add_argument("--advice")
    p.add_argument("--file")
    p.add_argument("--every", type=float, default=2)
    p.add_argument("--port", type=int, default=28080)
    p.add_argument("--name", default="druid-mm")
    p.add_argument("--namespace", default="druid")
    p.add_argument("--grace", type=float, default=30)
    p.add_argument("--restart", type=float, default=5)
    p.add_argument("--parallel", action="store_true")
    p.add_argument("--cert")
    p.add_argument("--key")
    p.add_argument("-D", metavar="lab.node=...", help="the mark by which down.sh finds the keeper under pids/keeper")
    keeper = Keeper(p.parse_args())
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    serve(keeper)
    say("keeping", pods=keeper.pods(), wanted=keeper.wanted)
    asked = 0.0
    while True:
        if time.monotonic() - asked >= keeper.options.every:
            asked = time.monotonic()
            keeper.ask()
        keeper.tick()
        time.sleep(0.5)


if __name__ == "__main__":
    main()
