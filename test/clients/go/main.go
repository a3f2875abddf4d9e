// The main flows of the Go clients of Vault and Nomad against one service.
//
// Usage: flows ADDRESS TOKEN. Prints one line of JSON for each step: its name, and "ok" or the error.
package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	vault "github.com/openbao/openbao/api/v2"
)

type step struct {
	name string
	run  func() error
}

func must[T any](value T, failure error) T {
	if failure != nil {
		panic(failure)
	}
	return value
}

func check(failures ...error) {
	for _, failure := range failures {
		if failure != nil {
			panic(failure)
		}
	}
}

func equal(name string, got, want any) {
	if !reflect.DeepEqual(got, want) {
		panic(fmt.Errorf("%s: got %v, want %v", name, got, want))
	}
}

// signed is a JSON Web Token of the claims, by RS256.
func signed(key *rsa.PrivateKey, claims map[string]any) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(must(json.Marshal(claims)))
	digest := sha256.Sum256([]byte(text))
	return text + "." + encode(must(rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])))
}

// startIssuer serves a discovery document, the public key, and an ID token of the claims for any code.
func startIssuer(key *rsa.PrivateKey, claims map[string]any) *httptest.Server {
	encode := base64.RawURLEncoding.EncodeToString
	var server *httptest.Server
	answer := func(response http.ResponseWriter, body any) { check(json.NewEncoder(response).Encode(body)) }
	routes := http.NewServeMux()
	routes.HandleFunc("/.well-known/openid-configuration", func(response http.ResponseWriter, _ *http.Request) {
		answer(response, map[string]string{
			"issuer": server.URL, "jwks_uri": server.URL + "/keys",
			"authorization_endpoint": server.URL + "/authorize", "token_endpoint": server.URL + "/token",
		})
	})
	routes.HandleFunc("/keys", func(response http.ResponseWriter, _ *http.Request) {
		exponent := big.NewInt(int64(key.E)).Bytes()
		public := map[string]string{"kty": "RSA", "n": encode(key.N.Bytes()), "e": encode(exponent)}
		answer(response, map[string]any{"keys": []any{public}})
	})
	routes.HandleFunc("/token", func(response http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		all := map[string]any{"iss": server.URL, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()}
		for name, value := range claims {
			all[name] = value
		}
		answer(response, map[string]string{"id_token": signed(key, all), "access_token": "a"})
	})
	server = httptest.NewServer(routes)
	return server
}

func refused(name string, failure error) {
	if failure == nil {
		panic(fmt.Errorf("%s: not refused", name))
	}
}

func try(run func()) (failure error) {
	defer func() {
		if caught := recover(); caught != nil {
			failure = fmt.Errorf("%v", caught)
		}
	}()
	run()
	return nil
}

func vaultClient(address, token string) *vault.Client {
	config := vault.DefaultConfig()
	config.Address = address
	config.MaxRetries = 0
	client := must(vault.NewClient(config))
	client.SetToken(token)
	return client
}

