package main

import (
	"context"
	"fmt"
	"math"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	vault "github.com/openbao/openbao/api/v2"
)

// tunedSteps change one setting of a mount and of an auth method, with the empty fields that the client sends along.
func tunedSteps(client *vault.Client) []step {
	description := "by Go"
	limits := vault.MountConfigInput{DefaultLeaseTTL: "1h", MaxLeaseTTL: "2h"}
	one := vault.MountConfigInput{Description: &description}
	tuned := func(path string) error {
		return try(func() {
			check(client.Sys().TuneMount(path, limits), client.Sys().TuneMount(path, one))
			found := must(client.Sys().MountConfig(path))
			equal("default TTL", found.DefaultLeaseTTL, 3600)
			equal("maximum TTL", found.MaxLeaseTTL, 7200)
			check(client.Sys().TuneMount(path, vault.MountConfigInput{DefaultLeaseTTL: "system", MaxLeaseTTL: "system"}))
			equal("maximum TTL of the system", must(client.Sys().MountConfig(path)).MaxLeaseTTL, 32*24*3600)
		})
	}
	return []step{
		{"vault: a tune keeps what it does not name", func() error { return tuned("go-v2") }},
		{"vault: a tune of an auth method, too", func() error {
			check(client.Sys().EnableAuthWithOptions("go-tuned", &vault.EnableAuthOptions{Type: "approle"}))
			defer client.Sys().DisableAuth("go-tuned")
			return tuned("auth/go-tuned")
		}},
	}
}

// clearedStep writes nil, which is JSON null, into each kind of field of a role.
func clearedStep(client *vault.Client) error {
	return try(func() {
		const role = "auth/token/roles/go-cleared"
		given := map[string]any{"allowed_policies": []string{"a"}, "path_suffix": "suffix", "orphan": true, "token_explicit_max_ttl": 60}
		must(client.Logical().Write(role, given))
		cleared := map[string]any{}
		for name := range given {
			cleared[name] = nil
		}
		must(client.Logical().Write(role, cleared))
		data := must(client.Logical().Read(role)).Data
		for name, want := range map[string]string{
			"allowed_policies": "[]", "path_suffix": "", "orphan": "false", "token_explicit_max_ttl": "60",
		} {
			equal(name, fmt.Sprint(data[name]), want)
		}
		must(client.Logical().Delete(role))
	})
}

// deniedListStep lists a folder whose name is denied by a pattern.
func deniedListStep(address string, client *vault.Client) error {
	return try(func() {
		must(client.KVv2("go-v2").Put(context.Background(), "team1/app", map[string]any{"k": "v"}))
		rules := `path "go-v2/*" { capabilities = ["read", "list"] }
path "go-v2/+/team1" { capabilities = ["deny"] }`
		check(client.Sys().PutPolicy("go-lists", rules))
		made := must(client.Auth().Token().Create(&vault.TokenCreateRequest{Policies: []string{"go-lists"}}))
		own := vaultClient(address, made.Auth.ClientToken)
		for _, folder := range []string{"team1", "team1/"} {
			_, failure := own.Logical().List("go-v2/metadata/" + folder)
			refused("the list of "+folder, failure)
		}
		must(own.Logical().List("go-v2/metadata"))
		check(client.KVv2("go-v2").DeleteMetadata(context.Background(), "team1/app"), client.Sys().DeletePolicy("go-lists"))
	})
}

// futureStep follows events from the greatest index on, which means new ones only.
func futureStep(client *nomad.Client) error {
	return try(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		topics := map[nomad.Topic][]string{"ACLPolicy": {"*"}}
		frames := must(client.EventStream().Stream(ctx, topics, math.MaxUint64, nil))
		_, failure := client.ACLPolicies().Upsert(&nomad.ACLPolicy{Name: "go-future", Rules: `node { policy = "read" }`}, nil)
		check(failure)
		for frame := range frames {
			check(frame.Err)
			for _, event := range frame.Events {
				equal("key", event.Key, "go-future")
				return
			}
		}
		panic("no event")
	})
}

// prefixesStep makes volumes in one moment, which the first eight digits of their ids tell apart.
func prefixesStep(client *nomad.Client) error {
	return try(func() {
		seen := map[string]bool{}
		for number := range 3 {
			volume := &nomad.HostVolume{
				Namespace: "default", Name: fmt.Sprintf("go-prefix-%d", number), PluginID: "mkdir",
				RequestedCapabilities: []*nomad.HostVolumeCapability{{
					AttachmentMode: nomad.HostVolumeAttachmentModeFilesystem,
					AccessMode:     nomad.HostVolumeAccessModeSingleNodeWriter,
				}},
			}
			made, _, failure := client.HostVolumes().Create(&nomad.HostVolumeCreateRequest{Volume: volume}, nil)
			check(failure)
			seen[made.Volume.ID[:8]] = true
			defer client.HostVolumes().Delete(&nomad.HostVolumeDeleteRequest{ID: made.Volume.ID}, nil)
		}
		equal("prefixes", len(seen), 3)
	})
}
