package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery"
)

// additions are what Insula adds to the facts of Kubernetes, read from the choices folder.
type additions struct {
	types []typeEntry
	// fields are those added to types of Kubernetes.
	fields []addedField
	kinds  []kind
	// overrides replace what Kubernetes says about one of its kinds.
	overrides []override
	// systemOnly are the resources that exist in the system space only.
	systemOnly map[schema.GroupResource]bool
}

// An override is a fact about a kind that Insula states otherwise.
type override struct {
	Group       string      `json:"group"`
	Resource    string      `json:"resource"`
	Why         string      `json:"why"`
	ResetFields resetFields `json:"resetFields"`
}

// An addedField is a line that follows the field `after` of a type.
type addedField struct{ in, after, line string }

func readAdditions(folder string) (additions, error) {
	var result additions
	if err := result.readTypes(filepath.Join(folder, "types.txt")); err != nil {
		return result, err
	}
	if err := result.readSystemOnly(filepath.Join(folder, "system-only.txt")); err != nil {
		return result, err
	}
	if err := readJSON(filepath.Join(folder, "kinds.json"), &result.kinds); err != nil {
		return result, err
	}
	if err := readJSON(filepath.Join(folder, "overrides.json"), &result.overrides); err != nil {
		return result, err
	}
	for i := range result.kinds {
		kind := &result.kinds[i]
		kind.hash = discovery.StorageVersionHash(kind.Group, kind.Version, kind.Kind)
		kind.SystemOnly = result.systemOnly[schema.GroupResource{Group: kind.Group, Resource: kind.Resource}]
	}
	return result, nil
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// override applies what Insula states otherwise about a kind of Kubernetes.
func (a *additions) override(kind *kind) {
	for _, override := range a.overrides {
		if override.Group == kind.Group && override.Resource == kind.Resource {
			maps.Copy(kind.ResetFields, override.ResetFields)
		}
	}
}

// readTypes reads types in the form of the table. The fields below a line `TYPE after FIELD`
// are added to a type of Kubernetes.
func (a *additions) readTypes(path string) error {
	lines, err := readLines(path)
	if err != nil {
		return err
	}
	var in, after string
	for _, line := range lines {
		field, isField := strings.CutPrefix(line, " ")
		switch {
		case !isField:
			in, after, _ = strings.Cut(line, " after ")
			if after == "" {
				a.types = append(a.types, typeEntry{name: in})
			}
		case after != "":
			a.fields = append(a.fields, addedField{in, after, field})
		case len(a.types) > 0:
			last := &a.types[len(a.types)-1]
			last.fields = append(last.fields, field)
		default:
			return fmt.Errorf("%s: %q belongs to no type", path, line)
		}
	}
	return nil
}

func (a *additions) readSystemOnly(path string) error {
	lines, err := readLines(path)
	if err != nil {
		return err
	}
	a.systemOnly = map[schema.GroupResource]bool{}
	for _, line := range lines {
		a.systemOnly[schema.ParseGroupResource(line)] = true
	}
	return nil
}

// readLines returns the lines of a file that are neither empty nor comments.
func readLines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(text), "\n")
	return slices.DeleteFunc(lines, func(line string) bool {
		return line == "" || strings.HasPrefix(line, "#")
	}), nil
}

// extend adds Insula's fields to a type of Kubernetes.
func (a *additions) extend(entry *typeEntry) error {
	for _, added := range a.fields {
		if added.in != entry.name {
			continue
		}
		at := slices.IndexFunc(entry.fields, func(line string) bool {
			return strings.HasPrefix(line, added.after+" ")
		})
		if at < 0 {
			return fmt.Errorf("%s has no field %s", entry.name, added.after)
		}
		entry.fields = slices.Insert(entry.fields, at+1, added.line)
	}
	return nil
}
