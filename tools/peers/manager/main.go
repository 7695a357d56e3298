// A manager with controller-runtime: leader election, a controller that owns ConfigMaps and
// Deployments, a finalizer, a status, events and two webhooks. It works with any API server.
//
// It prints a line to stdout when it becomes leader (`manager leads`) and when its webhooks
// are ready (`manager hooks ADDRESS`). Its log is on stderr.
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
	var options settings
	flag.StringVar(&options.namespace, "election-namespace", "default", "namespace of the Lease")
	flag.StringVar(&options.certs, "cert-dir", "", "folder of tls.crt and tls.key (default: no webhooks)")
	flag.IntVar(&options.port, "webhook-port", 0, "port of the webhooks, on loopback")
	flag.DurationVar(&options.lease, "lease", 4*time.Second, "duration of the Lease")
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(&options); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(options *settings) error {
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
	renew, retry := options.lease*2/3, options.lease/4
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        known,
		Metrics:                       metrics.Options{BindAddress: "0"},
		WebhookServer:                 webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: options.port, CertDir: options.certs}),
		LeaderElection:                true,
		LeaderElectionID:              "site-manager",
		LeaderElectionNamespace:       options.namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &options.lease,
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
	if options.certs != "" {
		hooks := webhooks{}
		if err := ctrl.NewWebhookManagedBy(manager, &Site{}).WithDefaulter(hooks).WithValidator(hooks).Complete(); err != nil {
			return err
		}
		go announce(options.port)
	}
	go func() {
		<-manager.Elected()
		fmt.Println("manager leads")
	}()
	return manager.Start(ctrl.SetupSignalHandler())
}

// announce prints a line once the webhooks accept connections.
func announce(port int) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	// Only the connection matters, not the certificate.
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
