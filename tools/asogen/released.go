package main

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Released makes definitions as large as those of a release: of all kinds, in all versions, with
// descriptions. They are for tests only.
type Released struct {
	source string
	// Packages of the module by the name that others import them with.
	shared map[string]*Package
}

// writeReleased writes a file for each kind.
func writeReleased(source, out string) error {
	kinds, err := readKinds(source)
	if err != nil {
		return err
	}
	plurals, err := readPlurals(source, kinds)
	if err != nil {
		return err
	}
	released := &Released{source: source, shared: map[string]*Package{}}
	for name, folder := range map[string]string{
		"genruntime": "pkg/genruntime", "core": "pkg/genruntime/core", "conditions": "pkg/genruntime/conditions",
	} {
		if released.shared[name], err = readPackage(filepath.Join(source, folder)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	versions := [][]*KindVersion{}
	for index, kind := range kinds {
		if index == 0 || kinds[index-1].Group != kind.Group || kinds[index-1].Kind != kind.Kind {
			versions = append(versions, nil)
		}
		versions[len(versions)-1] = append(versions[len(versions)-1], kind)
	}
	storage := map[string]*Package{}
	for _, of := range versions {
		plural := plurals[of[0].Group+"/"+of[0].Kind]
		definition, err := released.define(of, plural, storage)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", of[0].Group, of[0].Kind, err)
		}
		path := filepath.Join(out, plural+"."+of[0].Group+".json")
		if err := os.WriteFile(path, []byte(line(definition)+"\n"), 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%d definitions\n", len(versions))
	return nil
}

func (released *Released) define(versions []*KindVersion, plural string, storage map[string]*Package) (any, error) {
	kind := versions[0].Kind
	var all []any
	for _, version := range versions {
		folder := filepath.Join(version.Package.Path, "storage")
		if storage[folder] == nil {
			read, err := readPackage(folder)
			if err != nil {
				return nil, err
			}
			storage[folder] = read
		}
		for _, pkg := range []*Package{version.Package, storage[folder]} {
			schema, err := released.root(pkg, kind)
			if err != nil {
				return nil, err
			}
			_, stored := marker(pkg.Markers[kind], "storageversion")
			all = append(all, map[string]any{
				"name": pkg.Version, "served": true, "storage": stored,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema":       map[string]any{"openAPIV3Schema": schema},
			})
		}
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": plural + "." + versions[0].Group},
		"spec": map[string]any{
			"group": versions[0].Group,
			"names": map[string]any{
				"kind": kind, "listKind": kind + "List", "plural": plural, "singular": strings.ToLower(kind),
			},
			"scope":    "Namespaced",
			"versions": all,
		},
	}, nil
}

func (released *Released) root(pkg *Package, kind string) (map[string]any, error) {
	properties := map[string]any{
		"apiVersion": map[string]any{"type": "string"},
		"kind":       map[string]any{"type": "string"},
		"metadata":   map[string]any{"type": "object"},
	}
	for _, name := range []string{"Spec", "Status"} {
		field := pkg.structOf(kind).field(name)
		schema, err := released.schema(pkg, field.Type)
		if err != nil {
			return nil, err
		}
		properties[field.JSON] = schema
	}
	return map[string]any{"type": "object", "description": prose(pkg.Docs[kind]), "properties": properties}, nil
}

// prose returns a comment without markers.
func prose(comment string) string {
	lines := strings.Split(strings.TrimSpace(comment), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "+") })
	return strings.Join(lines, "\n")
}

func (released *Released) object(pkg *Package, name string) (map[string]any, error) {
	properties := map[string]any{}
	var required []string
	for _, field := range pkg.structOf(name).Fields {
		schema, err := released.schema(pkg, field.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", name, field.Go, err)
		}
		constrained, err := constrain(schema, field.Markers)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", name, field.Go, err)
		}
		schema = constrained.(map[string]any)
		if field.Doc != "" {
			schema["description"] = prose(field.Doc)
		}
		properties[field.JSON] = schema
		if _, found := marker(field.Markers, "validation:Required"); found {
			required = append(required, field.JSON)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		slices.Sort(required)
		schema["required"] = required
	}
	return schema, nil
}

func (released *Released) schema(pkg *Package, expression ast.Expr) (map[string]any, error) {
	switch typed := unpoint(expression).(type) {
	case *ast.ArrayType:
		items, err := released.schema(pkg, typed.Elt)
		return map[string]any{"type": "array", "items": items}, err
	case *ast.MapType:
		values, err := released.schema(pkg, typed.Value)
		return map[string]any{"type": "object", "additionalProperties": values}, err
	case *ast.SelectorExpr:
		return released.imported(typeName(typed))
	case *ast.Ident:
		return released.named(pkg, typed.Name)
	}
	return nil, fmt.Errorf("%T is not a type of a field", expression)
}

func (released *Released) imported(name string) (map[string]any, error) {
	switch name {
	case "v1.JSON":
		return map[string]any{"x-kubernetes-preserve-unknown-fields": true}, nil
	case "metav1.Time":
		return map[string]any{"type": "string", "format": "date-time"}, nil
	case "metav1.ConditionStatus":
		return map[string]any{"type": "string"}, nil
	case "genruntime.PropertyBag":
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}, nil
	case "genruntime.WellKnownResourceReference":
		schema, err := released.object(released.shared["genruntime"], "ResourceReference")
		if err == nil {
			schema["properties"].(map[string]any)["wellKnownName"] = map[string]any{"type": "string"}
		}
		return schema, err
	}
	pkg, local, _ := strings.Cut(name, ".")
	if released.shared[pkg] == nil || released.shared[pkg].structOf(local) == nil {
		return nil, fmt.Errorf("type %s is not known", name)
	}
	return released.object(released.shared[pkg], local)
}

func (released *Released) named(pkg *Package, name string) (map[string]any, error) {
	switch name {
	case "string":
		return map[string]any{"type": "string"}, nil
	case "bool":
		return map[string]any{"type": "boolean"}, nil
	case "int", "int64", "uint32":
		return map[string]any{"type": "integer"}, nil
	case "float64":
		return map[string]any{"type": "number"}, nil
	}
	if pkg.structOf(name) != nil {
		return released.object(pkg, name)
	}
	if pkg.Types[name] == nil {
		return nil, fmt.Errorf("type %s is not known", name)
	}
	schema, err := released.schema(pkg, pkg.Types[name])
	if err != nil {
		return nil, err
	}
	constrained, err := constrain(schema, pkg.Markers[name])
	if err != nil {
		return nil, err
	}
	return constrained.(map[string]any), nil
}
