// Package vault holds the operator's WebSocket client: websocket.go of its repository, added when it is built.
package vault

import "github.com/hashicorp/vault/api"

// defaultClient has what websocket.go reads of the operator's client.
type defaultClient struct{ client *api.Client }

// NewClient is a client with a token, in a namespace; the operator sets an empty one, too.
func NewClient(address, token, namespace string) (*defaultClient, error) {
	config := api.DefaultConfig()
	config.Address = address
	client, err := api.NewClient(config)
	if err != nil {
		return nil, err
	}
	client.SetToken(token)
	client.SetNamespace(namespace)
	return &defaultClient{client}, nil
}
