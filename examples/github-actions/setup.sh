#!/bin/sh
# Lets jobs of one repository and branch read one secret.
#   SALLYPORT_ADDR, SALLYPORT_TOKEN   the service, and a token that may write policies and auth methods
#   SALLYPORT_NAMESPACE               default: the root namespace
#   REPOSITORY                        such as acme/app
#   ISSUER                            default: that of GitHub
set -eu

call() {
  curl -sSf -o /dev/null -X "$1" -H "X-Vault-Token: $SALLYPORT_TOKEN" -H "X-Vault-Namespace: ${SALLYPORT_NAMESPACE:-}" -d "$3" "$SALLYPORT_ADDR/v1/$2"
}

call POST sys/auth/github '{"type":"jwt"}'
call POST auth/github/config "{\"oidc_discovery_url\":\"${ISSUER:-https://token.actions.githubusercontent.com}\"}"
call PUT sys/policies/acl/deploy '{"policy":"path \"secret/data/app/database\" { capabilities = [\"read\"] }"}'
call POST auth/github/role/deploy "{
  \"role_type\": \"jwt\",
  \"user_claim\": \"sub\",
  \"bound_audiences\": \"https://sallyport.example\",
  \"bound_claims\": { \"repository\": \"$REPOSITORY\", \"ref\": \"refs/heads/main\" },
  \"token_policies\": \"deploy\",
  \"token_ttl\": \"15m\"
}"
