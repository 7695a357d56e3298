package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/restmapper"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// The cases of discovery and OpenAPI.
var documents = []act{
	{"discovery: aggregated and legacy say the same", discovered},
	{"discovery: names are mapped to resources", mapped},
	{"openapi: version 2 in protobuf", openAPIv2},
	{"openapi: version 3 in JSON and protobuf", openAPIv3},
	{"version", versions},
}

func discovered(ctx context.Context, w *world) error {
	groups, resources, failed, err := w.discovery.GroupsAndMaybeResources()
	if err != nil {
		return err
	}
	if resources == nil {
		return fmt.Errorf("discovery was not aggregated")
	}
	legacy := w.discovery.WithLegacy()
	older, err := legacy.ServerGroups()
	if err != nil {
		return err
	}
	for version, list := range resources {
		one, err := legacy.ServerResourcesForGroupVersion(version.String())
		if err != nil {
			return err
		}
		if err := wanted("resources of "+version.String(), len(one.APIResources), len(list.APIResources)); err != nil {
			return err
		}
	}
	preferred, err := w.discovery.ServerPreferredResources()
	if err != nil {
		return err
	}
	resource, _ := widgets(w)
	_, defined := resources[resource.GroupVersion()]
	return first(
		wanted("failures", len(failed), 0),
		wanted("groups", len(older.Groups), len(groups.Groups)),
		wanted("that there are preferred ones", len(preferred) > 10, true),
		wanted("that the tenant's kind is there", defined, true),
	)
}

func mapped(ctx context.Context, w *world) error {
	cached := memory.NewMemCacheClient(w.discovery)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	for short, resource := range map[string]string{
		"deploy": "apps/v1, Resource=deployments",
		"cm":     "/v1, Resource=configmaps",
		"hpa":    "autoscaling/v2, Resource=horizontalpodautoscalers",
		"crd":    "apiextensions.k8s.io/v1, Resource=customresourcedefinitions",
	} {
		found, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: short})
		if err != nil {
			return err
		}
		if err := wanted(short, found.String(), resource); err != nil {
			return err
		}
	}
	kind, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if err != nil {
		return err
	}
	return wanted("resource", kind.Resource.Resource, "deployments")
}

func openAPIv2(ctx context.Context, w *world) error {
	document, err := w.discovery.OpenAPISchema()
	if err != nil {
		return err
	}
	for _, schema := range document.Definitions.AdditionalProperties {
		if schema.Name == "io.k8s.api.apps.v1.Deployment" {
			return wanted("properties", len(schema.Value.Properties.AdditionalProperties), 5)
		}
	}
	return fmt.Errorf("no Deployment among %d definitions", len(document.Definitions.AdditionalProperties))
}

func openAPIv3(ctx context.Context, w *world) error {
	client := w.discovery.OpenAPIV3()
	root := openapi3.NewRoot(client)
	spec, err := root.GVSpec(schema.GroupVersion{Group: "apps", Version: "v1"})
	if err != nil {
		return err
	}
	if spec.Components.Schemas["io.k8s.api.apps.v1.Deployment"] == nil {
		return fmt.Errorf("no Deployment among %d schemas", len(spec.Components.Schemas))
	}
	paths, err := client.Paths()
	if err != nil {
		return err
	}
	resource, _ := widgets(w)
	for _, path := range []string{"api/v1", "apis/apps/v1", "apis/" + resource.GroupVersion().String()} {
		version, found := paths[path]
		if !found {
			return fmt.Errorf("no %s", path)
		}
		sealed, err := version.Schema(openapi.ContentTypeOpenAPIV3PB)
		if err != nil {
			return err
		}
		if err := sameDocument(version, sealed); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func versions(ctx context.Context, w *world) error {
	var found *version.Info
	found, err := w.discovery.ServerVersion()
	if err != nil {
		return err
	}
	return wanted("version", found.Major+"."+found.Minor, "1.36")
}
