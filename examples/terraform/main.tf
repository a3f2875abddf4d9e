# A team's secrets in Sallyport: a KV mount, the policies for it, the copies of its secrets at other stores, and an
# engine for credentials of Azure. Works with the Vault provider from 1.9 on.

terraform {
  required_version = ">= 1.4"
  required_providers {
    vault = { source = "hashicorp/vault" }
  }
}

# VAULT_ADDR and VAULT_TOKEN name the service and the token.
provider "vault" {}

resource "vault_mount" "kv" {
  path        = var.team
  type        = "kv"
  description = "secrets of the team ${var.team}"
  options     = { version = "2" }
}

resource "vault_policy" "reader" {
  name   = "${var.team}-reader"
  policy = <<-EOT
    path "${vault_mount.kv.path}/data/*" {
      capabilities = ["read"]
    }
    path "${vault_mount.kv.path}/metadata/*" {
      capabilities = ["read", "list"]
    }
  EOT
}

resource "vault_policy" "writer" {
  name   = "${var.team}-writer"
  policy = <<-EOT
    path "${vault_mount.kv.path}/data/*" {
      capabilities = ["create", "read", "update", "patch", "delete"]
    }
    path "${vault_mount.kv.path}/metadata/*" {
      capabilities = ["read", "list", "delete"]
    }
  EOT
}

resource "vault_generic_secret" "initial" {
  for_each  = var.secrets
  path      = "${vault_mount.kv.path}/${each.key}"
  data_json = each.value
}

# A destination's answer has other fields than its request, so a difference in them is not noticed; a destination that
# was deleted is.
resource "vault_generic_endpoint" "destination" {
  for_each             = var.destinations
  path                 = "sys/sync/destinations/${each.value.type}/${each.key}"
  data_json            = each.value.settings
  ignore_absent_fields = true
}

# An association is set by one request and removed by another, which the provider's generic resource cannot express.
resource "terraform_data" "association" {
  for_each = { for each in var.associations : "${each.destination}/${each.secret}" => each }
  input = {
    url  = vault_generic_endpoint.destination[each.value.destination].path
    body = jsonencode({ mount = vault_mount.kv.path, secret_name = each.value.secret })
  }
  triggers_replace = [each.value.destination, each.value.secret, vault_mount.kv.path]
  depends_on       = [vault_generic_secret.initial]

  provisioner "local-exec" {
    command     = "curl -sSf -o /dev/null -H \"X-Vault-Token: $VAULT_TOKEN\" -d \"$BODY\" \"$VAULT_ADDR/v1/$URL/associations/set\""
    environment = { URL = self.input.url, BODY = self.input.body }
  }

  provisioner "local-exec" {
    when        = destroy
    command     = "curl -sSf -o /dev/null -H \"X-Vault-Token: $VAULT_TOKEN\" -d \"$BODY\" \"$VAULT_ADDR/v1/$URL/associations/remove\""
    environment = { URL = self.input.url, BODY = self.input.body }
  }
}

resource "vault_mount" "azure" {
  count       = var.azure == null ? 0 : 1
  path        = "${var.team}-azure"
  type        = "azure"
  description = "credentials of Azure for the team ${var.team}"
}

# Never read back: the secret of the application is not returned.
resource "vault_generic_endpoint" "azure_config" {
  count                = var.azure == null ? 0 : 1
  path                 = "${vault_mount.azure[0].path}/config"
  data_json            = jsonencode(var.azure)
  ignore_absent_fields = true
}

# A role's answer also has the ids of what it names, so it is not compared.
resource "vault_generic_endpoint" "azure_role" {
  for_each     = var.azure == null ? {} : var.azure_roles
  path         = "${vault_mount.azure[0].path}/roles/${each.key}"
  data_json    = each.value
  disable_read = true
  depends_on   = [vault_generic_endpoint.azure_config]
}
