package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
)

// The cases of the typed clients.
var objects = []act{
	{"typed: create, get, update, patch and delete", crud},
	{"typed: a deployment is defaulted, and its numbers arrive", numbers},
	{"typed: status and scale are written apart", parts},
	{"typed: all sorts of patches", patches},
	{"typed: every refusal is a status of its sort", refusals},
	{"typed: preconditions and options of deletions", deletions},
	{"typed: options of deletions are written in every group's own version", grouped},
	{"typed: a collection is deleted, and lists are empty after it", emptied},
	{"typed: reviews and tokens", reviews},
	{"typed: eviction and binding", bindings},
	{"typed: lists and selectors", selections},
	{"typed: a watch sees what happens, and is told when it is too late", watches},
	{"typed: what was wished for was spoken", spoken},
}

func namespaceOf(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func configMap(name string, labels map[string]string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Data:       data,
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i:1"}}},
	}
}

func deployment(name string) *appsv1.Deployment {
	replicas := int32(3)
	surge := intstr.FromString("10%")
	unavailable := intstr.FromInt32(1)
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: &surge, MaxUnavailable: &unavailable,
			}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "c", Image: "i:1",
					Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
						corev1.ResourceMemory: resource.MustParse("1.5Gi"),
					}},
				}}},
			},
		},
	}
}

