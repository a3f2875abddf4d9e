# consul-template -config=config.hcl: writes app.env, and again when a secret or a lease changes.
# VAULT_ADDR names the service and VAULT_TOKEN a token that may read the secrets of the template.

vault {
  renew_token             = true
  default_lease_duration  = "30s"
  lease_renewal_threshold = 0.9
}

template {
  source      = "app.env.ctmpl"
  destination = "app.env"
  perms       = 0600
}
