package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// leaves are the types that the table has a word for.
var leaves = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():    "qty",
	reflect.TypeFor[intstr.IntOrString]():   "ios",
	reflect.TypeFor[metav1.Time]():          "time",
	reflect.TypeFor[metav1.MicroTime]():     "utime",
	reflect.TypeFor[metav1.FieldsV1]():      "raw",
	reflect.TypeFor[runtime.RawExtension](): "raw",
	reflect.TypeFor[apiextensions.JSON]():   "raw",
	reflect.TypeFor[[]byte]():               "bytes",
}

// A typeEntry is a type of types.txt: its line and the lines of its fields.
type typeEntry struct {
	name   string
	atomic bool
	fields []string
}

func (e typeEntry) write(out *bytes.Buffer) {
	out.WriteString(e.name)
	if e.atomic {
		out.WriteString(" mt=atomic")
	}
	out.WriteByte('\n')
	for _, field := range e.fields {
		fmt.Fprintf(out, " %s\n", field)
	}
}

// typesTable generates types.txt: every type that a request or an answer may hold.
func typesTable(inputs *inputs) ([]byte, error) {
	walk := walk{definitions: definitions(), entries: map[reflect.Type]*typeEntry{}}
	for _, root := range bodies(inputs.served) {
		if err := walk.visit(root); err != nil {
			return nil, err
		}
	}
	// No OpenAPI document describes the types that are left, so they get no markers.
	walk.definitions = nil
	for _, root := range undescribed {
		if err := walk.visit(root); err != nil {
			return nil, err
		}
	}
	entries := slices.Clone(inputs.additions.types)
	for _, entry := range walk.entries {
		if err := inputs.additions.extend(entry); err != nil {
			return nil, err
		}
		entries = append(entries, *entry)
	}
	slices.SortFunc(entries, func(a, b typeEntry) int { return cmp.Compare(a.name, b.name) })
	var out bytes.Buffer
	for _, entry := range entries {
		entry.write(&out)
	}
	return out.Bytes(), nil
}

// undescribed are the types of the protocol that stand in queries and headers, or that answer
// a client that asks for another form.
var undescribed = []reflect.Type{
	reflect.TypeFor[apidiscovery.APIGroupDiscoveryList](),
	reflect.TypeFor[metav1.CreateOptions](),
	reflect.TypeFor[metav1.GetOptions](),
	reflect.TypeFor[metav1.ListOptions](),
	reflect.TypeFor[metav1.PartialObjectMetadataList](),
	reflect.TypeFor[metav1.PatchOptions](),
	reflect.TypeFor[metav1.UpdateOptions](),
}

// bodies are the types of what is sent and answered: of the served kinds, of their lists, of
// their subresources, and of the protocol itself.
func bodies(served *served) []reflect.Type {
	roots := []reflect.Type{
		reflect.TypeFor[metav1.APIGroup](),
		reflect.TypeFor[metav1.APIGroupList](),
		reflect.TypeFor[metav1.APIResourceList](),
		reflect.TypeFor[metav1.APIVersions](),
		reflect.TypeFor[metav1.DeleteOptions](),
		reflect.TypeFor[metav1.Status](),
		reflect.TypeFor[metav1.WatchEvent](),
	}
	for _, group := range served.groups {
		for version, resources := range group.resources {
			for _, resource := range resources {
				// A connection takes its options from the query.
				if _, connects := group.storage[version][resource.Name].(rest.Connecter); connects {
					continue
				}
				gvk := schema.GroupVersionKind{
					Group:   cmp.Or(resource.Group, group.name),
					Version: cmp.Or(resource.Version, version),
					Kind:    resource.Kind,
				}
				for _, kind := range []string{gvk.Kind, gvk.Kind + "List"} {
					if known, ok := group.scheme.AllKnownTypes()[gvk.GroupVersion().WithKind(kind)]; ok {
						roots = append(roots, known)
					}
				}
			}
		}
	}
	return roots
}

// definitions are the OpenAPI definitions by the name of the type in the table.
func definitions() map[string]spec.Schema {
	ref := func(path string) spec.Ref { return spec.MustCreateRef("#/" + path) }
	found := map[string]spec.Schema{}
	for name, definition := range openapi.GetOpenAPIDefinitions(common.ReferenceCallback(ref)) {
		found[definitionName(name)] = definition.Schema
	}
	return found
}

// definitionName turns the key of a definition, a Go path or an OpenAPI name depending on
// the version of Kubernetes, into a name of the table.
func definitionName(key string) string {
	if path, ok := strings.CutPrefix(key, "k8s.io/"); ok {
		return strings.ReplaceAll(path, "/", ".")
	}
	return strings.TrimPrefix(key, "io.k8s.")
}

