package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
)

// The cases of the dynamic client and the metadata client.
var shapes = []act{
	{"dynamic: built-in kinds", dynamicBuiltIn},
	{"dynamic: a kind of the tenant's own", dynamicCustom},
	{"scales: of built-in kinds and of the tenant's own", scales},
	{"metadata: get, list, patch, watch and delete", metadataAlone},
	{"metadata: of a kind of the tenant's own", metadataCustom},
}

var (
	mapsResource        = corev1.SchemeGroupVersion.WithResource("configmaps")
	definitionsResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

func tree(kind, version, name string, more map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name},
	}}
	for member, value := range more {
		object.Object[member] = value
	}
	return object
}

func dynamicBuiltIn(ctx context.Context, w *world) error {
	maps := w.dynamic.Resource(mapsResource).Namespace(w.namespace)
	data := map[string]any{"data": map[string]any{"tenant": w.tenant}}
	if _, err := maps.Create(ctx, tree("ConfigMap", "v1", "dynamic", data), metav1.CreateOptions{}); err != nil {
		return err
	}
	patch := []byte(`{"data":{"more":"yes"}}`)
	got, err := maps.Patch(ctx, "dynamic", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	found, _, _ := unstructured.NestedStringMap(got.Object, "data")
	if err := wanted("data", found, map[string]string{"more": "yes", "tenant": w.tenant}); err != nil {
		return err
	}
	_, err = maps.Get(ctx, "none", metav1.GetOptions{})
	return first(
		wanted("not found", apierrors.IsNotFound(err), true),
		maps.Delete(ctx, "dynamic", metav1.DeleteOptions{}),
	)
}

// widgets defines a kind for this run: its group is named after the namespace.
func widgets(w *world) (schema.GroupVersionResource, *unstructured.Unstructured) {
	group := w.namespace + ".example.com"
	definition := tree("CustomResourceDefinition", "apiextensions.k8s.io/v1", "widgets."+group, map[string]any{
		"spec": map[string]any{
			"group": group,
			"scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"subresources": map[string]any{
					"status": map[string]any{},
					"scale": map[string]any{
						"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size",
					},
				},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object",
					"properties": map[string]any{
						"spec": map[string]any{"type": "object", "properties": map[string]any{
							"size": map[string]any{"type": "integer", "minimum": int64(0)},
							"of":   map[string]any{"type": "string"},
						}},
						"status": map[string]any{"type": "object", "properties": map[string]any{
							"size": map[string]any{"type": "integer"},
						}},
					},
				}},
			}},
		},
	})
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}, definition
}

func dynamicCustom(ctx context.Context, w *world) error {
	resource, definition := widgets(w)
	definitions := w.dynamic.Resource(definitionsResource)
	if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return err
	}
	established := func(ctx context.Context) (bool, error) {
		got, err := definitions.Get(ctx, definition.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		// The list is absent until there is a condition.
		conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
		for _, condition := range conditions {
			of := condition.(map[string]any)
			if of["type"] == "Established" && of["status"] == "True" {
				return true, nil
			}
		}
		return false, nil
	}
	if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, established); err != nil {
		return err
	}
	objects := w.dynamic.Resource(resource).Namespace(w.namespace)
	version := resource.GroupVersion().String()
	seen, err := objects.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer seen.Stop()
	spec := map[string]any{"spec": map[string]any{"size": int64(2), "of": w.tenant}}
	created, err := objects.Create(ctx, tree("Widget", version, "w1", spec), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	unstructured.SetNestedField(created.Object, int64(1), "status", "size")
	if _, err := objects.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	scale, err := objects.Get(ctx, "w1", metav1.GetOptions{}, "scale")
	if err != nil {
		return err
	}
	replicas, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas")
	_, invalid := objects.Create(ctx, tree("Widget", version, "w2", map[string]any{
		"spec": map[string]any{"size": int64(-1)},
	}), metav1.CreateOptions{})
	for _, kind := range []watch.EventType{watch.Added, watch.Modified} {
		event := <-seen.ResultChan()
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%s of %T", event.Type, event.Object)
		}
		of, _, _ := unstructured.NestedString(object.Object, "spec", "of")
		if err := first(wanted("event", event.Type, kind), wanted("tenant", of, w.tenant)); err != nil {
			return err
		}
	}
	list, err := objects.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	return first(
		wanted("scale", replicas, 2),
		wanted("invalid", apierrors.IsInvalid(invalid), true),
		wanted("items", len(list.Items), 1),
		wanted("kind of the list", list.GetKind(), "WidgetList"),
	)
}

