package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Version is the served version of the kind, as defined in crd.yaml.
var Version = schema.GroupVersion{Group: "peers.example", Version: "v1"}

// Site is the reconciled kind: a page, and a Deployment that serves it.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SiteSpec   `json:"spec,omitempty"`
	Status SiteStatus `json:"status,omitempty"`
}

// SiteSpec is the desired state.
type SiteSpec struct {
	Message  string `json:"message,omitempty"`
	Replicas int32  `json:"replicas,omitempty"`
	// Image is filled in by the mutating webhook.
	Image string `json:"image,omitempty"`
}

// SiteStatus is the state that the manager observed.
type SiteStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Page               string             `json:"page,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// SiteList is a list of Sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Site `json:"items"`
}

// DeepCopyObject returns a deep copy.
func (s *Site) DeepCopyObject() runtime.Object {
	copied := *s
	copied.ObjectMeta = *s.ObjectMeta.DeepCopy()
	copied.Status.Conditions = make([]metav1.Condition, len(s.Status.Conditions))
	copy(copied.Status.Conditions, s.Status.Conditions)
	return &copied
}

// DeepCopyObject returns a deep copy.
func (l *SiteList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.ListMeta = *l.ListMeta.DeepCopy()
	copied.Items = make([]Site, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*Site)
	}
	return &copied
}

func addSite(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(Version, &Site{}, &SiteList{})
	metav1.AddToGroupVersion(scheme, Version)
	return nil
}
