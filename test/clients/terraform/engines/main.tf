# Engines of AWS, Google Cloud and Azure: by the provider's resources, and by its generic one where this version has none.

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
    scope           = string, application = string
  })
}

resource "vault_aws_secret_backend" "aws" {
  path                      = "tf-aws"
  description               = "by Terraform"
  access_key                = var.aws.access_key
  secret_key                = var.aws.secret_key
  region                    = "eu-west-1"
  default_lease_ttl_seconds = 600
  max_lease_ttl_seconds     = 3600
}

resource "vault_aws_secret_backend_role" "user" {
  backend         = vault_aws_secret_backend.aws.path
  name            = "user"
  credential_type = "iam_user"
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
}

resource "vault_generic_endpoint" "aws_static" {
  path                 = "${vault_aws_secret_backend.aws.path}/static-roles/worker"
  ignore_absent_fields = true
  data_json            = jsonencode({ username = "worker", rotation_period = 3600 })
}

resource "vault_gcp_secret_backend" "google" {
  path        = "tf-gcp"
  credentials = var.google.credentials
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

resource "vault_generic_endpoint" "google_static" {
  path                 = "${vault_gcp_secret_backend.google.path}/static-account/app"
  ignore_absent_fields = true
  data_json = jsonencode({
    service_account_email = var.google.account
    secret_type           = "service_account_key"
  })
}

resource "vault_generic_endpoint" "google_impersonated" {
  path                 = "${vault_gcp_secret_backend.google.path}/impersonated-account/app"
  ignore_absent_fields = true
  data_json = jsonencode({
    service_account_email = var.google.account
    token_scopes          = ["https://www.googleapis.com/auth/cloud-platform"]
    ttl                   = 600
  })
}

resource "vault_mount" "azure" {
  path = "tf-azure"
  type = "azure"
}

resource "vault_generic_endpoint" "azure_config" {
  path                 = "${vault_mount.azure.path}/config"
  ignore_absent_fields = true
  data_json = jsonencode({
    subscription_id = var.azure.subscription_id
    tenant_id       = var.azure.tenant_id
    client_id       = var.azure.client_id
    client_secret   = var.azure.client_secret
  })
}

resource "vault_generic_endpoint" "azure_role" {
  depends_on           = [vault_generic_endpoint.azure_config]
  path                 = "${vault_mount.azure.path}/roles/reader"
  ignore_absent_fields = true
  disable_read         = true
  data_json = jsonencode({
    azure_roles = jsonencode([{ role_name = "Reader", scope = var.azure.scope }])
    ttl         = "300"
  })
}

resource "vault_generic_endpoint" "azure_static" {
  depends_on           = [vault_generic_endpoint.azure_config]
  path                 = "${vault_mount.azure.path}/static-roles/app"
  ignore_absent_fields = true
  data_json            = jsonencode({ application_object_id = var.azure.application, metadata = { team = "a" } })
}