// scales reads and updates scales as autoscalers do, knowing only the name of a resource.
func scales(ctx context.Context, w *world) error {
	cached := memory.NewMemCacheClient(w.discovery)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(cached)
	config := rest.CopyConfig(w.config)
	if w.media == "cbor" {
		// Of all clients of client-go, this one asks for CBOR and cannot read it.
		config.ContentType = runtime.ContentTypeJSON
	}
	client, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(w.discovery))
	if err != nil {
		return err
	}
	if _, err := w.typed.AppsV1().Deployments(w.namespace).Create(ctx, deployment("scaled"), metav1.CreateOptions{}); err != nil {
		return err
	}
	own, _ := widgets(w)
	for _, scaled := range []struct {
		resource schema.GroupResource
		name     string
	}{
		{schema.GroupResource{Group: "apps", Resource: "deployments"}, "scaled"},
		{own.GroupResource(), "w1"},
	} {
		objects := client.Scales(w.namespace)
		got, err := objects.Get(ctx, scaled.resource, scaled.name, metav1.GetOptions{})
		if w.media == "protobuf" && scaled.resource == own.GroupResource() {
			// Scales of custom kinds have no protobuf either.
			return wanted("not acceptable", apierrors.IsNotAcceptable(err), true)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", scaled.resource, err)
		}
		got.Spec.Replicas = 6
		if _, err := objects.Update(ctx, scaled.resource, got, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("%s: %w", scaled.resource, err)
		}
		got, err = objects.Get(ctx, scaled.resource, scaled.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := wanted(scaled.resource.String(), got.Spec.Replicas, 6); err != nil {
			return err
		}
	}
	return nil
}

func metadataAlone(ctx context.Context, w *world) error {
	_, err := w.typed.CoreV1().ConfigMaps(w.namespace).Create(ctx, configMap("meta", map[string]string{"l": w.tenant}, nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return seenByMetadata(ctx, w, mapsResource, "meta", "l", w.tenant)
}

func metadataCustom(ctx context.Context, w *world) error {
	resource, _ := widgets(w)
	patch := []byte(fmt.Sprintf(`{"metadata":{"labels":{"l":%q}}}`, w.tenant))
	objects := w.dynamic.Resource(resource).Namespace(w.namespace)
	if _, err := objects.Patch(ctx, "w1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	return seenByMetadata(ctx, w, resource, "w1", "l", w.tenant)
}

// seenByMetadata reads, patches, watches and deletes an object with the metadata client.
func seenByMetadata(ctx context.Context, w *world, resource schema.GroupVersionResource, name, label, value string) error {
	objects := w.metadata.Resource(resource).Namespace(w.namespace)
	got, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	chosen := metav1.ListOptions{LabelSelector: label + "=" + value}
	list, err := objects.List(ctx, chosen)
	if err != nil {
		return err
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("%d items", len(list.Items))
	}
	chosen.ResourceVersion = list.ResourceVersion
	seen, err := objects.Watch(ctx, chosen)
	if err != nil {
		return err
	}
	defer seen.Stop()
	patch := []byte(`{"metadata":{"annotations":{"seen":"yes"}}}`)
	patched, err := objects.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	event := <-seen.ResultChan()
	object, ok := event.Object.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("%s of %T", event.Type, event.Object)
	}
	_, missing := objects.Get(ctx, "none", metav1.GetOptions{})
	if missing == nil {
		return errors.New("there is a none")
	}
	return first(
		wanted("label", got.Labels[label], value),
		wanted("uid", list.Items[0].UID, got.UID),
		wanted("annotation", patched.Annotations["seen"], "yes"),
		wanted("event", event.Type, watch.Modified),
		wanted("annotation in the event", object.Annotations["seen"], "yes"),
		wanted("not found", apierrors.IsNotFound(missing), true),
		objects.Delete(ctx, name, metav1.DeleteOptions{}),
	)
}
