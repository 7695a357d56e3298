package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientfeatures "k8s.io/client-go/features"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// The cases of informers.
var informers = []act{
	{"informer: typed", typedInformer},
	{"informer: dynamic", dynamicInformer},
	{"informer: metadata", metadataInformer},
	{"watch list: the end of the initial events is marked", marked},
}

func typedInformer(ctx context.Context, w *world) error {
	factory := clientinformers.NewSharedInformerFactoryWithOptions(w.typed, 0, clientinformers.WithNamespace(w.namespace))
	informer := factory.Core().V1().ConfigMaps()
	return follow(ctx, w, informer.Informer(), func() (int, error) {
		found, err := informer.Lister().List(chosen())
		for _, object := range found {
			if object.Data["tenant"] != w.tenant {
				return 0, fmt.Errorf("an object of %s", object.Data["tenant"])
			}
		}
		return len(found), err
	})
}

func dynamicInformer(ctx context.Context, w *world) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(w.dynamic, 0, w.namespace, nil)
	informer := factory.ForResource(mapsResource)
	return follow(ctx, w, informer.Informer(), func() (int, error) {
		found, err := informer.Lister().List(chosen())
		for _, object := range found {
			of, _, _ := unstructured.NestedString(object.(*unstructured.Unstructured).Object, "data", "tenant")
			if of != w.tenant {
				return 0, fmt.Errorf("an object of %s", of)
			}
		}
		return len(found), err
	})
}

func metadataInformer(ctx context.Context, w *world) error {
	factory := metadatainformer.NewFilteredSharedInformerFactory(w.metadata, 0, w.namespace, nil)
	informer := factory.ForResource(mapsResource)
	return follow(ctx, w, informer.Informer(), func() (int, error) {
		found, err := informer.Lister().List(chosen())
		return len(found), err
	})
}

func chosen() labels.Selector {
	return labels.SelectorFromSet(labels.Set{"seen": "by-informer"})
}

// follow expects an informer to see three creations, one update and three deletions.
func follow(ctx context.Context, w *world, informer cache.SharedIndexInformer, count func() (int, error)) error {
	maps := w.typed.CoreV1().ConfigMaps(w.namespace)
	var lock sync.Mutex
	notified := map[string]int{}
	tell := func(what string) {
		lock.Lock()
		defer lock.Unlock()
		notified[what]++
	}
	heard := func(what string, times int) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) {
			lock.Lock()
			defer lock.Unlock()
			return notified[what] >= times, nil
		}
	}
	make := func(name string) error {
		object := configMap(name, map[string]string{"seen": "by-informer"}, map[string]string{"tenant": w.tenant})
		_, err := maps.Create(ctx, object, metav1.CreateOptions{})
		return err
	}
	// One object exists before the informer starts, two are created afterwards.
	if err := make("i0"); err != nil {
		return err
	}
	informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { tell("added") },
		UpdateFunc: func(any, any) { tell("updated") },
		DeleteFunc: func(any) { tell("deleted") },
	})
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	began, streamed := time.Now(), w.requests.streamed.Load()
	go informer.RunWithContext(stop)
	if !cache.WaitForCacheSync(stop.Done(), informer.HasSynced) {
		return fmt.Errorf("it did not synchronise")
	}
	if took := time.Since(began); took > 10*time.Second {
		return fmt.Errorf("it took %s to synchronise", took)
	}
	wish := clientfeatures.FeatureGates().Enabled(clientfeatures.WatchListClient)
	if err := wanted("that it streamed", w.requests.streamed.Load() > streamed, wish); err != nil {
		return err
	}
	if err := first(make("i1"), make("i2")); err != nil {
		return err
	}
	reached := func(wantedCount int) func(context.Context) (bool, error) {
		return func(context.Context) (bool, error) {
			found, err := count()
			return found == wantedCount, err
		}
	}
	poll := func(what string, condition func(context.Context) (bool, error)) error {
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 20*time.Second, true, condition)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	}
	if err := poll("three objects", reached(3)); err != nil {
		return err
	}
	got, err := maps.Get(ctx, "i1", metav1.GetOptions{})
	if err != nil {
		return err
	}
	got.Data["more"] = "yes"
	if _, err := maps.Update(ctx, got, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := poll("an update", heard("updated", 1)); err != nil {
		return err
	}
	selected := metav1.ListOptions{LabelSelector: chosen().String()}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, selected); err != nil {
		return err
	}
	return first(poll("no objects", reached(0)), poll("deletions", heard("deleted", 3)))
}

// marked requests a streamed list without an informer.
func marked(ctx context.Context, w *world) error {
	maps := w.typed.CoreV1().ConfigMaps(w.namespace)
	if _, err := maps.Create(ctx, configMap("marked", nil, nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	yes := true
	options := metav1.ListOptions{
		SendInitialEvents:    &yes,
		AllowWatchBookmarks:  true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		FieldSelector:        "metadata.name=marked",
	}
	watchers := map[string]func() (watch.Interface, error){
		"typed": func() (watch.Interface, error) { return maps.Watch(ctx, options) },
		"dynamic": func() (watch.Interface, error) {
			return w.dynamic.Resource(mapsResource).Namespace(w.namespace).Watch(ctx, options)
		},
		"metadata": func() (watch.Interface, error) {
			return w.metadata.Resource(mapsResource).Namespace(w.namespace).Watch(ctx, options)
		},
	}
	for name, begin := range watchers {
		seen, err := begin()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		one, other := <-seen.ResultChan(), <-seen.ResultChan()
		seen.Stop()
		object, ok := other.Object.(metav1.Object)
		if !ok {
			return fmt.Errorf("%s: %s of %T", name, other.Type, other.Object)
		}
		if err := first(
			wanted(name+" first", one.Type, watch.Added),
			wanted(name+" second", other.Type, watch.Bookmark),
			wanted(name+" mark", object.GetAnnotations()[metav1.InitialEventsAnnotationKey], "true"),
			wanted(name+" version", object.GetResourceVersion() != "", true),
		); err != nil {
			return err
		}
	}
	return maps.Delete(ctx, "marked", metav1.DeleteOptions{})
}
