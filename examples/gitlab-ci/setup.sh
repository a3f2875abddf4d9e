#!/bin/sh
# Lets jobs of one project on its protected branch `main` read one secret.
#   SALLYPORT_ADDR, SALLYPORT_TOKEN   the service, and a token that may write policies and auth methods
#   SALLYPORT_NAMESPACE               default: the root namespace
#   PROJECT                           such as acme/app
#   ISSUER                            default: that of GitLab.com
set -eu

call() {
  curl -sSf -o /dev/null -X "$1" -H "X-Vault-Token: $SALLYPORT_TOKEN" -H "X-Vault-Namespace: ${SALLYPORT_NAMESPACE:-}" -d "$3" "$SALLYPORT_ADDR/v1/$2"
}

call POST sys/auth/gitlab '{"type":"jwt"}'
call POST auth/gitlab/config "{\"oidc_discovery_url\":\"${ISSUER:-https://gitlab.com}\"}"
call PUT sys/policies/acl/gitlab-deploy '{"policy":"path \"secret/data/app/database\" { capabilities = [\"read\"] }"}'
call POST auth/gitlab/role/deploy "{
  \"role_type\": \"jwt\",
  \"user_claim\": \"sub\",
  \"bound_audiences\": \"https://sallyport.example\",
  \"bound_claims\": { \"project_path\": \"$PROJECT\", \"ref\": \"main\", \"ref_protected\": \"true\" },
  \"token_policies\": \"gitlab-deploy\",
  \"token_ttl\": \"15m\"
}"
