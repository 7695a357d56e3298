// A client that does in one space what programs with client-go do, and prints for each case
// whether it behaves as on a cluster: PASS name, or FAIL name: reason.
//
// It runs once for each content type. Client-go's own variables determine whether informers stream
// their lists (KUBE_FEATURE_WatchListClient) and whether CBOR is spoken
// (KUBE_FEATURE_ClientsAllowCBOR, KUBE_FEATURE_ClientsPreferCBOR). Objects have the same names in every space,
// so that concurrent runs show whether spaces are isolated.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The clients and settings of all cases.
type world struct {
	tenant    string
	namespace string
	media     string
	config    *rest.Config
	requests  counter
	typed     kubernetes.Interface
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	discovery *discovery.DiscoveryClient
}

type act struct {
	name string
	do   func(context.Context, *world) error
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig file")
	tenant := flag.String("tenant", "", "tenant of the kubeconfig")
	media := flag.String("media", "default", "content type: json, protobuf, cbor or default")
	flag.Parse()
	if err := run(*kubeconfig, *tenant, *media); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

func run(kubeconfig, tenant, media string) error {
	world, err := enter(kubeconfig, tenant, media)
	if err != nil {
		return err
	}
	for _, group := range [][]act{objects, shapes, applies, documents, informers, habits} {
		for _, act := range group {
			// Longer than any case takes; clients have no timeout by default.
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			err := act.do(ctx, world)
			cancel()
			if err != nil {
				fmt.Printf("FAIL %s: %v\n", act.name, err)
			} else {
				fmt.Printf("PASS %s\n", act.name)
			}
		}
	}
	return nil
}

// enter creates all clients, and the namespace of all cases.
func enter(kubeconfig, tenant, media string) (*world, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// Rate limits are not under test.
	config.QPS, config.Burst = 1000, 1000
	switch media {
	case "json":
		config.ContentType = runtime.ContentTypeJSON
	case "protobuf":
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf
	case "cbor":
		// Accepted is then CBOR or else anything.
		config.ContentType = runtime.ContentTypeCBOR
	case "default":
		// Protobuf and JSON for built-in kinds, since 1.36.
	default:
		return nil, fmt.Errorf("unknown media %q", media)
	}
	entered := &world{tenant: tenant, namespace: "client-" + media, media: media, config: config}
	config.Wrap(entered.requests.through)
	if entered.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if entered.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if entered.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	if entered.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return nil, err
	}
	namespace := namespaceOf(entered.namespace)
	ctx := context.Background()
	_, err = entered.typed.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return entered, err
}

// wanted returns an error if a value is not the expected one.
func wanted(what string, found, wanted any) error {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		return fmt.Errorf("%s is %v, not %v", what, found, wanted)
	}
	return nil
}

// first returns the first error of several.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
