# The resources of current providers: Vault 5 and Nomad 2. VAULT_ADDR, VAULT_TOKEN, NOMAD_ADDR and NOMAD_TOKEN name the
# service and the tokens.

terraform {
  required_providers {
    vault = { source = "hashicorp/vault", version = "~> 5.0" }
    nomad = { source = "hashicorp/nomad", version = "~> 2.0" }
  }
}

provider "vault" {}
provider "nomad" {}

variable "aws" {
  type = object({ region = string, access_key_id = string, secret_access_key = string })
}

variable "azure" {
  type = object({ subscription_id = string, tenant_id = string, client_id = string, client_secret = string })
}

resource "vault_mount" "kv" {
  path    = "shop"
  type    = "kv"
  options = { version = "2" }
}

resource "vault_policy" "reader" {
  name   = "shop-reader"
  policy = "path \"shop/data/*\" { capabilities = [\"read\"] }"
}

resource "vault_kv_secret_v2" "database" {
  mount     = vault_mount.kv.path
  name      = "app/database"
  data_json = jsonencode({ username = "shop", password = "replace-me" })
}

resource "vault_secrets_sync_aws_destination" "live" {
  name              = "live"
  region            = var.aws.region
  access_key_id     = var.aws.access_key_id
  secret_access_key = var.aws.secret_access_key
}

resource "vault_secrets_sync_association" "database" {
  name        = vault_secrets_sync_aws_destination.live.name
  type        = vault_secrets_sync_aws_destination.live.type
  mount       = vault_mount.kv.path
  accessor    = vault_mount.kv.accessor
  secret_name = vault_kv_secret_v2.database.name
}

resource "vault_azure_secret_backend" "azure" {
  path            = "shop-azure"
  subscription_id = var.azure.subscription_id
  tenant_id       = var.azure.tenant_id
  client_id       = var.azure.client_id
  client_secret   = var.azure.client_secret
}

resource "vault_azure_secret_backend_role" "reader" {
  backend = vault_azure_secret_backend.azure.path
  role    = "reader"
  ttl     = "3600"

  azure_roles {
    role_name = "Reader"
    scope     = "/subscriptions/${var.azure.subscription_id}"
  }
}

resource "nomad_dynamic_host_volume" "uploads" {
  name      = "uploads"
  plugin_id = "mkdir"

  capability {
    access_mode     = "single-node-writer"
    attachment_mode = "file-system"
  }
}
