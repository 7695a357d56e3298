package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"
)

// A reviewCase is a write in a namespace, and a reviewRecord also what is said about it.
type reviewCase struct {
	Name string `json:"name"`
	// Config is the configuration of the plugin; the default one if it is absent.
	Config object `json:"config,omitempty"`
	// Labels are those of the namespace of a pod or controller.
	Labels   map[string]string `json:"labels,omitempty"`
	Resource string            `json:"resource"`
	// Subresource is empty for the resource itself.
	Subresource string `json:"subresource,omitempty"`
	User        string `json:"user,omitempty"`
	Old         object `json:"old,omitempty"`
	New         object `json:"new"`
	// Pods exist in the namespace.
	Pods []object `json:"pods,omitempty"`
}

type reviewRecord struct {
	reviewCase
	Allowed     bool              `json:"allowed"`
	Message     string            `json:"message,omitempty"`
	Warnings    []string          `json:"warnings,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// A writtenKind is a resource and its type.
type writtenKind struct {
	resource schema.GroupVersionResource
	kind     string
	empty    func() runtime.Object
}

var (
	core  = corev1.SchemeGroupVersion
	apps  = appsv1.SchemeGroupVersion
	batch = batchv1.SchemeGroupVersion
	kinds = []writtenKind{
		{core.WithResource("pods"), "Pod", func() runtime.Object { return &corev1.Pod{} }},
		{core.WithResource("namespaces"), "Namespace", func() runtime.Object { return &corev1.Namespace{} }},
		{core.WithResource("podtemplates"), "PodTemplate", func() runtime.Object { return &corev1.PodTemplate{} }},
		{core.WithResource("replicationcontrollers"), "ReplicationController", func() runtime.Object { return &corev1.ReplicationController{} }},
		{apps.WithResource("daemonsets"), "DaemonSet", func() runtime.Object { return &appsv1.DaemonSet{} }},
		{apps.WithResource("deployments"), "Deployment", func() runtime.Object { return &appsv1.Deployment{} }},
		{apps.WithResource("replicasets"), "ReplicaSet", func() runtime.Object { return &appsv1.ReplicaSet{} }},
		{apps.WithResource("statefulsets"), "StatefulSet", func() runtime.Object { return &appsv1.StatefulSet{} }},
		{batch.WithResource("cronjobs"), "CronJob", func() runtime.Object { return &batchv1.CronJob{} }},
		{batch.WithResource("jobs"), "Job", func() runtime.Object { return &batchv1.Job{} }},
	}
)

func recordReviews(path string) ([]reviewRecord, error) {
	var cases []reviewCase
	if err := readTable(path, &cases); err != nil {
		return nil, err
	}
	var records []reviewRecord
	for _, one := range cases {
		record, err := one.review()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.Name, err)
		}
		records = append(records, record)
	}
	return records, nil
}

func (one reviewCase) review() (reviewRecord, error) {
	record := reviewRecord{reviewCase: one}
	plugin, err := one.plugin()
	if err != nil {
		return record, err
	}
	attributes, err := one.attributes()
	if err != nil {
		return record, err
	}
	response := plugin.Validate(context.Background(), attributes)
	record.Allowed = response.Allowed
	record.Warnings = response.Warnings
	if response.Result != nil {
		record.Message = response.Result.Message
	}
	for key, value := range response.AuditAnnotations {
		if record.Annotations == nil {
			record.Annotations = map[string]string{}
		}
		record.Annotations[api.AuditAnnotationPrefix+key] = value
	}
	return record, nil
}

// plugin is set up as kube-apiserver does, with the objects of the case.
func (one reviewCase) plugin() (*admission.Admission, error) {
	var text []byte
	if one.Config != nil {
		var err error
		if text, err = json.Marshal(one.Config); err != nil {
			return nil, err
		}
	}
	config, err := load.LoadFromData(text)
	if err != nil {
		return nil, err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, err
	}
	plugin := &admission.Admission{
		Configuration:   config,
		Evaluator:       evaluator,
		Metrics:         metrics.NewPrometheusRecorder(api.MajorMinorVersion(1, newestMinor)),
		NamespaceGetter: one,
		PodLister:       one,
	}
	if err := plugin.CompleteConfiguration(); err != nil {
		return nil, err
	}
	return plugin, plugin.ValidateConfiguration()
}

func (one reviewCase) attributes() (api.Attributes, error) {
	for _, kind := range kinds {
		if kind.resource.Resource != one.Resource {
			continue
		}
		object := kind.empty()
		if err := decode(one.New, object); err != nil {
			return nil, err
		}
		record := &api.AttributesRecord{
			Name:        "x",
			Namespace:   "n",
			Kind:        kind.resource.GroupVersion().WithKind(kind.kind),
			Resource:    kind.resource,
			Subresource: one.Subresource,
			Operation:   admissionv1.Create,
			Object:      object,
			Username:    one.User,
		}
		if one.Resource == "namespaces" {
			record.Name = "n"
		}
		if one.Old != nil {
			record.Operation = admissionv1.Update
			record.OldObject = kind.empty()
			return record, decode(one.Old, record.OldObject)
		}
		return record, nil
	}
	return nil, fmt.Errorf("there is no resource %q", one.Resource)
}

// GetNamespace returns the namespace of the written object.
func (one reviewCase) GetNamespace(_ context.Context, name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: one.Labels}}, nil
}

// ListPods returns the pods that exist.
func (one reviewCase) ListPods(context.Context, string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, existing := range one.Pods {
		pod := &corev1.Pod{}
		if err := decode(existing, pod); err != nil {
			return nil, err
		}
		pods = append(pods, pod)
	}
	return pods, nil
}

func decodeStrictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}
