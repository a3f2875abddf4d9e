#!/bin/sh
# Creates the AppRole `app`, which may read the secrets below secret/app, and writes the files role-id and secret-id.
#   SALLYPORT_ADDR, SALLYPORT_TOKEN   the service, and a token that may write policies and auth methods
#   SALLYPORT_NAMESPACE               default: the root namespace
set -eu
umask 077

call() {
  curl -sSf -X "$1" -H "X-Vault-Token: $SALLYPORT_TOKEN" -H "X-Vault-Namespace: ${SALLYPORT_NAMESPACE:-}" -d "$3" "$SALLYPORT_ADDR/v1/$2"
}

call POST sys/auth/approle '{"type":"approle"}'
call PUT sys/policies/acl/agent-app '{"policy":"path \"secret/data/app/*\" { capabilities = [\"read\"] }"}'
call POST auth/approle/role/app '{"token_policies":"agent-app","token_ttl":"15m","token_max_ttl":"24h"}'
call GET auth/approle/role/app/role-id '' | grep -o '"role_id":"[^"]*"' | cut -d '"' -f 4 | tr -d '\n' > role-id
call POST auth/approle/role/app/secret-id '{}' | grep -o '"secret_id":"[^"]*"' | cut -d '"' -f 4 | tr -d '\n' > secret-id
