#!/usr/bin/env bash
# Builds etcd, kube-apiserver and kube-controller-manager from public Go modules, once, and prints the folder they are in:
#   ./build.sh
# go.mod and go.sum name every version and checksum. Published k8s.io/kubernetes requires its own libraries at v0.0.0, which
# do not exist: the replace lines of go.mod name the releases that belong to it.
# Needs Go (the line `go` of go.mod). On 2 cores the first build takes 10 to 20 minutes and 4 GiB of disk, most of it Go's caches.
# Environment, all optional:
#   LAB_CACHE   ${XDG_CACHE_HOME:-$HOME/.cache}/loadline   the binaries, kept between runs and outside the work tree
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here"
version=$(sed -n 's/^require k8s.io\/kubernetes \(v[0-9.]*\).*/\1/p' go.mod)
bin=${LAB_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/loadline}/kubernetes/$version
# what was built from another go.mod or in another way is built again
sum=$(cat go.mod go.sum build.sh | sha256sum | cut -d' ' -f1)
if [ "$(cat "$bin/complete" 2>/dev/null || true)" = "$sum" ]; then
  echo "$bin"
  exit
fi

mkdir -p "$bin"
exec 9>"$bin/lock"
flock 9 # two labs at once build once
if [ "$(cat "$bin/complete" 2>/dev/null || true)" = "$sum" ]; then
  echo "$bin"
  exit
fi
for try in 1 2 3 4 5; do
  if go mod download >&2; then break; fi
  echo "build.sh: try $try to fetch the modules failed" >&2
  [ "$try" = 5 ] && exit 1
  sleep $((try * 5))
done
export CGO_ENABLED=0 GOFLAGS="-mod=readonly -trimpath -buildvcs=false ${GOFLAGS:-}"
flags="-s -w -X k8s.io/component-base/version.gitVersion=$version -X k8s.io/client-go/pkg/version.gitVersion=$version"
for program in etcd=go.etcd.io/etcd/server/v3 kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver \
  kube-controller-manager=k8s.io/kubernetes/cmd/kube-controller-manager; do
  began=$SECONDS
  go build -ldflags "$flags" -o "$bin/${program%%=*}" "${program#*=}" >&2
  echo "build.sh: ${program%%=*} after $((SECONDS - began)) s" >&2
done
echo "$sum" >"$bin/complete"
echo "$bin"
