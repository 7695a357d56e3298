package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A kind is a line of kinds.json.
type kind struct {
	Group               string        `json:"group"`
	Version             string        `json:"version"`
	Resource            string        `json:"resource"`
	Kind                string        `json:"kind"`
	Type                string        `json:"type"`
	Scope               string        `json:"scope"`
	Singular            string        `json:"singular"`
	Verbs               []string      `json:"verbs"`
	ShortNames          []string      `json:"shortNames,omitempty"`
	Categories          []string      `json:"categories,omitempty"`
	Subresources        []subresource `json:"subresources,omitempty"`
	CreateOnUpdate      bool          `json:"createOnUpdate,omitempty"`
	UnconditionalUpdate bool          `json:"unconditionalUpdate,omitempty"`
	DeleteReturnsObject bool          `json:"deleteReturnsObject,omitempty"`
	ResetFields         resetFields   `json:"resetFields,omitempty"`
	DefaultPropagation  string        `json:"defaultPropagation,omitempty"`
	Generation          bool          `json:"generation,omitempty"`
	SystemOnly          bool          `json:"systemOnly,omitempty"`
	FieldSelectors      []string      `json:"fieldSelectors,omitempty"`
	Columns             []column      `json:"columns,omitempty"`

	// hash is the storage version hash that discovery answers.
	hash string
}

type subresource struct {
	Name    string   `json:"name"`
	Group   string   `json:"group"`
	Version string   `json:"version"`
	Kind    string   `json:"kind"`
	Verbs   []string `json:"verbs"`
}

type column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Format   string `json:"format"`
	Priority int32  `json:"priority"`
}

// resetFields are the fields that a write leaves alone, by endpoint: `main` is the resource
// itself and comes first, then the subresources by name.
type resetFields map[string][]string

func (r resetFields) MarshalJSON() ([]byte, error) {
	names := make([]string, 0, len(r))
	for name := range r {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if first := cmp.Compare(order(a), order(b)); first != 0 {
			return first
		}
		return cmp.Compare(a, b)
	})
	var out bytes.Buffer
	for i, name := range names {
		fields, err := json.Marshal(r[name])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s%q:%s", separator(i), name, fields)
	}
	return fmt.Appendf(nil, "{%s}", out.Bytes()), nil
}

func order(endpoint string) int {
	if endpoint == "main" {
		return 0
	}
	return 1
}

func separator(index int) string {
	if index == 0 {
		return ""
	}
	return ","
}

