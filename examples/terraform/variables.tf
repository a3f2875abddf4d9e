variable "team" {
  description = "The path of the team's mount, and the first part of all other names."
  type        = string
}

variable "secrets" {
  description = "Secrets to begin with: the fields of each as JSON."
  type        = map(string)
  default     = {}
}

variable "destinations" {
  description = "Stores that secrets are copied to: the type (aws-sm, azure-kv, gcp-sm, gh, vercel-project, in-mem) and the settings as JSON."
  type        = map(object({ type = string, settings = string }))
  default     = {}
}

variable "associations" {
  description = "The secrets that are copied to each destination."
  type        = set(object({ destination = string, secret = string }))
  default     = []
}

variable "azure" {
  description = "The application that makes credentials of Azure. None without it."
  type        = object({ subscription_id = string, tenant_id = string, client_id = string, client_secret = string })
  default     = null
}

variable "azure_roles" {
  description = "Roles of the engine: the fields of each as JSON."
  type        = map(string)
  default     = {}
}

output "mount" {
  value = vault_mount.kv.path
}
