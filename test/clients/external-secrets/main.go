// The Vault provider of External Secrets, run for the manifests of one folder without a cluster: prints the fields of
// the Kubernetes secret that each ExternalSecret would make, and carries out each PushSecret.
//
//	external-secrets FOLDER ADDRESS TOKEN_OF_SERVICE_ACCOUNT
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	esv1 "github.com/external-secrets/external-secrets/apis/externalsecrets/v1"
	"github.com/external-secrets/external-secrets/apis/externalsecrets/v1alpha1"
	"github.com/external-secrets/external-secrets/pkg/provider/vault"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder, address, account string) error {
	ctx := context.Background()
	var asked []string
	cluster := httptest.NewServer(tokenRequests(account, &asked))
	defer cluster.Close()
	if err := useCluster(cluster.URL); err != nil {
		return err
	}
	var store esv1.SecretStore
	if err := read(folder, "secret-store.yaml", &store); err != nil {
		return err
	}
	store.Spec.Provider.Vault.Server = address
	provider := &vault.Provider{NewVaultClient: vault.NewVaultClient}
	if _, err := provider.ValidateStore(&store); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	client, err := provider.NewClient(ctx, &store, nil, store.Namespace)
	if err != nil {
		return fmt.Errorf("login: %w", err)
	}
	ready, err := client.Validate()
	if err != nil {
		return fmt.Errorf("validate: %w", err)
	}
	made, err := secretOf(ctx, client, folder)
	if err != nil {
		return err
	}
	if err := push(ctx, client, folder); err != nil {
		return fmt.Errorf("push: %w", err)
	}
	if err := client.Close(ctx); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"ready": ready.String(), "secret": made, "asked": asked})
}

// tokenRequests answers as a cluster's API: each request for a token of a service account gets the one given. Bodies of
// requests are protobuf, so only the audience is looked for.
func tokenRequests(account string, asked *[]string) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil || !bytes.Contains(body, []byte("sallyport")) {
			http.Error(writer, "no audience", http.StatusBadRequest)
			return
		}
		*asked = append(*asked, request.Method+" "+request.URL.Path)
		writer.Header().Set("Content-Type", "application/json")
		writer.WriteHeader(http.StatusCreated)
		status := map[string]any{"token": account, "expirationTimestamp": "2100-01-01T00:00:00Z"}
		answer := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"audiences": nil}, "status": status}
		_ = json.NewEncoder(writer).Encode(answer)
	})
}

func useCluster(url string) error {
	file, err := os.CreateTemp("", "kubeconfig-")
	if err != nil {
		return err
	}
	defer file.Close()
	const config = `{"apiVersion":"v1","kind":"Config","current-context":"one","clusters":[{"name":"one","cluster":{"server":%q}}],` +
		`"contexts":[{"name":"one","context":{"cluster":"one","user":"one"}}],"users":[{"name":"one","user":{}}]}`
	if _, err := fmt.Fprintf(file, config, url); err != nil {
		return err
	}
	return os.Setenv("KUBECONFIG", file.Name())
}

// secretOf makes what the ExternalSecret's `data` and `dataFrom` describe.
func secretOf(ctx context.Context, client esv1.SecretsClient, folder string) (map[string]string, error) {
	var wanted esv1.ExternalSecret
	if err := read(folder, "external-secret.yaml", &wanted); err != nil {
		return nil, err
	}
	fields := map[string][]byte{}
	for _, from := range wanted.Spec.DataFrom {
		some, err := client.GetSecretMap(ctx, *from.Extract)
		if err != nil {
			return nil, fmt.Errorf("extract %s: %w", from.Extract.Key, err)
		}
		maps.Copy(fields, some)
	}
	for _, one := range wanted.Spec.Data {
		value, err := client.GetSecret(ctx, one.RemoteRef)
		if err != nil {
			return nil, fmt.Errorf("data %s: %w", one.RemoteRef.Key, err)
		}
		fields[one.SecretKey] = value
	}
	made := map[string]string{}
	for name, value := range fields {
		made[name] = string(value)
	}
	return made, nil
}

// push carries out the PushSecret twice: the second time nothing differs.
func push(ctx context.Context, client esv1.SecretsClient, folder string) error {
	var wanted v1alpha1.PushSecret
	if err := read(folder, "push-secret.yaml", &wanted); err != nil {
		return err
	}
	secret := corev1.Secret{Data: map[string][]byte{}}
	for _, one := range wanted.Spec.Data {
		secret.Data[one.Match.SecretKey] = []byte("value of " + one.Match.SecretKey)
	}
	for range 2 {
		for _, one := range wanted.Spec.Data {
			if err := client.PushSecret(ctx, &secret, one); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads the last document of a file, and refuses fields that the type does not have.
func read(folder, name string, into any) error {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return err
	}
	documents := strings.Split(string(text), "\n---\n")
	if err := yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
