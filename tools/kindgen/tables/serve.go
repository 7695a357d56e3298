package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"

	"google.golang.org/grpc"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	apiservicerest "k8s.io/kube-aggregator/pkg/registry/apiservice/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	kubeletclient "k8s.io/kubernetes/pkg/kubelet/client"
	"k8s.io/kubernetes/pkg/serviceaccount"
	netutils "k8s.io/utils/net"
)

// served is what a kube-apiserver serves by default: its API groups, assembled in this
// process and without a store behind them.
type served struct {
	groups []*group
}

// A group is one API group with the schemes and storages behind it.
type group struct {
	name    string
	scheme  *runtime.Scheme
	storage map[string]map[string]rest.Storage
	// resources are what discovery answers for each version.
	resources map[string][]metav1.APIResource
}

// serve assembles the API groups of kube-apiserver, apiextensions and the aggregator.
func serve() (*served, error) {
	address, err := emptyStore()
	if err != nil {
		return nil, err
	}
	enabled := controlplane.DefaultAPIResourceConfigSource()
	config, err := newConfig(address, enabled)
	if err != nil {
		return nil, err
	}
	options := config.ControlPlane.Generic.RESTOptionsGetter
	completed := config.Complete()
	server, err := completed.ControlPlane.Generic.New("kindgen", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config.ControlPlane.Generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	providers, err := completed.StorageProviders(client)
	if err != nil {
		return nil, err
	}

	result := &served{}
	for i, provider := range providers {
		providers[i] = recorder{provider, result}
	}
	providers = append(providers, recorder{extensions{}, result}, recorder{aggregator{}, result})
	control := controlplaneapiserver.Server{
		GenericAPIServer:        server,
		APIResourceConfigSource: enabled,
		RESTOptionsGetter:       options,
	}
	if err := control.InstallAPIs(providers...); err != nil {
		return nil, err
	}
	return result, result.discover(server.UnprotectedHandler())
}

// emptyStore starts a gRPC server without services. The port allocator connects to a store
// when it is created and asks it nothing.
func emptyStore() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = grpc.NewServer().Serve(listener) }()
	return listener.Addr().String(), nil
}

func newConfig(store string, enabled *serverstorage.ResourceConfig) (*controlplane.Config, error) {
	generic := genericapiserver.NewConfig(legacyscheme.Codecs)
	generic.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	generic.PublicAddress = net.IPv4(127, 0, 0, 1)
	generic.ExternalAddress = "127.0.0.1:443"
	generic.LegacyAPIGroupPrefixes = sets.NewString("/api")
	generic.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	generic.LoopbackClientConfig = &restclient.Config{
		APIPath:       "/api",
		ContentConfig: restclient.ContentConfig{NegotiatedSerializer: legacyscheme.Codecs},
	}

	namer := openapinamer.NewDefinitionNamer(legacyscheme.Scheme, extensionsapiserver.Scheme, aggregatorscheme.Scheme)
	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions)
	generic.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)

	backend := storagebackend.NewDefaultConfig("/registry", nil)
	backend.Transport.ServerList = []string{store}
	backend.CompactionInterval = 0
	backend.DBMetricPollInterval = 0
	factory := kubeapiserver.NewStorageFactoryConfig()
	factory.DefaultResourceEncoding.SetEffectiveVersion(generic.EffectiveVersion)
	storages := serverstorage.NewDefaultStorageFactory(*backend, "application/vnd.kubernetes.protobuf",
		factory.Serializer, factory.DefaultResourceEncoding, enabled, kubeapiserver.SpecialDefaultResourcePrefixes)
	generic.RESTOptionsGetter = optionsGetter{storages}

	client, err := kubernetes.NewForConfig(generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	config := &controlplane.Config{
		ControlPlane: controlplaneapiserver.Config{
			Generic: generic,
			Extra: controlplaneapiserver.Extra{
				APIResourceConfigSource: enabled,
				StorageFactory:          storages,
				ServiceAccountIssuer:    noTokens{},
				VersionedInformers:      informers.NewSharedInformerFactory(client, 0),
			},
		},
		Extra: controlplane.Extra{
			APIServerServicePort:   443,
			MasterCount:            1,
			EndpointReconcilerType: reconcilers.NoneEndpointReconcilerType,
			ServiceIPRange:         net.IPNet{IP: netutils.ParseIPSloppy("10.0.0.0"), Mask: net.CIDRMask(24, 32)},
			KubeletClientConfig:    kubeletclient.KubeletClientConfig{Port: 10250},
		},
	}
	config.ControlPlane.ProxyTransport = &http.Transport{}
	return config, nil
}

