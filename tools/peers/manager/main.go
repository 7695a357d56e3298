// A manager as controller-runtime makes them: leader election, a controller that owns
// ConfigMaps and Deployments, a finalizer, a status, events and two webhooks. Nothing in it
// knows what it talks to.
//
// It says on stdout what it has come to, a line for each: `manager leads`, `manager hooks
// ADDRESS`. Its log is on stderr.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

type settings struct {
	namespace string
	certs     string
	port      int
	lease     time.Duration
}

func main() {
	var asked settings
	flag.StringVar(&asked.namespace, "election-namespace", "default", "where the Lease is")
	flag.StringVar(&asked.certs, "cert-dir", "", "the folder of tls.crt and tls.key; without it there are no webhooks")
	flag.IntVar(&asked.port, "webhook-port", 0, "where webhooks listen, on loopback")
	flag.DurationVar(&asked.lease, "lease", 4*time.Second, "how long a leader that fell silent is waited for")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(&asked); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(asked *settings) error {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, addSite} {
		if err := add(known); err != nil {
			return err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	renew, retry := asked.lease*2/3, asked.lease/4
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        known,
		Metrics:                       metrics.Options{BindAddress: "0"},
		WebhookServer:                 webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: asked.port, CertDir: asked.certs}),
		LeaderElection:                true,
		LeaderElectionID:              "site-manager",
		LeaderElectionNamespace:       asked.namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &asked.lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Site{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.Deployment{}).
		Complete(&reconciler{manager.GetClient(), manager.GetEventRecorder("site-manager")})
	if err != nil {
		return err
	}
	if asked.certs != "" {
		hooks := webhooks{}
		if err := ctrl.NewWebhookManagedBy(manager, &Site{}).WithDefaulter(hooks).WithValidator(hooks).Complete(); err != nil {
			return err
		}
		go announce(asked.port)
	}
	go func() {
		<-manager.Elected()
		fmt.Println("manager leads")
	}()
	return manager.Start(ctrl.SetupSignalHandler())
}

// announce says that the webhooks answer, once they do.
func announce(port int) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	// Whether somebody answers is the question, not who.
	unverified := &tls.Config{InsecureSkipVerify: true}
	for {
		connection, err := tls.Dial("tcp", address, unverified)
		if err == nil {
			connection.Close()
			fmt.Println("manager hooks", address)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
