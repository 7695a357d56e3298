package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Choice is what the module has as code for a kind, and choices/kinds.json as data.
type Choice struct {
	Calls       []json.RawMessage          `json:"calls,omitempty"`
	Secrets     map[string]json.RawMessage `json:"secrets,omitempty"`
	ConfigMaps  map[string]json.RawMessage `json:"configMaps,omitempty"`
	Behaviours  []json.RawMessage          `json:"behaviours,omitempty"`
	Errors      []json.RawMessage          `json:"errors,omitempty"`
	NotImported []json.RawMessage          `json:"notImported,omitempty"`
}

func readChoices(folder string) (map[string]*Choice, error) {
	content, err := os.ReadFile(filepath.Join(folder, "kinds.json"))
	if err != nil {
		return nil, err
	}
	choices := map[string]*Choice{}
	return choices, json.Unmarshal(content, &choices)
}

// addExports adds the ConfigMaps that generated code of the module writes, and fails if a field of
// `operatorSpec.secrets` or `operatorSpec.configMaps` remains without a source.
func (choice *Choice) addExports(versions []*KindVersion) error {
	secrets, configMaps := map[string]bool{}, map[string]bool{}
	for _, version := range versions {
		for _, name := range version.exportFields("Secrets") {
			secrets[name] = true
		}
		for _, name := range version.exportFields("ConfigMaps") {
			configMaps[name] = true
		}
		for name, path := range version.exportedConfigMaps() {
			if choice.ConfigMaps == nil {
				choice.ConfigMaps = map[string]json.RawMessage{}
			}
			choice.ConfigMaps[name] = json.RawMessage(line(map[string]string{"status": path}))
		}
	}
	name := versions[0].Group + "/" + versions[0].Kind
	if missing, extra := compare(secrets, choice.Secrets); missing != "" || extra != "" {
		return fmt.Errorf("%s: secrets without a source: %q; sources without a field: %q", name, missing, extra)
	}
	if missing, extra := compare(configMaps, choice.ConfigMaps); missing != "" || extra != "" {
		return fmt.Errorf("%s: ConfigMaps without a source: %q; sources without a field: %q", name, missing, extra)
	}
	return nil
}

func compare(fields map[string]bool, sources map[string]json.RawMessage) (missing, extra string) {
	var without, unknown []string
	for field := range fields {
		if _, found := sources[field]; !found {
			without = append(without, field)
		}
	}
	for source := range sources {
		if !fields[source] {
			unknown = append(unknown, source)
		}
	}
	slices.Sort(without)
	slices.Sort(unknown)
	return strings.Join(without, " "), strings.Join(unknown, " ")
}

// exportFields returns the JSON names of `operatorSpec.secrets` or `operatorSpec.configMaps`.
func (kind *KindVersion) exportFields(member string) []string {
	spec := kind.Package.structOf(kind.Kind + "_Spec").field("OperatorSpec")
	if spec == nil {
		return nil
	}
	exports := kind.Package.structOf(nameOf(spec.Type)).field(member)
	if exports == nil {
		return nil
	}
	var names []string
	for _, field := range kind.Package.structOf(nameOf(exports.Type)).Fields {
		names = append(names, field.JSON)
	}
	return names
}

// exportedConfigMaps returns the paths in the status of the values that the method
// ExportKubernetesConfigMaps collects, by the field that says where to.
func (kind *KindVersion) exportedConfigMaps() map[string]string {
	method := kind.Package.Methods[kind.Kind]["ExportKubernetesConfigMaps"]
	if method == nil {
		return nil
	}
	spec := kind.Kind + "_Spec"
	paths := map[string]string{}
	ast.Inspect(method.Body, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return true
		}
		if function, ok := call.Fun.(*ast.SelectorExpr); !ok || function.Sel.Name != "AddValue" {
			return true
		}
		to, from := selection(call.Args[0]), selection(call.Args[1])
		field := kind.jsonPath(spec, to[2:])
		paths[field[strings.LastIndex(field, ".")+1:]] = kind.jsonPath(kind.StatusType(), from[2:])
		return true
	})
	return paths
}

// selection returns the names of `a.B.C`, also below a pointer or a conversion.
func selection(expression ast.Expr) []string {
	switch typed := expression.(type) {
	case *ast.StarExpr:
		return selection(typed.X)
	case *ast.ParenExpr:
		return selection(typed.X)
	case *ast.CallExpr:
		return selection(typed.Args[0])
	case *ast.Ident:
		return []string{typed.Name}
	case *ast.SelectorExpr:
		return append(selection(typed.X), typed.Sel.Name)
	}
	return nil
}

// jsonPath returns the JSON names of a path of Go names.
func (kind *KindVersion) jsonPath(root string, names []string) string {
	var path []string
	for _, name := range names {
		field := kind.Package.structOf(root).field(name)
		if field == nil {
			return strings.Join(append(path, "?"+name), ".")
		}
		path = append(path, field.JSON)
		root = nameOf(field.Type)
	}
	return strings.Join(path, ".")
}

// addKnownFields adds to behaviours that copy elements from Azure the fields of these elements that
// can be sent back.
func (choice *Choice) addKnownFields(versions []*KindVersion) error {
	for index, raw := range choice.Behaviours {
		var behaviour struct {
			Do    string         `json:"do"`
			Path  string         `json:"path"`
			Merge string         `json:"merge"`
			Known map[string]any `json:"fields"`
		}
		if err := json.Unmarshal(raw, &behaviour); err != nil {
			return err
		}
		if behaviour.Do != "keepFromAzure" {
			continue
		}
		behaviour.Known = map[string]any{}
		for _, version := range versions {
			element := version.armElement(strings.Split(behaviour.Path, "."))
			if element == "" {
				return fmt.Errorf("%s/%s has no list %s", version.Group, version.Kind, behaviour.Path)
			}
			version.ARM.addFields(element, behaviour.Known)
		}
		choice.Behaviours[index] = json.RawMessage(line(behaviour))
	}
	return nil
}

// armElement returns the type of the elements of a list in the body.
func (kind *KindVersion) armElement(path []string) string {
	name := kind.Kind + "_Spec"
	for _, member := range path {
		declared := kind.ARM.structOf(name)
		if declared == nil {
			return ""
		}
		index := slices.IndexFunc(declared.Fields, func(field Field) bool { return field.JSON == member })
		if index < 0 {
			return ""
		}
		name = elementName(declared.Fields[index].Type)
	}
	return name
}

// elementName returns the name of a local type, without pointers and slices.
func elementName(expression ast.Expr) string {
	if list, ok := unpoint(expression).(*ast.ArrayType); ok {
		return elementName(list.Elt)
	}
	return nameOf(expression)
}

// addFields adds the fields of a struct, each with the fields below it.
func (pkg *Package) addFields(name string, into map[string]any) {
	for _, field := range pkg.structOf(name).Fields {
		below, ok := into[field.JSON].(map[string]any)
		if !ok {
			below = map[string]any{}
			into[field.JSON] = below
		}
		if element := elementName(field.Type); pkg.structOf(element) != nil {
			pkg.addFields(element, below)
		}
	}
}
