package main

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
)

// The cases of server-side apply, as controllers use it.
var applies = []act{
	{"apply: typed, with a conflict and by force", applyTyped},
	{"apply: what a manager no longer wants goes", applyLess},
	{"apply: what was applied is read back", applyExtracted},
	{"apply: status, apart from the rest", applyStatus},
	{"apply: dynamic, of a kind of the tenant's own", applyDynamic},
}

func wantedDeployment(w *world, name string, replicas int32) *appsapply.DeploymentApplyConfiguration {
	labels := map[string]string{"app": name}
	container := coreapply.Container().WithName("c").WithImage("i:1")
	return appsapply.Deployment(name, w.namespace).WithSpec(appsapply.DeploymentSpec().
		WithReplicas(replicas).
		WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).
			WithSpec(coreapply.PodSpec().WithContainers(container))))
}

func applyTyped(ctx context.Context, w *world) error {
	deployments := w.typed.AppsV1().Deployments(w.namespace)
	created, err := deployments.Apply(ctx, wantedDeployment(w, "applied", 2), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	again, err := deployments.Apply(ctx, wantedDeployment(w, "applied", 2), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	other := wantedDeployment(w, "applied", 5)
	_, conflict := deployments.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "two"})
	forced, err := deployments.Apply(ctx, other, metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil {
		return err
	}
	return first(
		wanted("replicas", *created.Spec.Replicas, 2),
		wanted("the version of what has not changed", again.ResourceVersion, created.ResourceVersion),
		wanted("conflict", apierrors.IsConflict(conflict), true),
		wanted("message", fmt.Sprint(conflict), `Apply failed with 1 conflict: conflict with "one": .spec.replicas`),
		wanted("replicas by force", *forced.Spec.Replicas, 5),
		wanted("managers", len(forced.ManagedFields), 2),
	)
}

func applyLess(ctx context.Context, w *world) error {
	maps := w.typed.CoreV1().ConfigMaps(w.namespace)
	apply := func(data map[string]string) (map[string]string, error) {
		config := coreapply.ConfigMap("less", w.namespace).WithData(data)
		got, err := maps.Apply(ctx, config, metav1.ApplyOptions{FieldManager: "one"})
		if err != nil {
			return nil, err
		}
		return got.Data, nil
	}
	if _, err := apply(map[string]string{"a": "1", "b": "2", "tenant": w.tenant}); err != nil {
		return err
	}
	got, err := maps.Get(ctx, "less", metav1.GetOptions{})
	if err != nil {
		return err
	}
	got.Data["other"] = "kept"
	if _, err := maps.Update(ctx, got, metav1.UpdateOptions{FieldManager: "two"}); err != nil {
		return err
	}
	data, err := apply(map[string]string{"a": "1"})
	if err != nil {
		return err
	}
	return wanted("data", data, map[string]string{"a": "1", "other": "kept"})
}

func applyExtracted(ctx context.Context, w *world) error {
	deployments := w.typed.AppsV1().Deployments(w.namespace)
	got, err := deployments.Get(ctx, "applied", metav1.GetOptions{})
	if err != nil {
		return err
	}
	extracted, err := appsapply.ExtractDeployment(got, "one")
	if err != nil {
		return err
	}
	text, err := json.Marshal(extracted.Spec)
	if err != nil {
		return err
	}
	return first(
		wanted("replicas, which are another's", extracted.Spec.Replicas == nil, true),
		wanted("image in "+string(text), *extracted.Spec.Template.Spec.Containers[0].Image, "i:1"),
	)
}

func applyStatus(ctx context.Context, w *world) error {
	deployments := w.typed.AppsV1().Deployments(w.namespace)
	config := appsapply.Deployment("applied", w.namespace).
		WithStatus(appsapply.DeploymentStatus().WithReplicas(3)).
		WithSpec(appsapply.DeploymentSpec().WithPaused(true))
	got, err := deployments.ApplyStatus(ctx, config, metav1.ApplyOptions{FieldManager: "status"})
	if err != nil {
		return err
	}
	return first(
		wanted("replicas that are", got.Status.Replicas, 3),
		wanted("paused", got.Spec.Paused, false),
	)
}

func applyDynamic(ctx context.Context, w *world) error {
	resource, _ := widgets(w)
	objects := w.dynamic.Resource(resource).Namespace(w.namespace)
	config := func(size int64) *unstructured.Unstructured {
		return tree("Widget", resource.GroupVersion().String(), "applied", map[string]any{
			"spec": map[string]any{"size": size, "of": w.tenant},
		})
	}
	if _, err := objects.Apply(ctx, "applied", config(1), metav1.ApplyOptions{FieldManager: "one"}); err != nil {
		return err
	}
	_, conflict := objects.Apply(ctx, "applied", config(2), metav1.ApplyOptions{FieldManager: "two"})
	got, err := objects.Apply(ctx, "applied", config(2), metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil {
		return err
	}
	size, _, _ := unstructured.NestedInt64(got.Object, "spec", "size")
	return first(
		wanted("conflict", apierrors.IsConflict(conflict), true),
		wanted("size", size, 2),
	)
}
