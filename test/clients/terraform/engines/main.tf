# Engines of AWS, Google Cloud and Azure, by every resource that the provider has for them.

terraform {
  required_providers {
    vault = { source = "hashicorp/vault" }
  }
}

provider "vault" {}

variable "aws" {
  type = object({ access_key = string, secret_key = string, role_arn = string, policy_arn = string })
}

variable "google" {
  type = object({ project = string, credentials = string, account = string })
}

variable "azure" {
  type = object({
    subscription_id = string, tenant_id = string, client_id = string, client_secret = string,
    scope           = string, application = string, imported = string, key = string
  })
}

resource "vault_aws_secret_backend" "aws" {
  path                      = "tf-aws"
  description               = "by Terraform"
  access_key                = var.aws.access_key
  secret_key_wo             = var.aws.secret_key
  secret_key_wo_version     = 1
  region                    = "eu-west-1"
  default_lease_ttl_seconds = 600
  max_lease_ttl_seconds     = 3600
  rotation_schedule         = "0 0 * * SAT"
  rotation_window           = 3600
}

resource "vault_aws_secret_backend_role" "user" {
  backend         = vault_aws_secret_backend.aws.path
  name            = "user"
  credential_type = "iam_user"
  user_path       = "/team/"
  iam_tags        = { team = "a" }
  policy_arns     = [var.aws.policy_arn]
  policy_document = jsonencode({
    Version   = "2012-10-17"
    Statement = [{ Effect = "Allow", Action = "s3:GetObject", Resource = "*" }]
  })
}

resource "vault_aws_secret_backend_role" "session" {
  backend         = vault_aws_secret_backend.aws.path
  name            = "session"
  credential_type = "assumed_role"
  role_arns       = [var.aws.role_arn]
  default_sts_ttl = 900
  max_sts_ttl     = 1800
  session_tags    = { team = "a" }
}

resource "vault_aws_secret_backend_role" "federated" {
  backend         = vault_aws_secret_backend.aws.path
  name            = "federated"
  credential_type = "federation_token"
  policy_arns     = [var.aws.policy_arn]
}

resource "vault_aws_secret_backend_static_role" "worker" {
  backend         = vault_aws_secret_backend.aws.path
  name            = "worker"
  username        = "worker"
  rotation_period = 3600
}

resource "vault_gcp_secret_backend" "google" {
  path                   = "tf-gcp"
  credentials_wo         = var.google.credentials
  credentials_wo_version = 1
  ttl                    = 600
  max_ttl                = 3600
}

resource "vault_gcp_secret_roleset" "token" {
  backend      = vault_gcp_secret_backend.google.path
  roleset      = "token"
  secret_type  = "access_token"
  project      = var.google.project
  token_scopes = ["https://www.googleapis.com/auth/cloud-platform"]
  binding {
    resource = "//cloudresourcemanager.googleapis.com/projects/${var.google.project}"
    roles    = ["roles/viewer"]
  }
}

resource "vault_gcp_secret_roleset" "key" {
  backend     = vault_gcp_secret_backend.google.path
  roleset     = "key"
  secret_type = "service_account_key"
  project     = var.google.project
  binding {
    resource = "//cloudresourcemanager.googleapis.com/projects/${var.google.project}"
    roles    = ["roles/viewer", "roles/browser"]
  }
}

resource "vault_gcp_secret_static_account" "key" {
  backend               = vault_gcp_secret_backend.google.path
  static_account        = "key"
  service_account_email = var.google.account
  secret_type           = "service_account_key"
}

resource "vault_gcp_secret_static_account" "token" {
  backend               = vault_gcp_secret_backend.google.path
  static_account        = "token"
  service_account_email = var.google.account
  secret_type           = "access_token"
  token_scopes          = ["https://www.googleapis.com/auth/cloud-platform"]
  binding {
    resource = "//cloudresourcemanager.googleapis.com/projects/${var.google.project}"
    roles    = ["roles/viewer"]
  }
}

resource "vault_gcp_secret_impersonated_account" "app" {
  backend               = vault_gcp_secret_backend.google.path
  impersonated_account  = "app"
  service_account_email = var.google.account
  token_scopes          = ["https://www.googleapis.com/auth/cloud-platform"]
  ttl                   = "600"
}

resource "vault_azure_secret_backend" "azure" {
  path                     = "tf-azure"
  subscription_id          = var.azure.subscription_id
  tenant_id                = var.azure.tenant_id
  client_id                = var.azure.client_id
  client_secret_wo         = var.azure.client_secret
  client_secret_wo_version = 1
  root_password_ttl        = 2592000
  rotation_period          = 86400
}

resource "vault_azure_secret_backend_role" "reader" {
  backend  = vault_azure_secret_backend.azure.path
  role     = "reader"
  ttl      = "300"
  max_ttl  = "600"
  tags     = ["team:a"]
  metadata = { team = "a" }
  azure_roles {
    role_name = "Reader"
    scope     = var.azure.scope
  }
}

resource "vault_azure_secret_backend_static_role" "app" {
  backend               = vault_azure_secret_backend.azure.path
  role                  = "app"
  application_object_id = var.azure.application
  ttl                   = 2592000
  metadata              = { team = "a" }
}

resource "vault_azure_secret_backend_static_role" "imported" {
  backend               = vault_azure_secret_backend.azure.path
  role                  = "imported"
  application_object_id = var.azure.imported
  secret_id             = var.azure.key
  ttl                   = 2592000
}