// optionsGetter gives registries the versions in which they store, and no store.
type optionsGetter struct {
	storages *serverstorage.DefaultStorageFactory
}

func (g optionsGetter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	config := &storagebackend.ConfigForResource{GroupResource: resource}
	if legacyscheme.Scheme.IsGroupRegistered(resource.Group) {
		var err error
		if config, err = g.storages.NewConfig(resource, example); err != nil {
			return generic.RESTOptions{}, err
		}
	} else {
		// The groups of apiextensions and the aggregator have one version each.
		config.EncodeVersioner = schema.GroupVersion{Group: resource.Group, Version: "v1"}
	}
	return generic.RESTOptions{
		StorageConfig:  config,
		Decorator:      withoutStore,
		ResourcePrefix: g.storages.ResourcePrefix(resource),
	}, nil
}

type noStore struct{ storage.Interface }

func withoutStore(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error),
	func() runtime.Object, func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	return noStore{}, func() {}, nil
}

// noTokens makes the registry of service accounts serve tokens without ever issuing one.
type noTokens struct{ serviceaccount.TokenGenerator }

// recorder keeps the storages that a provider hands to the server.
type recorder struct {
	controlplaneapiserver.RESTStorageProvider
	served *served
}

func (r recorder) NewRESTStorage(enabled serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	info, err := r.RESTStorageProvider.NewRESTStorage(enabled, options)
	if err == nil {
		r.served.groups = append(r.served.groups, &group{
			name:      r.GroupName(),
			scheme:    info.Scheme,
			storage:   info.VersionedResourcesStorageMap,
			resources: map[string][]metav1.APIResource{},
		})
	}
	return info, err
}

type extensions struct{}

func (extensions) GroupName() string { return apiextensions.GroupName }

func (extensions) NewRESTStorage(_ serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	scheme := extensionsapiserver.Scheme
	info := genericapiserver.NewDefaultAPIGroupInfo(apiextensions.GroupName, scheme, metav1.ParameterCodec, extensionsapiserver.Codecs)
	definitions, err := customresourcedefinition.NewREST(scheme, options)
	if err != nil {
		return info, err
	}
	info.VersionedResourcesStorageMap["v1"] = map[string]rest.Storage{
		"customresourcedefinitions":        definitions,
		"customresourcedefinitions/status": customresourcedefinition.NewStatusREST(scheme, definitions),
	}
	return info, nil
}

type aggregator struct{}

func (aggregator) GroupName() string { return "apiregistration.k8s.io" }

func (aggregator) NewRESTStorage(_ serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	enabled := serverstorage.NewResourceConfig()
	enabled.EnableVersions(schema.GroupVersion{Group: "apiregistration.k8s.io", Version: "v1"})
	return apiservicerest.NewRESTStorage(enabled, options, false), nil
}

// discover asks the server what discovery answers for each group and version.
func (s *served) discover(handler http.Handler) error {
	for _, group := range s.groups {
		for version := range group.storage {
			path := "/apis/" + group.name + "/" + version
			if group.name == "" {
				path = "/api/" + version
			}
			answer := httptest.NewRecorder()
			request := httptest.NewRequest(http.MethodGet, path, nil).WithContext(context.Background())
			handler.ServeHTTP(answer, request)
			if answer.Code != http.StatusOK {
				return fmt.Errorf("GET %s: %d %s", path, answer.Code, answer.Body)
			}
			var list metav1.APIResourceList
			if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil {
				return fmt.Errorf("GET %s: %w", path, err)
			}
			group.resources[version] = list.APIResources
		}
	}
	return nil
}
