# Mounts, a secret, a policy, auth methods, an entity with its alias, a group and a token role.

terraform {
  required_providers {
    vault = { source = "hashicorp/vault" }
  }
}

provider "vault" {}

resource "vault_mount" "kv" {
  path        = "tf-secrets"
  type        = "kv"
  description = "by Terraform"
  options     = { version = "2" }
}

resource "vault_mount" "plain" {
  path                      = "tf-plain"
  type                      = "kv"
  default_lease_ttl_seconds = 3600
  max_lease_ttl_seconds     = 7200
}

resource "vault_generic_secret" "db" {
  path      = "${vault_mount.plain.path}/db"
  data_json = jsonencode({ user = "app", password = "one" })
}

resource "vault_policy" "reader" {
  name   = "tf-reader"
  policy = "path \"tf-plain/*\" {\n  capabilities = [\"read\"]\n}\n"
}

resource "vault_auth_backend" "machines" {
  type        = "approle"
  path        = "tf-machines"
  description = "by Terraform"
}

resource "vault_jwt_auth_backend" "ci" {
  path                   = "tf-ci"
  jwt_validation_pubkeys = [var.public_key]
}

resource "vault_identity_entity" "ann" {
  name     = "tf-ann"
  policies = [vault_policy.reader.name]
  metadata = { team = "shop" }
}

resource "vault_identity_entity_alias" "ann" {
  name           = "ann"
  mount_accessor = vault_jwt_auth_backend.ci.accessor
  canonical_id   = vault_identity_entity.ann.id
}

resource "vault_identity_group" "shop" {
  name              = "tf-shop"
  type              = "internal"
  member_entity_ids = [vault_identity_entity.ann.id]
  policies          = [vault_policy.reader.name]
}

resource "vault_token_auth_backend_role" "ci" {
  role_name        = "tf-ci"
  allowed_policies = [vault_policy.reader.name]
  orphan           = true
}

data "vault_generic_secret" "db" {
  path = vault_generic_secret.db.path
}

variable "public_key" {
  type = string
}

output "user" {
  value     = data.vault_generic_secret.db.data["user"]
  sensitive = true
}
