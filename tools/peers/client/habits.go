package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
)

// The cases of pages, retries, leader election and events.
var habits = []act{
	{"pages: a long list comes in parts", pages},
	{"retries: many writers lose nothing", retries},
	{"leader election: one leads, and another after it", elections},
	{"events: what is recorded can be read", events},
}

func pages(ctx context.Context, w *world) error {
	maps := w.typed.CoreV1().ConfigMaps(w.namespace)
	const all = 23
	for i := range all {
		object := configMap(fmt.Sprintf("page-%02d", i), map[string]string{"paged": "yes"}, nil)
		if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	pagesRead := 0
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		pagesRead++
		return maps.List(ctx, options)
	})
	list.PageSize = 5
	names := map[string]bool{}
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: "paged=yes"}, func(object runtime.Object) error {
		names[object.(*corev1.ConfigMap).Name] = true
		return nil
	})
	if err != nil {
		return err
	}
	one, err := w.typed.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	_, wrong := maps.List(ctx, metav1.ListOptions{Continue: one.Continue, Limit: 1})
	return first(
		wanted("names", len(names), all),
		wanted("requests", pagesRead, 5),
		wanted("that there is more", one.RemainingItemCount != nil && one.Continue != "", true),
		wanted("the token of another list", apierrors.IsBadRequest(wrong), true),
		maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "paged=yes"}),
	)
}

func retries(ctx context.Context, w *world) error {
	maps := w.typed.CoreV1().ConfigMaps(w.namespace)
	if _, err := maps.Create(ctx, configMap("counter", nil, map[string]string{"n": ""}), metav1.CreateOptions{}); err != nil {
		return err
	}
	const writers, times = 4, 5
	var group sync.WaitGroup
	failed := make(chan error, writers)
	patient := retry.DefaultBackoff
	patient.Steps, patient.Factor = 200, 1
	for range writers {
		group.Go(func() {
			for range times {
				err := retry.RetryOnConflict(patient, func() error {
					got, err := maps.Get(ctx, "counter", metav1.GetOptions{})
					if err != nil {
						return err
					}
					got.Data["n"] += "x"
					_, err = maps.Update(ctx, got, metav1.UpdateOptions{})
					return err
				})
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	if err, any := <-failed; any {
		return err
	}
	got, err := maps.Get(ctx, "counter", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return wanted("writes", len(got.Data["n"]), writers*times)
}

func elections(ctx context.Context, w *world) error {
	led := make(chan string, 2)
	candidate := func(name string) (*leaderelection.LeaderElector, error) {
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, w.namespace, "leader",
			w.typed.CoreV1(), w.typed.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name})
		if err != nil {
			return nil, err
		}
		return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock:            lock,
			ReleaseOnCancel: true,
			LeaseDuration:   3 * time.Second,
			RenewDeadline:   2 * time.Second,
			RetryPeriod:     200 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { led <- name },
				OnStoppedLeading: func() {},
			},
		})
	}
	one, err := candidate("one")
	if err != nil {
		return err
	}
	two, err := candidate("two")
	if err != nil {
		return err
	}
	reign, resign := context.WithCancel(ctx)
	defer resign()
	go one.Run(reign)
	if err := wanted("leader", <-led, "one"); err != nil {
		return err
	}
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	go two.Run(waiting)
	resign()
	select {
	case name := <-led:
		if err := wanted("next leader", name, "two"); err != nil {
			return err
		}
	case <-ctx.Done():
		return errors.New("no other candidate became leader")
	}
	lease, err := w.typed.CoordinationV1().Leases(w.namespace).Get(ctx, "leader", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return first(
		wanted("holder", *lease.Spec.HolderIdentity, "two"),
		wanted("that it has a fraction of a second", lease.Spec.RenewTime.IsZero(), false),
	)
}

func events(ctx context.Context, w *world) error {
	about, err := w.typed.CoreV1().ConfigMaps(w.namespace).Create(ctx, configMap("eventful", nil, nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&recordSink{ctx, w})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "client"})
	recorder.Event(about, corev1.EventTypeNormal, "Happened", "in "+w.tenant)
	for {
		found, err := w.typed.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=eventful,reason=Happened",
		})
		if err != nil {
			return err
		}
		if len(found.Items) == 1 {
			return wanted("message", found.Items[0].Message, "in "+w.tenant)
		}
		select {
		case <-ctx.Done():
			return errors.New("it was not recorded")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// recordSink writes events as the typed client does.
type recordSink struct {
	ctx context.Context
	w   *world
}

func (s *recordSink) Create(event *corev1.Event) (*corev1.Event, error) {
	return s.w.typed.CoreV1().Events(event.Namespace).Create(s.ctx, event, metav1.CreateOptions{})
}

func (s *recordSink) Update(event *corev1.Event) (*corev1.Event, error) {
	return s.w.typed.CoreV1().Events(event.Namespace).Update(s.ctx, event, metav1.UpdateOptions{})
}

func (s *recordSink) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	return s.w.typed.CoreV1().Events(event.Namespace).PatchWithEventNamespaceWithContext(s.ctx, event, patch)
}
