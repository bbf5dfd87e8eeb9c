#!/usr/bin/env bash
# Brings up the control plane of a Kubernetes cluster on the loopback interface: etcd, kube-apiserver, and a
# kube-controller-manager that runs the HPA controller alone. There is no node, no scheduler and no kubelet.
#   ./up.sh [DIR]          DIR holds its files (default ./.lab); ./down.sh [DIR] stops it
# Environment, all optional:
#   PORT        29700      the first of five ports, all on 127.0.0.1: see the table in README.md
#   HPA_SYNC    2s         how often the HPA controller looks
#   LAB_CACHE   see build.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:-$PWD/.lab}
port=${PORT:-29700}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
if [ -n "$(ls -A "$dir/pids" 2>/dev/null)" ]; then
  echo "up.sh: $dir/pids is not empty: run down.sh first" >&2
  exit 1
fi

# 1. binaries
bin=$("$here/build.sh" | tail -n 1)

# 2. certificates of two authorities that exist for this run alone: the cluster's, and the front proxy's
rm -rf "$dir/data" "$dir/conf"
mkdir -p "$dir/conf" "$dir/data" "$dir/pids" "$dir/log"
key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
authority() { openssl req -x509 "${key[@]}" -days 2 -subj "/CN=$2" -keyout "$1.key" -out "$1.crt"; }
signed() { # signed AUTHORITY NAME SUBJECT USAGE [ALTERNATIVE-NAMES]
  openssl req "${key[@]}" -subj "$3" -keyout "$2.key" -out "$2.csr"
  printf 'basicConstraints=CA:FALSE\nextendedKeyUsage=%s\n%s' "$4" "${5:+subjectAltName=$5
}" >"$2.ext"
  openssl x509 -req -in "$2.csr" -CA "$1.crt" -CAkey "$1.key" -CAcreateserial -days 2 -extfile "$2.ext" -out "$2.crt"
}
(
  cd "$dir/conf"
  authority ca "lab"
  authority front-proxy-ca "lab front proxy"
  signed ca apiserver "/CN=kube-apiserver" serverAuth "IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc"
  signed ca loadline "/CN=loadline" serverAuth "DNS:loadline-external-metrics.loadline.svc"
  signed ca admin "/O=system:masters/CN=admin" clientAuth
  signed ca controller-manager "/CN=system:kube-controller-manager" clientAuth
  signed front-proxy-ca front-proxy "/CN=front-proxy-client" clientAuth
  openssl genrsa -out sa.key 2048
  openssl rsa -in sa.key -pubout -out sa.pub
) >"$dir/log/openssl.log" 2>&1 || {
  cat "$dir/log/openssl.log" >&2
  exit 1
}
cat >"$dir/conf/controller-manager.conf" <<CONF
apiVersion: v1
kind: Config
clusters: [{ name: lab, cluster: { server: "https://127.0.0.1:$((port + 2))", certificate-authority: $dir/conf/ca.crt } }]
users: [{ name: it, user: { client-certificate: $dir/conf/controller-manager.crt, client-key: $dir/conf/controller-manager.key } }]
contexts: [{ name: lab, context: { cluster: lab, user: it } }]
current-context: lab
CONF

# 3. processes. The first argument that each takes names its folder, by which down.sh knows it again.
start() { # start NAME PROGRAM ARGS...
  local name=$1
  shift
  nohup "$@" >>"$dir/log/$name.log" 2>&1 </dev/null &
  echo "$!" >"$dir/pids/$name"
}
ask() { curl -s -m 2 --cacert "$dir/conf/ca.crt" --cert "$dir/conf/admin.crt" --key "$dir/conf/admin.key" "https://127.0.0.1:$((port + 2))$1"; }
await() { # await WHAT COMMAND...: until it succeeds
  local what=$1 i
  shift
  for i in $(seq 720); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.25
  done
  echo "up.sh: $what is not up after three minutes: see $dir/log" >&2
  tail -n 20 "$dir/log/"*.log >&2
  return 1
}
began=$SECONDS
client=http://127.0.0.1:$port
start etcd "$bin/etcd" --data-dir "$dir/data/etcd" --listen-client-urls "$client" --advertise-client-urls "$client" \
  --listen-peer-urls "http://127.0.0.1:$((port + 1))" --initial-advertise-peer-urls "http://127.0.0.1:$((port + 1))" \
  --initial-cluster "default=http://127.0.0.1:$((port + 1))" --unsafe-no-fsync
await etcd curl -sf -m 2 "$client/health"
start kube-apiserver "$bin/kube-apiserver" --tls-cert-file "$dir/conf/apiserver.crt" --tls-private-key-file "$dir/conf/apiserver.key" \
  --etcd-servers "$client" --bind-address 127.0.0.1 --endpoint-reconciler-type none --secure-port $((port + 2)) \
  --client-ca-file "$dir/conf/ca.crt" --authorization-mode RBAC \
  --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$dir/conf/sa.pub" \
  --service-account-signing-key-file "$dir/conf/sa.key" --service-cluster-ip-range 10.96.0.0/24 --disable-admission-plugins ServiceAccount \
  --requestheader-client-ca-file "$dir/conf/front-proxy-ca.crt" --requestheader-allowed-names front-proxy-client \
  --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
  --requestheader-extra-headers-prefix X-Remote-Extra- \
  --proxy-client-cert-file "$dir/conf/front-proxy.crt" --proxy-client-key-file "$dir/conf/front-proxy.key"
ready() { [ "$(ask /readyz)" = ok ]; }
await kube-apiserver ready
start kube-controller-manager "$bin/kube-controller-manager" --kubeconfig "$dir/conf/controller-manager.conf" \
  --authentication-kubeconfig "$dir/conf/controller-manager.conf" --authorization-kubeconfig "$dir/conf/controller-manager.conf" \
  --use-service-account-credentials --leader-elect=false --bind-address 127.0.0.1 --secure-port $((port + 3)) --controllers horizontal-pod-autoscaler-controller \
  --horizontal-pod-autoscaler-sync-period "${HPA_SYNC:-2s}"
await kube-controller-manager curl -skf -m 2 "https://127.0.0.1:$((port + 3))/healthz"
echo "up: $(basename "$bin"), https://127.0.0.1:$((port + 2)), after $((SECONDS - began)) s"
