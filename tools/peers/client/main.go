// A client that does in one space what programs written with client-go do, and says of each
// act whether it went as it does against a cluster: PASS name, or FAIL name: why.
//
// It is run once for each content type; whether informers stream their lists is told by
// client-go's own variable, KUBE_FEATURE_WatchListClient. Everything it makes has the same
// names in every space, so that several of it at once show whether spaces are apart.
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

// Everything that acts are done with.
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
	kubeconfig := flag.String("kubeconfig", "", "whom to be")
	tenant := flag.String("tenant", "", "the space that this is run in")
	media := flag.String("media", "default", "json, protobuf, or what clients take by default")
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
			// Longer than any of them takes; a client waits for ever by default.
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

// enter makes all clients, and the namespace in which everything happens.
func enter(kubeconfig, tenant, media string) (*world, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	// Not what is looked at here.
	config.QPS, config.Burst = 1000, 1000
	switch media {
	case "json":
		config.ContentType = runtime.ContentTypeJSON
	case "protobuf":
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf
	case "default":
		// Both, for built-in kinds, since 1.36.
	default:
		return nil, fmt.Errorf("there is no media %q", media)
	}
	made := &world{tenant: tenant, namespace: "client-" + media, media: media, config: config}
	config.Wrap(made.requests.through)
	if made.typed, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if made.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if made.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	if made.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return nil, err
	}
	namespace := namespaceOf(made.namespace)
	ctx := context.Background()
	_, err = made.typed.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return made, err
}

// wanted says what is not as it should be.
func wanted(what string, found, wanted any) error {
	if fmt.Sprint(found) != fmt.Sprint(wanted) {
		return fmt.Errorf("%s is %v, not %v", what, found, wanted)
	}
	return nil
}

// first is the first error of many.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
