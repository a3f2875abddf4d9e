# Credentials of these engines, by every data source and ephemeral resource that the provider has for them.

data "vault_aws_access_credentials" "session" {
  backend = vault_aws_secret_backend.aws.path
  role    = vault_aws_secret_backend_role.session.name
  type    = "sts"
}

data "vault_aws_static_access_credentials" "worker" {
  backend = vault_aws_secret_backend.aws.path
  name    = vault_aws_secret_backend_static_role.worker.name
}

data "vault_azure_access_credentials" "reader" {
  backend = vault_azure_secret_backend.azure.path
  role    = vault_azure_secret_backend_role.reader.role
}

ephemeral "vault_aws_access_credentials" "user" {
  mount = vault_aws_secret_backend.aws.path
  role  = vault_aws_secret_backend_role.user.name
  lifecycle {
    postcondition {
      condition     = startswith(self.access_key, "AKIA") && self.lease_renewable && self.lease_duration == 600
      error_message = "no key of a user"
    }
  }
}

ephemeral "vault_aws_access_credentials" "session" {
  mount = vault_aws_secret_backend.aws.path
  role  = vault_aws_secret_backend_role.session.name
  type  = "sts"
  ttl   = "1200s"
  lifecycle {
    postcondition {
      condition     = self.security_token != "" && !self.lease_renewable && abs(self.lease_duration - 1200) < 60
      error_message = "no session"
    }
  }
}

ephemeral "vault_aws_static_access_credentials" "worker" {
  mount = vault_aws_secret_backend.aws.path
  name  = vault_aws_secret_backend_static_role.worker.name
  lifecycle {
    postcondition {
      condition     = self.access_key == data.vault_aws_static_access_credentials.worker.access_key
      error_message = "another key"
    }
  }
}

ephemeral "vault_gcp_oauth2_access_token" "token" {
  for_each = {
    roleset              = [vault_gcp_secret_roleset.token.roleset, null, null]
    static_account       = [null, vault_gcp_secret_static_account.token.static_account, null]
    impersonated_account = [null, null, vault_gcp_secret_impersonated_account.app.impersonated_account]
  }
  mount                = vault_gcp_secret_backend.google.path
  roleset              = each.value[0]
  static_account       = each.value[1]
  impersonated_account = each.value[2]
  lifecycle {
    postcondition {
      condition     = self.token != "" && self.token_ttl > 0
      error_message = "no token"
    }
  }
}

ephemeral "vault_gcp_service_account_key" "key" {
  for_each = {
    roleset        = [vault_gcp_secret_roleset.key.roleset, null]
    static_account = [null, vault_gcp_secret_static_account.key.static_account]
  }
  mount          = vault_gcp_secret_backend.google.path
  roleset        = each.value[0]
  static_account = each.value[1]
  lifecycle {
    postcondition {
      condition     = jsondecode(self.private_key_data).client_email == self.service_account_email && self.lease_duration == 600
      error_message = "no key of an account"
    }
  }
}

ephemeral "vault_azure_access_credentials" "reader" {
  backend          = vault_azure_secret_backend.azure.path
  role             = vault_azure_secret_backend_role.reader.role
  request_metadata = { run = "1" }
  lifecycle {
    postcondition {
      condition     = self.client_secret != "" && self.metadata == tomap({ team = "a", run = "1" })
      error_message = "no principal"
    }
  }
}

ephemeral "vault_azure_static_credentials" "app" {
  for_each = toset([vault_azure_secret_backend_static_role.app.role, vault_azure_secret_backend_static_role.imported.role])
  backend  = vault_azure_secret_backend.azure.path
  role     = each.value
  lifecycle {
    postcondition {
      condition     = self.client_secret != "" && self.secret_id != "" && self.expiration != ""
      error_message = "no password"
    }
  }
}
