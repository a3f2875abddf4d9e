#!/bin/sh
# Lets the service account `app` of the Kubernetes namespace `prod` read the secrets below secret/app.
#   SALLYPORT_ADDR, SALLYPORT_TOKEN   the service, and a token that may write policies and auth methods
#   SALLYPORT_NAMESPACE               default: the root namespace
#   KEYS                              the cluster's keys for tokens of service accounts, as PEM
#   KUBERNETES_HOST                   the address of the cluster's API
set -eu

call() {
  curl -sSf -o /dev/null -X "$1" -H "X-Vault-Token: $SALLYPORT_TOKEN" -H "X-Vault-Namespace: ${SALLYPORT_NAMESPACE:-}" -d "$3" "$SALLYPORT_ADDR/v1/$2"
}
json() {
  awk 'BEGIN { printf "\"" } { printf "%s\\n", $0 } END { printf "\"" }'
}

call POST sys/auth/kubernetes '{"type":"kubernetes"}'
call POST auth/kubernetes/config \
  "{\"kubernetes_host\":\"$KUBERNETES_HOST\",\"pem_keys\":$(printf '%s' "$KEYS" | json)}"
call PUT sys/policies/acl/prod-app '{"policy":"path \"secret/data/app/*\" { capabilities = [\"read\"] }"}'
call POST auth/kubernetes/role/app '{
  "bound_service_account_names": "app",
  "bound_service_account_namespaces": "prod",
  "audience": "sallyport",
  "token_policies": "prod-app",
  "token_ttl": "15m"
}'
