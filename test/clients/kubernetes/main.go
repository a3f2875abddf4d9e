// The API server of Kubernetes with its etcd, without nodes and controllers.
package main

import (
	"log"
	"net/url"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// Arguments: a folder for the data, the URLs of etcd for clients and for peers, then those of kube-apiserver.
func main() {
	config := embed.NewConfig()
	config.Dir = os.Args[1]
	config.LogLevel = "error"
	config.UnsafeNoFsync = true
	clients, peers := parsed(os.Args[2]), parsed(os.Args[3])
	config.ListenClientUrls, config.AdvertiseClientUrls = clients, clients
	config.ListenPeerUrls, config.AdvertisePeerUrls = peers, peers
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		log.Fatal(err)
	}
	<-etcd.Server.ReadyNotify()
	command := app.NewAPIServerCommand()
	command.SetArgs(append([]string{"--etcd-servers=" + os.Args[2]}, os.Args[4:]...))
	os.Exit(cli.Run(command))
}

func parsed(text string) []url.URL {
	address, err := url.Parse(text)
	if err != nil {
		log.Fatal(err)
	}
	return []url.URL{*address}
}
