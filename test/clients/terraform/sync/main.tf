# Destinations of types that the provider has no resources for, and rules, by its generic resource.

terraform {
  required_providers {
    vault = { source = "hashicorp/vault" }
  }
}

provider "vault" {}

locals {
  id = "11111111-2222-4333-8444-555555555555"
  destinations = {
    app-config          = { access_token = "t", app = "shop" }
    ci-context          = { access_token = "t", project_slug = "gh/acme/web" }
    ci-variables        = { access_token = "t", project_id = "42", environment_scope = "production" }
    cloud-a-ps          = { region = "eu-west-1", access_key_id = "AKIA1", secret_access_key = "s", tier = "Standard" }
    cloud-b-ac          = { endpoint = "https://acme-web.azconfig.io", access_key_id = "id", access_key_secret = "c2VjcmV0", allow_plaintext = true }
    cluster-secrets     = { host = "https://cluster.example.com:6443", namespace = "default", token = "t" }
    deploy-environment  = { access_token = "t", project_id = local.id, environment_id = local.id, skip_deploys = true }
    deploy-service      = { api_key = "t", service_id = "srv-0123456789abcdef0123" }
    deploy-site         = { access_token = "t", account_id = "acme", site_id = "site-1", deploy_context = "production" }
    edge-store          = { api_token = "t", account_id = "0123456789abcdef0123456789abcdef", store_id = "0123456789abcdef0123456789abcdef" }
    edge-worker         = { api_token = "t", account_id = "0123456789abcdef0123456789abcdef", script_name = "shop" }
    function-secrets    = { access_token = "t", project_ref = "abcdefghijklmnopqrst" }
    https               = { url = "https://api.example.com/secrets/{{ .Name }}", headers = { authorization = "Bearer t" } }
    iac-variables       = { access_token = "t", workspace_id = "ws-web1234567890abc", sensitive = false }
    in-mem              = {}
    kv-v2               = { address = "https://vault.example.com:8200", mount = "secret", token = "t" }
    machine-secrets     = { api_token = "t", app = "shop" }
    pipeline-variables  = { organization = "acme", project = "web", variable_group_id = 42, access_token = "t" }
    repo-host-variables = { repository_owner = "acme", repository_name = "web", access_token = "t", allow_plaintext = true }
  }
  rules = {
    by-prefix   = { path_prefix = "app", exclude_glob = ["app/private/**"] }
    by-metadata = { path_prefix = "web", metadata_selector = { env = "prod" }, max_secrets = 10, on_unmatch = "retain" }
    by-keys     = { match_all = true, key_glob = ["db_*"], granularity = "secret-key", priority = 5, paused = true }
  }
}

resource "vault_mount" "kv" {
  path    = "tf-sync"
  type    = "kv"
  options = { version = "2" }
}

# An answer has the settings below `connection_details` and `options`: fields that are absent are not compared.
resource "vault_generic_endpoint" "destination" {
  for_each             = local.destinations
  path                 = "sys/sync/destinations/${each.key}/tf"
  data_json            = jsonencode(each.value)
  ignore_absent_fields = true
}

# An answer has each field as it was written, so a difference shows.
resource "vault_generic_endpoint" "rule" {
  for_each             = local.rules
  path                 = "${vault_generic_endpoint.destination["in-mem"].path}/rules/${each.key}"
  data_json            = jsonencode(merge({ mount = vault_mount.kv.path }, each.value))
  ignore_absent_fields = true
}
