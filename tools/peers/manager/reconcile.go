package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const finalizer = "peers.example/farewell"

type reconciler struct {
	client.Client
	events events.EventRecorder
}

// Reconcile creates a ConfigMap and a Deployment for each Site, updates its status, and
// finalizes it on deletion.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	site := &Site{}
	if err := r.Get(ctx, request.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.farewell(ctx, site)
	}
	if controllerutil.AddFinalizer(site, finalizer) {
		if err := r.Update(ctx, site); err != nil {
			return ctrl.Result{}, err
		}
	}
	page, err := r.page(ctx, site)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.deployment(ctx, site, page); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.status(ctx, site, page)
}

func (r *reconciler) page(ctx context.Context, site *Site) (string, error) {
	page := &corev1.ConfigMap{}
	page.Name, page.Namespace = site.Name+"-page", site.Namespace
	done, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		page.Data = map[string]string{"message": site.Spec.Message}
		return controllerutil.SetControllerReference(site, page, r.Scheme())
	})
	if err == nil && done != controllerutil.OperationResultNone {
		r.events.Eventf(site, page, corev1.EventTypeNormal, "PageWritten", "Write", "the page was %s", done)
	}
	return page.Name, err
}

func (r *reconciler) deployment(ctx context.Context, site *Site, page string) error {
	owned := &appsv1.Deployment{}
	owned.Name, owned.Namespace = site.Name, site.Namespace
	labels := map[string]string{"site": site.Name}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, owned, func() error {
		owned.Spec.Replicas = &site.Spec.Replicas
		owned.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
		owned.Spec.Template.Labels = labels
		if len(owned.Spec.Template.Spec.Containers) == 0 {
			owned.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web"}}
		}
		web := &owned.Spec.Template.Spec.Containers[0]
		web.Image = site.Spec.Image
		web.Env = []corev1.EnvVar{{Name: "PAGE", Value: page}}
		return controllerutil.SetControllerReference(site, owned, r.Scheme())
	})
	return err
}

func (r *reconciler) status(ctx context.Context, site *Site, page string) error {
	before := site.DeepCopyObject().(*Site)
	site.Status.Page = page
	site.Status.ObservedGeneration = site.Generation
	changed := meta.SetStatusCondition(&site.Status.Conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "Written", Message: site.Spec.Message,
		ObservedGeneration: site.Generation,
	})
	if !changed && before.Status.ObservedGeneration == site.Generation {
		return nil
	}
	return r.Status().Update(ctx, site)
}

// farewell creates a ConfigMap without an owner, and removes the finalizer.
func (r *reconciler) farewell(ctx context.Context, site *Site) error {
	if !controllerutil.ContainsFinalizer(site, finalizer) {
		return nil
	}
	left := &corev1.ConfigMap{}
	left.Name, left.Namespace = site.Name+"-farewell", site.Namespace
	left.Data = map[string]string{"last": site.Spec.Message}
	if err := client.IgnoreAlreadyExists(r.Create(ctx, left)); err != nil {
		return err
	}
	before := site.DeepCopyObject().(*Site)
	controllerutil.RemoveFinalizer(site, finalizer)
	return client.IgnoreNotFound(r.Patch(ctx, site, client.MergeFrom(before)))
}
