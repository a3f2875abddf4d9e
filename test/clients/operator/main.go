// Command operator subscribes as the Vault Secrets Operator does for a VaultStaticSecret with instantUpdates, by its own
// WebSocket client. It prints each frame, and a line for each that would make the operator read the secret again.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/hashicorp/vault-secrets-operator/vault"
)

// message is what the operator reads of a frame.
type message struct {
	Data struct {
		Event struct {
			Metadata struct {
				Path     string `json:"path"`
				Modified string `json:"modified"`
			} `json:"metadata"`
		} `json:"event"`
		Namespace string `json:"namespace"`
	} `json:"data"`
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Arguments: address, token, and the path of the secret with its mount.
func main() {
	address, token, path := os.Args[1], os.Args[2], os.Args[3]
	client, err := vault.NewClient(address, token, "")
	must(err)
	socket, err := client.WebsocketClient("/v1/sys/events/subscribe/kv*")
	must(err)
	connection, err := socket.Connect(context.Background())
	must(err)
	for {
		_, bytes, err := connection.Read(context.Background())
		must(err)
		var frame message
		must(json.Unmarshal(bytes, &frame))
		modified, err := strconv.ParseBool(frame.Data.Event.Metadata.Modified)
		must(err)
		fmt.Print(string(bytes))
		if modified && strings.Trim(frame.Data.Namespace, "/") == "" && frame.Data.Event.Metadata.Path == path {
			fmt.Println("reads " + path)
		}
	}
}
