#!/usr/bin/env bash
# Makes what a pod finds of its cluster, and what keeper.py needs to be that cluster over TLS:  ./account.sh DIR
# DIR/account: token, namespace, ca.crt (for LOADLINE_SERVICE_ACCOUNT);  DIR/tls: tls.crt, tls.key (for --cert and --key)
set -euo pipefail
mkdir -p "$1/account" "$1/tls"
cd "$1"
key=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
{
  openssl req -x509 "${key[@]}" -days 2 -subj /CN=lab -keyout tls/ca.key -out account/ca.crt
  openssl req "${key[@]}" -subj /CN=127.0.0.1 -keyout tls/tls.key -out tls/tls.csr
  openssl x509 -req -in tls/tls.csr -CA account/ca.crt -CAkey tls/ca.key -CAcreateserial -days 2 -out tls/tls.crt \
    -extfile <(printf 'subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n')
} 2>tls/openssl.log || { cat tls/openssl.log >&2; exit 1; }
printf druid >account/namespace
printf lab >account/token