func vaultSteps(address, root string) []step {
	client := vaultClient(address, root)
	ctx := context.Background()
	return []step{
		{"vault: status", func() error {
			return try(func() {
				health := must(client.Sys().Health())
				equal("initialized", health.Initialized, true)
				equal("sealed", must(client.Sys().SealStatus()).Sealed, false)
				must(client.Sys().Leader())
				must(client.Auth().Token().LookupSelf())
			})
		}},
		{"vault: mounts", func() error {
			return try(func() {
				check(client.Sys().Mount("go-v2", &vault.MountInput{Type: "kv-v2"}))
				check(client.Sys().Mount("go-v1", &vault.MountInput{Type: "kv"}))
				mounts := must(client.Sys().ListMounts())
				equal("version", mounts["go-v2/"].Options["version"], "2")
				check(client.Sys().TuneMount("go-v2", vault.MountConfigInput{DefaultLeaseTTL: "1h"}))
				equal("ttl", must(client.Sys().MountConfig("go-v2")).DefaultLeaseTTL, 3600)
			})
		}},
		{"vault: KV version 2", func() error {
			return try(func() {
				kv := client.KVv2("go-v2")
				must(kv.Put(ctx, "app/db", map[string]any{"password": "one"}))
				must(kv.Put(ctx, "app/db", map[string]any{"password": "two"}, vault.WithCheckAndSet(1)))
				_, failure := kv.Put(ctx, "app/db", map[string]any{"x": "y"}, vault.WithCheckAndSet(1))
				refused("cas", failure)
				must(kv.Patch(ctx, "app/db", map[string]any{"user": "app"}))
				equal("data", must(kv.Get(ctx, "app/db")).Data, map[string]any{"password": "two", "user": "app"})
				equal("version", must(kv.GetVersion(ctx, "app/db", 1)).Data, map[string]any{"password": "one"})
				must(kv.Rollback(ctx, "app/db", 1))
				equal("rolled back", must(kv.Get(ctx, "app/db")).Data, map[string]any{"password": "one"})
				equal("versions", len(must(kv.GetVersionsAsList(ctx, "app/db"))), 4)
				check(kv.PutMetadata(ctx, "app/db", vault.KVMetadataPutInput{CustomMetadata: map[string]any{"owner": "team"}}))
				equal("metadata", must(kv.GetMetadata(ctx, "app/db")).CustomMetadata, map[string]any{"owner": "team"})
				check(kv.DeleteVersions(ctx, "app/db", []int{1}), kv.Undelete(ctx, "app/db", []int{1}))
				check(kv.Destroy(ctx, "app/db", []int{1}), kv.Delete(ctx, "app/db"), kv.DeleteMetadata(ctx, "app/db"))
				_, failure = kv.Get(ctx, "app/db")
				refused("deleted", failure)
			})
		}},
		{"vault: KV version 1", func() error {
			return try(func() {
				kv := client.KVv1("go-v1")
				check(kv.Put(ctx, "app/db", map[string]any{"password": "one"}))
				secret := must(kv.Get(ctx, "app/db"))
				equal("data", secret.Data, map[string]any{"password": "one"})
				equal("lease", secret.Raw.LeaseDuration, 2764800)
				equal("keys", must(client.Logical().List("go-v1/app")).Data["keys"], []any{"db"})
				check(kv.Delete(ctx, "app/db"))
				_, failure := kv.Get(ctx, "app/db")
				refused("deleted", failure)
			})
		}},
		{"vault: policies and tokens", func() error {
			return try(func() {
				rules := `path "go-v2/data/app/*" { capabilities = ["read"] }`
				check(client.Sys().PutPolicy("go-reader", rules))
				equal("rules", must(client.Sys().GetPolicy("go-reader")), rules)
				made := must(client.Auth().Token().Create(&vault.TokenCreateRequest{Policies: []string{"go-reader"}, TTL: "1h"}))
				own := vaultClient(address, made.Auth.ClientToken)
				equal("capabilities", must(own.Sys().CapabilitiesSelf("go-v2/data/app/x")), []string{"read"})
				watcher := must(own.NewLifetimeWatcher(&vault.LifetimeWatcherInput{Secret: made, Increment: 7200}))
				go watcher.Start()
				select {
				case renewal := <-watcher.RenewCh():
					equal("renewed", renewal.Secret.Auth.LeaseDuration, 7200)
				case failure := <-watcher.DoneCh():
					panic(fmt.Errorf("the watcher ended: %v", failure))
				case <-time.After(20 * time.Second):
					panic("no renewal")
				}
				watcher.Stop()
				check(own.Auth().Token().RevokeSelf(""))
				_, failure := own.Auth().Token().LookupSelf()
				refused("revoked", failure)
			})
		}},
		{"vault: token roles", func() error {
			return try(func() {
				must(client.Logical().Write("auth/token/roles/go", map[string]any{"allowed_policies": "go-reader", "orphan": true}))
				request := &vault.TokenCreateRequest{Policies: []string{"go-reader"}}
				made := must(client.Auth().Token().CreateWithRole(request, "go"))
				equal("orphan", made.Auth.Orphan, true)
			})
		}},
		{"vault: logins by role id and secret id", func() error {
			return try(func() {
				check(client.Sys().EnableAuthWithOptions("go-machines", &vault.EnableAuthOptions{Type: "approle"}))
				logical := client.Logical()
				role := "auth/go-machines/role/web"
				must(logical.Write(role, map[string]any{"token_policies": "go-reader", "secret_id_num_uses": 1}))
				credentials := map[string]any{
					"role_id":   must(logical.Read(role + "/role-id")).Data["role_id"],
					"secret_id": must(logical.Write(role+"/secret-id", nil)).Data["secret_id"],
				}
				login := must(vaultClient(address, "").Logical().Write("auth/go-machines/login", credentials))
				equal("policies", login.Auth.Policies, []string{"default", "go-reader"})
				equal("metadata", login.Auth.Metadata, map[string]string{"role_name": "web"})
				_, failure := vaultClient(address, "").Logical().Write("auth/go-machines/login", credentials)
				refused("used up", failure)
				must(logical.Delete(role))
				check(client.Sys().DisableAuth("go-machines"))
			})
		}},
		{"vault: null clears a field by its type", func() error { return clearedStep(client) }},
		{"vault: a list whose folder is denied", func() error { return deniedListStep(address, client) }},
		{"vault: wrapping", func() error {
			return try(func() {
				must(client.KVv2("go-v2").Put(ctx, "app/w", map[string]any{"k": "wrapped"}))
				wrapping := must(client.Clone())
				wrapping.SetToken(root)
				wrapping.SetWrappingLookupFunc(func(string, string) string { return "60s" })
				wrapped := must(wrapping.Logical().Read("go-v2/data/app/w"))
				equal("ttl", wrapped.WrapInfo.TTL, 60)
				unwrapped := must(client.Logical().Unwrap(wrapped.WrapInfo.Token))
				equal("data", unwrapped.Data["data"], map[string]any{"k": "wrapped"})
				_, failure := client.Logical().Unwrap(wrapped.WrapInfo.Token)
				refused("unwrapped twice", failure)
			})
		}},
		{"vault: remount", func() error {
			return try(func() {
				check(client.Sys().Remount("go-v1", "go-moved"))
				if _, moved := must(client.Sys().ListMounts())["go-moved/"]; !moved {
					panic("not moved")
				}
			})
		}},
	}
}

