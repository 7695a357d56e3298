package main

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// InAllSpaces redirects lists and watches to all spaces: it inserts `tenants/all` after the
// version in the path.
func InAllSpaces(config *rest.Config) *rest.Config {
	all := rest.CopyConfig(config)
	all.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			request = request.Clone(request.Context())
			segments := strings.Split(request.URL.Path, "/") // "", "api", version, …
			after := 3
			if len(segments) > 1 && segments[1] == "apis" {
				after = 4 // "", "apis", group, version, …
			}
			if len(segments) > after {
				segments = slices.Insert(segments, after, "tenants", "all")
				request.URL.Path = strings.Join(segments, "/")
			}
			return next.RoundTrip(request)
		})
	})
	return all
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// InTenant returns a configuration for one tenant's space.
func InTenant(config *rest.Config, tenant string) *rest.Config {
	one := rest.CopyConfig(config)
	one.Host = strings.TrimSuffix(config.Host, "/") + "/tenants/" + tenant
	return one
}

// Qualify prefixes the namespace of an object with its tenant: acme/default. Objects of the
// system have no prefix.
func Qualify(object metav1.Object) {
	segments := strings.Split(object.GetSelfLink(), "/")
	for prefix, at := range map[string]int{"api": 3, "apis": 4} {
		if len(segments) > at+1 && segments[1] == prefix && segments[at] == "tenants" {
			object.SetNamespace(segments[at+1] + "/" + object.GetNamespace())
		}
	}
}

// Qualified qualifies the objects of lists and watches before they are cached.
func Qualified(inner cache.ListerWatcher) cache.ListerWatcher {
	return &cache.ListWatch{
		ListFunc: func(options metav1.ListOptions) (runtime.Object, error) {
			list, err := inner.List(options)
			if err != nil {
				return nil, err
			}
			return list, meta.EachListItem(list, func(item runtime.Object) error {
				object, err := meta.Accessor(item)
				if err == nil {
					Qualify(object)
				}
				return err
			})
		},
		WatchFunc: func(options metav1.ListOptions) (watch.Interface, error) {
			events, err := inner.Watch(options)
			if err != nil {
				return nil, err
			}
			return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
				if object, err := meta.Accessor(event.Object); err == nil {
					Qualify(object)
				}
				return event, true
			}), nil
		},
	}
}
