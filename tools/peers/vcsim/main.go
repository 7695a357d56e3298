// vcsim, as its own library has it: a vCenter that is simulated, on loopback. The module
// of the command is not to be had everywhere; the flags that there are mean the same.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
)

func main() {
	model := simulator.VPX()
	listen := flag.String("l", "127.0.0.1:0", "where to listen")
	username := flag.String("username", "user", "who may log in")
	password := flag.String("password", "pass", "with what")
	flag.IntVar(&model.Datacenter, "dc", model.Datacenter, "number of datacenters")
	flag.IntVar(&model.Cluster, "cluster", model.Cluster, "clusters in each datacenter")
	flag.IntVar(&model.ClusterHost, "cluster-host", model.ClusterHost, "hosts in each cluster")
	flag.IntVar(&model.Host, "standalone-host", model.Host, "hosts of their own in each datacenter")
	flag.IntVar(&model.Datastore, "ds", model.Datastore, "datastores in each datacenter")
	flag.IntVar(&model.Machine, "vm", model.Machine, "virtual machines in each pool")
	flag.IntVar(&model.Pool, "pool", model.Pool, "resource pools in each cluster")
	flag.IntVar(&model.Folder, "folder", model.Folder, "folders in each datacenter")
	flag.Parse()

	if err := serve(model, *listen, url.UserPassword(*username, *password)); err != nil {
		log.Fatal(err)
	}
}

func serve(model *simulator.Model, listen string, login *url.Userinfo) error {
	defer model.Remove()
	if err := model.Create(); err != nil {
		return err
	}
	model.Service.TLS = new(tls.Config)
	model.Service.RegisterEndpoints = true
	model.Service.Listen = &url.URL{Scheme: "https", Host: listen, User: login}
	server := model.Service.NewServer()
	defer server.Close()
	fmt.Printf("vcsim ready %s\n", server.URL)

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	<-stop
	return nil
}