func nomadSteps(address, root string) []step {
	config := nomad.DefaultConfig()
	config.Address = address
	config.SecretID = root
	client := must(nomad.NewClient(config))
	return []step{
		{"nomad: status", func() error {
			return try(func() {
				must(client.Status().Leader())
				must(client.Regions().List())
				must(client.Agent().Self())
				must(client.Agent().Members())
			})
		}},
		{"nomad: nodes", func() error {
			return try(func() {
				var nodes []*nomad.NodeListStub
				for range 100 {
					if nodes, _, _ = client.Nodes().List(nil); len(nodes) > 0 && nodes[0].Status == "ready" {
						break
					}
					time.Sleep(200 * time.Millisecond)
				}
				node, _, failure := client.Nodes().Info(nodes[0].ID, nil)
				check(failure)
				_, failure = client.Nodes().ToggleEligibility(node.ID, false, nil)
				check(failure)
				_, failure = client.Nodes().ToggleEligibility(node.ID, true, nil)
				check(failure)
			})
		}},
		{"nomad: access control", func() error {
			return try(func() {
				rules := `namespace "default" { policy = "read" }`
				_, failure := client.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: "go-reader", Rules: rules}, nil)
				check(failure)
				made, _, failure := client.ACLTokens().Create(&nomad.ACLToken{Name: "go", Type: "client", Policies: []string{"go-reader"}}, nil)
				check(failure)
				found, _, failure := client.ACLTokens().Info(made.AccessorID, nil)
				check(failure)
				equal("policies", found.Policies, []string{"go-reader"})
				_, failure = client.ACLTokens().Delete(made.AccessorID, nil)
				check(failure)
				policies := []*nomad.ACLRolePolicyLink{{Name: "go-reader"}}
				role, _, failure := client.ACLRoles().Create(&nomad.ACLRole{Name: "go-role", Policies: policies}, nil)
				check(failure)
				links := []*nomad.ACLTokenRoleLink{{Name: "go-role"}}
				held, _, failure := client.ACLTokens().Create(&nomad.ACLToken{Name: "go", Type: "client", Roles: links}, nil)
				check(failure)
				equal("role", *held.Roles[0], nomad.ACLTokenRoleLink{ID: role.ID, Name: "go-role"})
				role.Description = "by Go"
				_, _, failure = client.ACLRoles().Update(role, nil)
				check(failure)
				named, _, failure := client.ACLRoles().GetByName("go-role", nil)
				check(failure)
				equal("description", named.Description, "by Go")
				listed, _, failure := client.ACLRoles().List(nil)
				check(failure)
				equal("roles", len(listed), 1)
				_, failure = client.ACLRoles().Delete(role.ID, nil)
				check(failure)
				_, failure = client.ACLTokens().Delete(held.AccessorID, nil)
				check(failure)
			})
		}},
		{"nomad: logins", func() error {
			return try(func() {
				_, failure := client.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: "go-login", Rules: `node { policy = "read" }`}, nil)
				check(failure)
				key := must(rsa.GenerateKey(rand.Reader, 2048))
				public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: must(x509.MarshalPKIXPublicKey(&key.PublicKey))})
				method, _, failure := client.ACLAuthMethods().Create(&nomad.ACLAuthMethod{
					Name: "go", Type: "JWT", TokenLocality: "local", MaxTokenTTL: time.Hour,
					Config: &nomad.ACLAuthMethodConfig{
						JWTValidationPubKeys: []string{string(public)},
						BoundAudiences:       []string{"sallyport"},
						ClaimMappings:        map[string]string{"team": "team"},
						ClockSkewLeeway:      time.Minute,
					},
				}, nil)
				check(failure)
				equal("lifetime", method.MaxTokenTTL, time.Hour)
				method.Default = true
				_, _, failure = client.ACLAuthMethods().Update(method, nil)
				check(failure)
				listed, _, failure := client.ACLAuthMethods().List(nil)
				check(failure)
				equal("default", listed[0].Default, true)
				rule, _, failure := client.ACLBindingRules().Create(&nomad.ACLBindingRule{
					AuthMethod: "go", BindType: "policy", BindName: "go-${value.team}", Selector: `value.team == "login"`,
				}, nil)
				check(failure)
				rule.Description = "by Go"
				_, _, failure = client.ACLBindingRules().Update(rule, nil)
				check(failure)
				found, _, failure := client.ACLBindingRules().Get(rule.ID, nil)
				check(failure)
				equal("description", found.Description, "by Go")
				made, _, failure := client.ACLAuth().Login(&nomad.ACLLoginRequest{
					AuthMethodName: "go",
					LoginToken:     signed(key, map[string]any{"aud": "sallyport", "team": "login", "exp": time.Now().Add(time.Minute).Unix()}),
				}, nil)
				check(failure)
				equal("policies", made.Policies, []string{"go-login"})
				_, _, failure = client.ACLAuth().Login(&nomad.ACLLoginRequest{AuthMethodName: "go", LoginToken: "x.y.z"}, nil)
				refused("a forged token", failure)
				_, failure = client.ACLBindingRules().Delete(rule.ID, nil)
				check(failure)
				_, failure = client.ACLAuthMethods().Delete("go", nil)
				check(failure)
				once, _, failure := client.ACLTokens().UpsertOneTimeToken(nil)
				check(failure)
				exchanged, _, failure := client.ACLTokens().ExchangeOneTimeToken(once.OneTimeSecretID, nil)
				check(failure)
				equal("accessor", exchanged.AccessorID, once.AccessorID)
				_, _, failure = client.ACLTokens().ExchangeOneTimeToken(once.OneTimeSecretID, nil)
				refused("a used one-time token", failure)
			})
		}},
		{"nomad: login in a browser", func() error {
			return try(func() {
				key := must(rsa.GenerateKey(rand.Reader, 2048))
				nonce := "nonce-of-go"
				issuer := startIssuer(key, map[string]any{"sub": "ann", "aud": "go", "nonce": nonce})
				defer issuer.Close()
				redirect := "http://localhost:4649/oidc/callback"
				_, _, failure := client.ACLAuthMethods().Create(&nomad.ACLAuthMethod{
					Name: "go-sso", Type: "OIDC", TokenLocality: "global", MaxTokenTTL: time.Hour,
					Config: &nomad.ACLAuthMethodConfig{
						OIDCDiscoveryURL: issuer.URL, OIDCClientID: "go", OIDCClientSecret: "s", OIDCDisableUserInfo: true,
						AllowedRedirectURIs: []string{redirect}, ClaimMappings: map[string]string{"sub": "name"},
					},
				}, nil)
				check(failure)
				_, _, failure = client.ACLBindingRules().Create(&nomad.ACLBindingRule{
					AuthMethod: "go-sso", BindType: "management", Selector: `value.name == "ann"`,
				}, nil)
				check(failure)
				begun, _, failure := client.ACLAuth().GetAuthURL(&nomad.ACLOIDCAuthURLRequest{
					AuthMethodName: "go-sso", RedirectURI: redirect, ClientNonce: nonce,
				}, nil)
				check(failure)
				sent := must(url.Parse(begun.AuthURL)).Query()
				equal("nonce", sent.Get("nonce"), nonce)
				made, _, failure := client.ACLAuth().CompleteAuth(&nomad.ACLOIDCCompleteAuthRequest{
					AuthMethodName: "go-sso", RedirectURI: redirect, ClientNonce: nonce,
					State: sent.Get("state"), Code: "code", Iss: issuer.URL,
				}, nil)
				check(failure)
				equal("type", made.Type, "management")
				equal("global", made.Global, true)
			})
		}},
		{"nomad: namespaces", func() error {
			return try(func() {
				_, failure := client.Namespaces().Register(&nomad.Namespace{Name: "go", Description: "by Go"}, nil)
				check(failure)
				found, _, failure := client.Namespaces().Info("go", nil)
				check(failure)
				equal("description", found.Description, "by Go")
				_, failure = client.Namespaces().Delete("go", nil)
				check(failure)
			})
		}},
		{"nomad: reads of a mirrored job", func() error { return try(func() { readMirrored(client) }) }},
		{"nomad: node pools", func() error { return try(func() { writeNodePools(client) }) }},
		{"nomad: host volume", func() error {
			return try(func() {
				volume := &nomad.HostVolume{
					Namespace: "default", Name: "go-volume", PluginID: "mkdir",
					RequestedCapabilities: []*nomad.HostVolumeCapability{{
						AttachmentMode: nomad.HostVolumeAttachmentModeFilesystem,
						AccessMode:     nomad.HostVolumeAccessModeSingleNodeWriter,
					}},
				}
				made, _, failure := client.HostVolumes().Create(&nomad.HostVolumeCreateRequest{Volume: volume}, nil)
				check(failure)
				id := made.Volume.ID
				for range 100 {
					found, _, failure := client.HostVolumes().Get(id, nil)
					check(failure)
					if found.State == nomad.HostVolumeStateReady {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				_, _, failure = client.HostVolumes().Delete(&nomad.HostVolumeDeleteRequest{ID: id}, nil)
				check(failure)
			})
		}},
		{"nomad: event stream", func() error {
			return try(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				topics := map[nomad.Topic][]string{nomad.TopicAll: {"*"}}
				frames := must(client.EventStream().Stream(ctx, topics, 0, nil))
				_, failure := client.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: "go-event", Rules: `node { policy = "read" }`}, nil)
				check(failure)
				for frame := range frames {
					check(frame.Err)
					for _, event := range frame.Events {
						if event.Key == "go-event" {
							return
						}
					}
				}
				panic("no event")
			})
		}},
		{"nomad: event stream beyond the newest index", func() error { return futureStep(client) }},
		{"nomad: ids of volumes differ in eight digits", func() error { return prefixesStep(client) }},
	}
}

func main() {
	address, root := os.Args[1], os.Args[2]
	printer := json.NewEncoder(os.Stdout)
	steps := append(vaultSteps(address, root), tunedSteps(vaultClient(address, root))...)
	for _, step := range append(steps, nomadSteps(address, root)...) {
		outcome := "ok"
		if failure := step.run(); failure != nil {
			outcome = failure.Error()
		}
		check(printer.Encode(map[string]string{"step": step.name, "outcome": outcome}))
	}
}