// kindsTable generates kinds.json: one kind per line, in the order of discovery.
func kindsTable(inputs *inputs) ([]byte, error) {
	kinds, err := inputs.kinds()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("[\n")
	for i, kind := range kinds {
		line, err := marshal(kind)
		if err != nil {
			return nil, err
		}
		out.Write(line)
		if i+1 < len(kinds) {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
	}
	out.WriteString("]\n")
	return out.Bytes(), nil
}

// marshal encodes without escaping what only matters inside HTML.
func marshal(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

// hashesTable generates storage-hashes.txt: the storage version hash of every stored kind.
func hashesTable(inputs *inputs) ([]byte, error) {
	kinds, err := inputs.kinds()
	if err != nil {
		return nil, err
	}
	others := map[string]bool{}
	for _, kind := range kinds {
		others[discovery.StorageVersionHash(kind.Group, kind.Version, kind.Kind)] = true
	}
	var out bytes.Buffer
	for _, kind := range kinds {
		hash := discovery.StorageVersionHash(kind.Group, kind.Version, kind.Kind)
		// A kind that is stored as another one of the table has no line of its own.
		if kind.hash != "" && (kind.hash == hash || !others[kind.hash]) {
			fmt.Fprintf(&out, "%s/%s/%s %s\n", kind.Group, kind.Version, kind.Kind, hash)
		}
	}
	return out.Bytes(), nil
}

// kinds returns every kind that is served, Insula's own included.
func (in *inputs) kinds() ([]kind, error) {
	priorities, err := groupPriorities(in.source)
	if err != nil {
		return nil, err
	}
	candidates, err := selectorCandidates(in.source)
	if err != nil {
		return nil, err
	}
	var kinds []kind
	for _, group := range in.served.groups {
		for version, storages := range group.storage {
			gv := schema.GroupVersion{Group: group.name, Version: version}
			for _, resource := range group.resources[version] {
				if strings.Contains(resource.Name, "/") {
					continue
				}
				kind, err := describe(group, gv, resource, storages, candidates)
				if err != nil {
					return nil, fmt.Errorf("%s %s: %w", gv, resource.Name, err)
				}
				in.additions.override(&kind)
				kind.SystemOnly = in.additions.systemOnly[schema.GroupResource{Group: gv.Group, Resource: resource.Name}]
				kinds = append(kinds, kind)
			}
		}
	}
	kinds = append(kinds, in.additions.kinds...)
	slices.SortFunc(kinds, func(a, b kind) int {
		first, second := priorities.of(a), priorities.of(b)
		return cmp.Or(
			cmp.Compare(second.group, first.group),
			cmp.Compare(a.Group, b.Group),
			cmp.Compare(second.version, first.version),
			cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.Resource, b.Resource),
		)
	})
	return kinds, nil
}

// describe collects what discovery and the storage tell about one resource.
func describe(group *group, gv schema.GroupVersion, resource metav1.APIResource, storages map[string]rest.Storage, candidates []string) (kind, error) {
	storage := storages[resource.Name]
	gvk := gv.WithKind(resource.Kind)
	object, err := group.scheme.New(gvk)
	if err != nil {
		return kind{}, err
	}
	result := kind{
		Group:       gv.Group,
		Version:     gv.Version,
		Resource:    resource.Name,
		Kind:        resource.Kind,
		Type:        typeName(reflect.TypeOf(object).Elem()),
		Scope:       "Cluster",
		Singular:    resource.SingularName,
		Verbs:       sorted(resource.Verbs),
		ShortNames:  resource.ShortNames,
		Categories:  resource.Categories,
		ResetFields: resetFields{},
		hash:        resource.StorageVersionHash,
	}
	if resource.Namespaced {
		result.Scope = "Namespaced"
	}
	result.Subresources = subresources(group, gv, resource.Name)
	for name, storage := range storages {
		if name == resource.Name {
			addResetFields(result.ResetFields, "main", gv, storage)
		} else if child, ok := strings.CutPrefix(name, resource.Name+"/"); ok {
			addResetFields(result.ResetFields, child, gv, storage)
		}
	}
	if !slices.Contains(resource.Verbs, "list") {
		return result, nil
	}
	if result.Columns, err = columns(storage); err != nil {
		return result, err
	}
	store := storeOf(storage)
	if store != nil && store.PredicateFunc != nil {
		candidates = append(slices.Clone(candidates), selectable(store)...)
	}
	result.FieldSelectors = selectors(group.scheme, gvk, candidates)
	if store != nil {
		result.DeleteReturnsObject = store.ReturnDeletedObject
		result.CreateOnUpdate = allows(store.UpdateStrategy, "AllowCreateOnUpdate")
		result.UnconditionalUpdate = allows(store.UpdateStrategy, "AllowUnconditionalUpdate")
		result.DefaultPropagation = propagation(gv, resource.Name, store)
		result.Generation, err = countsGenerations(gv, resource, store)
	}
	return result, err
}

func sorted(words []string) []string {
	words = slices.Clone(words)
	slices.Sort(words)
	return words
}

func subresources(group *group, gv schema.GroupVersion, parent string) []subresource {
	var found []subresource
	for _, resource := range group.resources[gv.Version] {
		name, ok := strings.CutPrefix(resource.Name, parent+"/")
		if !ok {
			continue
		}
		found = append(found, subresource{
			Name:    name,
			Group:   resource.Group,
			Version: resource.Version,
			Kind:    resource.Kind,
			Verbs:   sorted(resource.Verbs),
		})
	}
	slices.SortFunc(found, func(a, b subresource) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// addResetFields notes the fields that the storage resets for this version, if it says any.
func addResetFields(fields resetFields, endpoint string, gv schema.GroupVersion, storage rest.Storage) {
	strategy, ok := storage.(rest.ResetFieldsStrategy)
	if !ok {
		return
	}
	set := strategy.GetResetFields()[fieldpath.APIVersion(gv.String())]
	if set == nil || set.Empty() {
		return
	}
	set.Iterate(func(path fieldpath.Path) {
		fields[endpoint] = append(fields[endpoint], strings.TrimPrefix(path.String(), "."))
	})
}

// columns are those of the table that the storage answers an empty list with.
func columns(storage rest.Storage) ([]column, error) {
	lister, ok := storage.(rest.Lister)
	if !ok {
		return nil, fmt.Errorf("%T lists nothing", storage)
	}
	table, err := lister.ConvertToTable(context.Background(), lister.NewList(), nil)
	if err != nil {
		return nil, err
	}
	var columns []column
	for _, of := range table.ColumnDefinitions {
		columns = append(columns, column{of.Name, of.Type, of.Format, of.Priority})
	}
	return columns, nil
}

// selectors are the labels that the scheme accepts in a field selector: the name and the
// namespace first, the others by name.
func selectors(scheme *runtime.Scheme, gvk schema.GroupVersionKind, candidates []string) []string {
	candidates = sorted(candidates)
	slices.SortStableFunc(candidates, func(a, b string) int {
		return cmp.Compare(rank(a), rank(b))
	})
	var accepted []string
	for _, label := range slices.Compact(candidates) {
		if _, _, err := scheme.ConvertFieldLabel(gvk, label, "true"); err == nil {
			accepted = append(accepted, label)
		}
	}
	return accepted
}

func rank(label string) int {
	if strings.HasPrefix(label, "metadata.") {
		return 0
	}
	return 1
}

// selectable are the fields by which the store filters its objects.
func selectable(store *genericregistry.Store) []string {
	predicate := store.PredicateFunc(labels.Everything(), fields.Everything())
	_, set, err := predicate.GetAttrs(store.NewFunc())
	if err != nil {
		return nil
	}
	return slices.Collect(maps.Keys(set))
}

// storeOf finds the generic store inside a storage: the storage itself, an embedded field, or
// an unexported field named store.
func storeOf(storage any) *genericregistry.Store {
	if store, ok := storage.(*genericregistry.Store); ok {
		return store
	}
	value := reflect.Indirect(reflect.ValueOf(storage))
	if value.Kind() != reflect.Struct {
		return nil
	}
	for i := range value.NumField() {
		field := value.Type().Field(i)
		if field.Type != reflect.TypeFor[*genericregistry.Store]() && !field.Anonymous {
			continue
		}
		if !value.Field(i).CanAddr() {
			continue
		}
		inner := reflect.NewAt(field.Type, value.Field(i).Addr().UnsafePointer()).Elem()
		if store := storeOf(inner.Interface()); store != nil {
			return store
		}
	}
	return nil
}

// allows asks a strategy a question without arguments, or with a context since Kubernetes 1.37.
func allows(strategy rest.RESTUpdateStrategy, question string) bool {
	method := reflect.ValueOf(strategy).MethodByName(question)
	var arguments []reflect.Value
	if method.Type().NumIn() == 1 {
		arguments = append(arguments, reflect.ValueOf(context.Background()))
	}
	return method.Call(arguments)[0].Bool()
}

// propagation is what a deletion without an option does to dependents, if that is not the
// background deletion that is usual.
func propagation(gv schema.GroupVersion, resource string, store *genericregistry.Store) string {
	strategy, ok := store.DeleteStrategy.(rest.GarbageCollectionDeleteStrategy)
	if !ok {
		return ""
	}
	ctx := genericapirequest.WithRequestInfo(context.Background(), &genericapirequest.RequestInfo{
		IsResourceRequest: true, APIGroup: gv.Group, APIVersion: gv.Version, Resource: resource,
	})
	switch policy := strategy.DefaultGarbageCollectionPolicy(ctx); policy {
	case rest.OrphanDependents:
		return "Orphan"
	case rest.Unsupported:
		return "Unsupported"
	default:
		return ""
	}
}

// countsGenerations reports whether an object begins with generation 1 when it is created.
// Where a strategy expects more than an empty object, it gets one with all pointers set.
func countsGenerations(gv schema.GroupVersion, resource metav1.APIResource, store *genericregistry.Store) (bool, error) {
	ctx := genericapirequest.WithRequestInfo(context.Background(), &genericapirequest.RequestInfo{
		IsResourceRequest: true, APIGroup: gv.Group, APIVersion: gv.Version, Resource: resource.Name,
	})
	prepare := func(object runtime.Object) (generation int64, err error) {
		defer func() {
			if reason := recover(); reason != nil {
				err = fmt.Errorf("preparing an object: %v", reason)
			}
		}()
		store.CreateStrategy.PrepareForCreate(ctx, object)
		accessor, err := meta.Accessor(object)
		if err != nil {
			return 0, err
		}
		return accessor.GetGeneration(), nil
	}
	generation, err := prepare(store.NewFunc())
	if err != nil {
		object := store.NewFunc()
		setPointers(reflect.ValueOf(object).Elem(), 4)
		generation, err = prepare(object)
	}
	return generation == 1, err
}

// setPointers gives every pointer a zero value to point at, down to a depth.
func setPointers(value reflect.Value, depth int) {
	if depth == 0 {
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			setPointers(value.Field(i), depth-1)
		}
	case reflect.Pointer:
		if value.IsNil() && value.CanSet() {
			value.Set(reflect.New(value.Type().Elem()))
			setPointers(value.Elem(), depth-1)
		}
	}
}
