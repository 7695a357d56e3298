// An example: a controller that serves all tenants with one watch, with controller-runtime.
//
// For each ConfigMap with the label `example.com/greet` it maintains a second one in the same
// namespace and tenant, with a greeting for the name in that label. spaces.go contains what is
// needed to see all tenants; the rest is as in any controller.
//
// It prints `greeter watches` to stdout once its cache has synced. Its log is on stderr.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const greet = "example.com/greet"

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(ctrl.GetConfigOrDie()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(config *rest.Config) error {
	labelled, err := labels.NewRequirement(greet, selection.Exists, nil)
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(InAllSpaces(config), ctrl.Options{
		Metrics: metrics.Options{BindAddress: "0"},
		Cache: cache.Options{
			NewInformer:          newInformer,
			DefaultLabelSelector: labels.NewSelector().Add(*labelled),
		},
	})
	if err != nil {
		return err
	}
	greeter := &greeter{manager.GetClient(), config}
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Complete(greeter); err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	go func() {
		if manager.GetCache().WaitForCacheSync(ctx) {
			fmt.Println("greeter watches")
		}
	}()
	return manager.Start(ctx)
}

func newInformer(watched toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	return toolscache.NewSharedIndexInformer(Qualified(watched), kind, resync, indexers)
}

type greeter struct {
	cached client.Client
	config *rest.Config
}

// Reconcile reads from the cache, where namespaces are prefixed with their tenant, and writes
// to the tenant's space.
func (g *greeter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	source := &corev1.ConfigMap{}
	if err := g.cached.Get(ctx, request.NamespacedName, source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	tenant, namespace, found := strings.Cut(source.Namespace, "/")
	if !found {
		return ctrl.Result{}, nil // in the system's space
	}
	space, err := kubernetes.NewForConfig(InTenant(g.config, tenant))
	if err != nil {
		return ctrl.Result{}, err
	}
	owner := metav1apply.OwnerReference().
		WithAPIVersion("v1").WithKind("ConfigMap").WithName(source.Name).WithUID(source.UID)
	greeting := corev1apply.ConfigMap(source.Name+"-greeting", namespace).
		WithOwnerReferences(owner).
		WithData(map[string]string{"text": fmt.Sprintf("hello %s of %s", source.Labels[greet], tenant)})
	options := metav1.ApplyOptions{FieldManager: "greeter", Force: true}
	_, err = space.CoreV1().ConfigMaps(namespace).Apply(ctx, greeting, options)
	return ctrl.Result{}, err
}