// typeName is the OpenAPI name of a Go type without `io.k8s.`.
func typeName(of reflect.Type) string {
	return definitionName(of.PkgPath() + "." + of.Name())
}

// walk collects types and everything that they hold.
type walk struct {
	definitions map[string]spec.Schema
	entries     map[reflect.Type]*typeEntry
}

func (w *walk) visit(of reflect.Type) error {
	if _, seen := w.entries[of]; seen {
		return nil
	}
	definition := w.definitions[typeName(of)]
	mapType, _ := definition.Extensions.GetString("x-kubernetes-map-type")
	entry := &typeEntry{name: typeName(of), atomic: mapType == "atomic"}
	w.entries[of] = entry
	for i := range of.NumField() {
		field, err := w.field(of, of.Field(i), definition)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", entry.name, of.Field(i).Name, err)
		}
		if field != "" {
			entry.fields = append(entry.fields, field)
		}
	}
	return nil
}

// field returns the line of a field, or nothing for the type's name and version, which every
// object has.
func (w *walk) field(of reflect.Type, field reflect.StructField, definition spec.Schema) (string, error) {
	if field.Type == reflect.TypeFor[metav1.TypeMeta]() {
		return "", nil
	}
	tag, ok := field.Tag.Lookup("protobuf")
	if !ok {
		return "", nil
	}
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		return "", fmt.Errorf("protobuf tag %q", tag)
	}
	shape, err := w.shape(field.Type)
	if err != nil {
		return "", err
	}
	options := strings.Split(field.Tag.Get("json"), ",")
	name := cmp.Or(options[0], "-")
	words := []string{name, parts[1], shape}
	if field.Anonymous && options[0] == "" {
		words = append(words, "inline")
		// The fields of an atomic type that are spelled in another one are atomic with it.
		if mapType, _ := definition.Extensions.GetString("x-kubernetes-map-type"); mapType == "atomic" {
			words = append(words, "map=atomic")
		}
		return strings.Join(words, " "), nil
	}
	if slices.Contains(options, "omitempty") {
		words = append(words, "omit")
	}
	if slices.Contains(options, "omitzero") {
		words = append(words, "omitzero")
	}
	if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
		words = append(words, "patch="+strategy)
	}
	if key := field.Tag.Get("patchMergeKey"); key != "" {
		words = append(words, "key="+key)
	}
	property, ok := definition.Properties[name]
	if !ok {
		return strings.Join(words, " "), nil
	}
	words = append(words, markers(property)...)
	if text, err := stated(property.Default, field.Type, options); err != nil {
		return "", err
	} else if text != "" {
		words = append(words, "default="+text)
	}
	if slices.Contains(definition.Required, name) {
		words = append(words, "required")
	}
	return strings.Join(words, " "), nil
}

// markers are the words that tell server-side apply how to merge.
func markers(property spec.Schema) []string {
	var words []string
	if list, ok := property.Extensions.GetString("x-kubernetes-list-type"); ok {
		words = append(words, "list="+list)
	}
	if keys, ok := property.Extensions.GetStringSlice("x-kubernetes-list-map-keys"); ok {
		words = append(words, "keys="+strings.Join(keys, "+"))
	}
	if of, ok := property.Extensions.GetString("x-kubernetes-map-type"); ok {
		words = append(words, "map="+of)
	}
	return words
}

// stated returns a default as JSON, unless it follows from the type: the zero value of what
// is always written, and the empty struct.
func stated(value any, of reflect.Type, options []string) (string, error) {
	if value == nil {
		return "", nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	follows := string(text) == "{}" ||
		of.Kind() != reflect.Pointer && !slices.Contains(options, "omitempty") && isZero(string(text))
	if follows {
		return "", nil
	}
	return string(text), nil
}

func isZero(text string) bool {
	return text == `""` || text == "0" || text == "false"
}

// shape returns the table's word for a type and visits the structs in it.
func (w *walk) shape(of reflect.Type) (string, error) {
	if word, ok := leaves[of]; ok {
		return word, nil
	}
	switch of.Kind() {
	case reflect.Pointer:
		word, err := w.shape(of.Elem())
		return "*" + word, err
	case reflect.Slice:
		word, err := w.shape(of.Elem())
		// A named list with an encoding of its own is a message in protobuf.
		if _, encodes := reflect.PointerTo(of).MethodByName("Marshal"); encodes {
			return "items[]" + word, err
		}
		return "[]" + word, err
	case reflect.Map:
		word, err := w.shape(of.Elem())
		return "map<string," + word + ">", err
	case reflect.Struct:
		return typeName(of), w.visit(of)
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return of.Kind().String(), nil
	default:
		return "", fmt.Errorf("no word for the type %s", of)
	}
}
