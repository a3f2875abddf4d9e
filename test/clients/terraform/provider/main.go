// The Vault provider of Terraform, built from its module, as its registry is not reachable everywhere.
package main

import (
	"github.com/hashicorp/terraform/plugin"
	"github.com/terraform-providers/terraform-provider-vault/vault"
)

func main() {
	plugin.Serve(&plugin.ServeOpts{ProviderFunc: vault.Provider})
}
