// vcsim: the vCenter simulator of govmomi's library, on loopback. The module of govmomi's own
// command is not available everywhere; the flags that exist here mean the same.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator"
)

func main() {
	model := simulator.VPX()
	listen := flag.String("l", "127.0.0.1:0", "listen address")
	username := flag.String("username", "user", "user that may log in")
	password := flag.String("password", "pass", "password of the user")
	flag.IntVar(&model.Datacenter, "dc", model.Datacenter, "number of datacenters")
	flag.IntVar(&model.Cluster, "cluster", model.Cluster, "clusters in each datacenter")
	flag.IntVar(&model.ClusterHost, "cluster-host", model.ClusterHost, "hosts in each cluster")
	flag.IntVar(&model.Host, "standalone-host", model.Host, "standalone hosts in each datacenter")
	flag.IntVar(&model.Datastore, "ds", model.Datastore, "datastores in each datacenter")
	flag.IntVar(&model.Machine, "vm", model.Machine, "virtual machines in each pool")
	flag.IntVar(&model.Pool, "pool", model.Pool, "resource pools in each cluster")
	flag.IntVar(&model.Folder, "folder", model.Folder, "folders in each datacenter")
	flag.IntVar(&model.Portgroup, "pg", model.Portgroup, "portgroups in each datacenter")
	certificate := flag.String("tlscert", "", "file with the server certificate, in PEM")
	key := flag.String("tlskey", "", "file with the key of the certificate, in PEM")
	delays := flag.String("method-delay", "", "delays of methods in milliseconds, such as Login:500,CloneVM_Task:100")
	flag.Parse()

	settings := new(tls.Config)
	if *certificate != "" {
		pair, err := tls.LoadX509KeyPair(*certificate, *key)
		if err != nil {
			log.Fatal(err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	slow, err := parse(*delays)
	if err != nil {
		log.Fatal(err)
	}
	model.DelayConfig.MethodDelay = slow
	if err := serve(model, *listen, url.UserPassword(*username, *password), settings); err != nil {
		log.Fatal(err)
	}
}

func parse(delays string) (map[string]int, error) {
	slow := make(map[string]int)
	for _, delay := range strings.Split(delays, ",") {
		if delay == "" {
			continue
		}
		method, text, _ := strings.Cut(delay, ":")
		milliseconds, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a method delay: %w", delay, err)
		}
		slow[method] = milliseconds
	}
	return slow, nil
}

func serve(model *simulator.Model, listen string, login *url.Userinfo, settings *tls.Config) error {
	defer model.Remove()
	if err := model.Create(); err != nil {
		return err
	}
	model.Service.TLS = settings
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
