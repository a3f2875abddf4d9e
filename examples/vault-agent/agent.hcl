# vault agent -config=agent.hcl, or bao agent -config=agent.hcl: logs in by AppRole, keeps the token in a file, and
# writes app.env. The template is that of examples/consul-template.

vault {
  address = "https://sallyport.example"
}

auto_auth {
  method "approle" {
    mount_path = "auth/approle"
    config = {
      role_id_file_path                   = "role-id"
      secret_id_file_path                 = "secret-id"
      remove_secret_id_file_after_reading = false
    }
  }

  sink "file" {
    config = {
      path = "token"
      mode = 0600
    }
  }
}

template_config {
  static_secret_render_interval = "30s"
  exit_on_retry_failure         = true
}

template {
  source      = "../consul-template/app.env.ctmpl"
  destination = "app.env"
  perms       = "0600"
}
