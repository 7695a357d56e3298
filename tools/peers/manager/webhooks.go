package main

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// most is the maximum number of replicas of a Site.
const most = 10

type webhooks struct{}

// Default sets defaults: /mutate-peers-example-v1-site.
func (webhooks) Default(_ context.Context, site *Site) error {
	if site.Spec.Image == "" {
		site.Spec.Image = "site:latest"
	}
	return nil
}

// ValidateCreate rejects too many replicas: /validate-peers-example-v1-site.
func (webhooks) ValidateCreate(_ context.Context, site *Site) (admission.Warnings, error) {
	return judge(site)
}

// ValidateUpdate rejects too many replicas.
func (webhooks) ValidateUpdate(_ context.Context, _, site *Site) (admission.Warnings, error) {
	return judge(site)
}

// ValidateDelete accepts every deletion.
func (webhooks) ValidateDelete(context.Context, *Site) (admission.Warnings, error) {
	return nil, nil
}

func judge(site *Site) (admission.Warnings, error) {
	if site.Spec.Replicas > most {
		return nil, fmt.Errorf("a site has at most %d replicas, not %d", most, site.Spec.Replicas)
	}
	if site.Spec.Message == "" {
		return admission.Warnings{"a site without a message says nothing"}, nil
	}
	return nil, nil
}