func crud(ctx context.Context, w *world) error {
	maps := w.typed.CoreV1().ConfigMaps(w.namespace)
	created := configMap("crud", nil, map[string]string{"tenant": w.tenant})
	created.BinaryData = map[string][]byte{"b": {0, 1, 254, 255}}
	created, err := maps.Create(ctx, created, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	got, err := maps.Get(ctx, "crud", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := first(
		wanted("uid", got.UID, created.UID),
		wanted("resourceVersion", got.ResourceVersion, created.ResourceVersion),
		wanted("data", got.Data["tenant"], w.tenant),
		wanted("bytes", got.BinaryData["b"], []byte{0, 1, 254, 255}),
		wanted("that it has a time", got.CreationTimestamp.IsZero(), false),
	); err != nil {
		return err
	}
	got.Data["more"] = "yes"
	updated, err := maps.Update(ctx, got, metav1.UpdateOptions{FieldManager: "client"})
	if err != nil {
		return err
	}
	if updated.ResourceVersion == created.ResourceVersion {
		return errors.New("an update left the resourceVersion as it was")
	}
	if err := maps.Delete(ctx, "crud", metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, err = maps.Get(ctx, "crud", metav1.GetOptions{})
	return wanted("not found", apierrors.IsNotFound(err), true)
}

func numbers(ctx context.Context, w *world) error {
	deployments := w.typed.AppsV1().Deployments(w.namespace)
	created, err := deployments.Create(ctx, deployment("numbers"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	memory := created.Spec.Template.Spec.Containers[0].Resources.Limits.Memory()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}
	role, err = w.typed.RbacV1().Roles(w.namespace).Create(ctx, role, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return first(
		wanted("replicas", *created.Spec.Replicas, 3),
		wanted("surge", created.Spec.Strategy.RollingUpdate.MaxSurge, "10%"),
		wanted("unavailable", created.Spec.Strategy.RollingUpdate.MaxUnavailable, "1"),
		wanted("deadline", *created.Spec.ProgressDeadlineSeconds, 600),
		wanted("memory", memory.String(), "1536Mi"),
		wanted("policy", created.Spec.Template.Spec.RestartPolicy, "Always"),
		wanted("generation", created.Generation, 1),
		wanted("rules", len(role.Rules), 0),
	)
}

func parts(ctx context.Context, w *world) error {
	deployments := w.typed.AppsV1().Deployments(w.namespace)
	created, err := deployments.Create(ctx, deployment("parts"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Status.ObservedGeneration = created.Generation
	created.Status.Replicas = 2
	created.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "Enough",
	}}
	labelled := created.DeepCopy()
	labelled.Spec.Paused = true
	told, err := deployments.UpdateStatus(ctx, labelled, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	scale, err := deployments.GetScale(ctx, "parts", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 7
	scaled, err := deployments.UpdateScale(ctx, "parts", scale, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	got, err := deployments.Get(ctx, "parts", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return first(
		wanted("paused", told.Spec.Paused, false),
		wanted("condition", told.Status.Conditions[0].Reason, "Enough"),
		wanted("replicas that are", scale.Status.Replicas, 2),
		wanted("selector", scale.Status.Selector, "app=parts"),
		wanted("replicas that shall be", scaled.Spec.Replicas, 7),
		wanted("replicas of the deployment", *got.Spec.Replicas, 7),
		wanted("generation", got.Generation, 2),
	)
}

func patches(ctx context.Context, w *world) error {
	deployments := w.typed.AppsV1().Deployments(w.namespace)
	if _, err := deployments.Create(ctx, deployment("patches"), metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, patch := range []struct {
		kind types.PatchType
		body string
	}{
		{types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s:1"}]}}}}`},
		{types.MergePatchType, `{"metadata":{"labels":{"l":"merge"}}}`},
		{types.JSONPatchType, `[{"op":"replace","path":"/spec/replicas","value":5}]`},
	} {
		_, err := deployments.Patch(ctx, "patches", patch.kind, []byte(patch.body), metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("%s: %w", patch.kind, err)
		}
	}
	got, err := deployments.Get(ctx, "patches", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return first(
		wanted("containers", len(got.Spec.Template.Spec.Containers), 2),
		wanted("label", got.Labels["l"], "merge"),
		wanted("replicas", *got.Spec.Replicas, 5),
	)
}

func refusals(ctx context.Context, w *world) error {
	maps := w.typed.CoreV1().ConfigMaps(w.namespace)
	created, err := maps.Create(ctx, configMap("refusals", nil, nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, exists := maps.Create(ctx, configMap("refusals", nil, nil), metav1.CreateOptions{})
	_, invalid := maps.Create(ctx, configMap("Bad_Name", nil, nil), metav1.CreateOptions{})
	_, nowhere := w.typed.CoreV1().ConfigMaps("nowhere").Create(ctx, configMap("a", nil, nil), metav1.CreateOptions{})
	stale := created.DeepCopy()
	created.Data = map[string]string{"a": "1"}
	if _, err := maps.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	stale.Data = map[string]string{"a": "2"}
	_, conflict := maps.Update(ctx, stale, metav1.UpdateOptions{})
	_, bad := maps.List(ctx, metav1.ListOptions{LabelSelector: "a in"})
	_, expired := maps.List(ctx, metav1.ListOptions{Continue: "nonsense"})
	_, method := w.typed.AuthenticationV1().RESTClient().Get().Resource("tokenreviews").Do(ctx).Get()
	_, gone := w.typed.CoreV1().RESTClient().Get().Resource("nonsense").Do(ctx).Get()
	_, larger := maps.Create(ctx, configMap("larger", nil, map[string]string{"a": strings.Repeat("x", 1<<20+1)}), metav1.CreateOptions{})
	var causes *metav1.StatusDetails
	if status := apierrors.APIStatus(nil); errors.As(invalid, &status) {
		causes = status.Status().Details
	}
	if causes == nil || len(causes.Causes) == 0 {
		return fmt.Errorf("no causes in %v", invalid)
	}
	return first(
		wanted("exists", apierrors.IsAlreadyExists(exists), true),
		wanted("invalid", apierrors.IsInvalid(invalid), true),
		wanted("cause", causes.Causes[0].Field, "metadata.name"),
		wanted("nowhere", apierrors.IsNotFound(nowhere), true),
		wanted("conflict", apierrors.IsConflict(conflict), true),
		wanted("bad", apierrors.IsBadRequest(bad), true),
		wanted("continue", apierrors.IsBadRequest(expired), true),
		wanted("method", apierrors.IsMethodNotSupported(method), true),
		wanted("no resource", apierrors.IsNotFound(gone), true),
		wanted("too large", apierrors.IsInvalid(larger), true),
		wanted("message", conflict.Error(), `Operation cannot be fulfilled on configmaps "refusals": the object has been modified; please apply your changes to the latest version and try again`),
	)
}

func deletions(ctx context.Context, w *world) error {
	maps := w.typed.CoreV1().ConfigMaps(w.namespace)
	created, err := maps.Create(ctx, configMap("deletions", nil, nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	other, none := types.UID("other"), int64(0)
	wrong := maps.Delete(ctx, "deletions", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	dry := maps.Delete(ctx, "deletions", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	background := metav1.DeletePropagationBackground
	right := maps.Delete(ctx, "deletions", metav1.DeleteOptions{
		GracePeriodSeconds: &none,
		PropagationPolicy:  &background,
		Preconditions:      &metav1.Preconditions{UID: &created.UID, ResourceVersion: &created.ResourceVersion},
	})
	again := maps.Delete(ctx, "deletions", metav1.DeleteOptions{})
	return first(
		wanted("conflict", apierrors.IsConflict(wrong), true),
		dry, right,
		wanted("not found", apierrors.IsNotFound(again), true),
	)
}

// grouped deletes objects of several groups: the options are encoded in the group's version.
func grouped(ctx context.Context, w *world) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	meta := metav1.ObjectMeta{Name: "grouped"}
	roles := w.typed.RbacV1().Roles(w.namespace)
	leases := w.typed.CoordinationV1().Leases(w.namespace)
	deployments := w.typed.AppsV1().Deployments(w.namespace)
	if _, err := roles.Create(ctx, &rbacv1.Role{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := deployments.Create(ctx, deployment("grouped"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := first(
		roles.Delete(ctx, "grouped", options),
		leases.Delete(ctx, "grouped", options),
		deployments.Delete(ctx, "grouped", options),
	); err != nil {
		return err
	}
	_, err := deployments.Get(ctx, "grouped", metav1.GetOptions{})
	return wanted("gone", apierrors.IsNotFound(err), true)
}

func emptied(ctx context.Context, w *world) error {
	secrets := w.typed.CoreV1().Secrets(w.namespace)
	for i := range 3 {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i), Labels: map[string]string{"go": "away"}},
			Data:       map[string][]byte{"k": []byte("v")},
		}
		if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	chosen := metav1.ListOptions{LabelSelector: "go=away"}
	before, err := secrets.List(ctx, chosen)
	if err != nil {
		return err
	}
	if err := secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, chosen); err != nil {
		return err
	}
	after, err := secrets.List(ctx, chosen)
	if err != nil {
		return err
	}
	return first(
		wanted("before", len(before.Items), 3),
		wanted("bytes", string(before.Items[0].Data["k"]), "v"),
		wanted("after", len(after.Items), 0),
		wanted("that the list has a version", after.ResourceVersion != "", true),
	)
}

func reviews(ctx context.Context, w *world) error {
	who, err := w.typed.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	ask := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: w.namespace},
	}}
	may, err := w.typed.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, ask, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	rules, err := w.typed.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: w.namespace},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	other := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "nobody",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"},
	}}
	mayNot, err := w.typed.AuthorizationV1().SubjectAccessReviews().Create(ctx, other, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	accounts := w.typed.CoreV1().ServiceAccounts(w.namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	if _, err := accounts.Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return err
	}
	hour := int64(3600)
	token, err := accounts.CreateToken(ctx, "robot", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	seen, err := w.typed.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return first(
		wanted("tenant", who.Status.UserInfo.Extra["insula.dev/tenant"], "["+w.tenant+"]"),
		wanted("allowed", may.Status.Allowed, true),
		wanted("that there are rules", len(rules.Status.ResourceRules) > 0, true),
		wanted("of nobody", mayNot.Status.Allowed, false),
		wanted("authenticated", seen.Status.Authenticated, true),
		wanted("user", seen.Status.User.Username, "system:serviceaccount:"+w.namespace+":robot"),
	)
}

func bindings(ctx context.Context, w *world) error {
	pods := w.typed.CoreV1().Pods(w.namespace)
	if _, err := pods.Create(ctx, pod("bound"), metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "bound"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}
	if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	got, err := pods.Get(ctx, "bound", metav1.GetOptions{})
	if err != nil {
		return err
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "bound"}}
	if err := pods.EvictV1(ctx, eviction); err != nil {
		return err
	}
	none := int64(0)
	if err := pods.Delete(ctx, "bound", metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		return err
	}
	_, err = pods.Get(ctx, "bound", metav1.GetOptions{})
	return first(
		wanted("node", got.Spec.NodeName, "n1"),
		wanted("gone", apierrors.IsNotFound(err), true),
	)
}

func selections(ctx context.Context, w *world) error {
	pods := w.typed.CoreV1().Pods(w.namespace)
	for _, name := range []string{"one", "two", "three"} {
		if _, err := pods.Create(ctx, pod(name), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, chosen := range []struct {
		options metav1.ListOptions
		names   string
	}{
		{metav1.ListOptions{LabelSelector: "app in (one,two)"}, "[one two]"},
		{metav1.ListOptions{LabelSelector: "app,app notin (one)"}, "[three two]"},
		{metav1.ListOptions{FieldSelector: "metadata.name=three"}, "[three]"},
		{metav1.ListOptions{FieldSelector: "status.phase=Pending", ResourceVersion: "0"}, "[one three two]"},
		{metav1.ListOptions{LabelSelector: "app=none"}, "[]"},
	} {
		list, err := pods.List(ctx, chosen.options)
		if err != nil {
			return err
		}
		names := []string{}
		for _, pod := range list.Items {
			names = append(names, pod.Name)
		}
		if err := wanted(fmt.Sprint(chosen.options), names, chosen.names); err != nil {
			return err
		}
	}
	return nil
}

func watches(ctx context.Context, w *world) error {
	maps := w.typed.CoreV1().ConfigMaps(w.namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	seen, err := maps.Watch(ctx, metav1.ListOptions{
		ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name=watched",
	})
	if err != nil {
		return err
	}
	defer seen.Stop()
	created, err := maps.Create(ctx, configMap("watched", nil, map[string]string{"tenant": w.tenant}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Data["more"] = "yes"
	if _, err := maps.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "watched", metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, kind := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
		event, open := <-seen.ResultChan()
		if !open {
			return errors.New("the watch ended")
		}
		object, ok := event.Object.(*corev1.ConfigMap)
		if !ok {
			return fmt.Errorf("%s of %T", event.Type, event.Object)
		}
		if err := first(
			wanted("event", event.Type, kind),
			wanted("tenant", object.Data["tenant"], w.tenant),
		); err != nil {
			return err
		}
	}
	late, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		return err
	}
	defer late.Stop()
	event := <-late.ResultChan()
	status, ok := event.Object.(*metav1.Status)
	if !ok {
		return fmt.Errorf("%s of %T", event.Type, event.Object)
	}
	return first(
		wanted("event", event.Type, watch.Error),
		wanted("code", status.Code, http.StatusGone),
		wanted("reason", status.Reason, metav1.StatusReasonExpired),
	)
}

// spoken checks the content types of all responses so far.
func spoken(ctx context.Context, w *world) error {
	sealed := w.requests.sealed.Load()
	sent, received := w.requests.cborSent.Load(), w.requests.cborReceived.Load()
	if w.media == "cbor" {
		return first(
			wanted("answers in protobuf", sealed, 0),
			wanted("that most requests were in CBOR", sent > 20, true),
			wanted("that most answers were in CBOR", received > 50, true),
		)
	}
	if err := first(wanted("requests in CBOR", sent, 0), wanted("answers in CBOR", received, 0)); err != nil {
		return err
	}
	if w.media == "json" {
		return wanted("answers in protobuf", sealed, 0)
	}
	return wanted("that most answers were in protobuf", sealed > 50, true)
}
