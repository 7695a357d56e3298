package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// priorities order groups and their versions in discovery.
type priorities map[schema.GroupVersion]priority

type priority struct{ group, version int }

func (p priorities) of(kind kind) priority {
	found := p[schema.GroupVersion{Group: kind.Group, Version: kind.Version}]
	switch kind.Group {
	case "": // served at /api, which comes before all of /apis
		found.group = 1 << 30
	case "apiregistration.k8s.io": // served by the aggregator itself, before what it aggregates
		found.group = 1 << 29
	}
	return found
}

// groupPriorities are those that kube-apiserver registers its groups with. Most stand in an
// unexported variable: a map from {Group, Version} to {Group, Version}, read from its source.
func groupPriorities(source string) (priorities, error) {
	result := priorities{}
	for gv, of := range controlplaneapiserver.DefaultGenericAPIServicePriorities() {
		result[gv] = priority{int(of.Group), int(of.Version)}
	}
	path := filepath.Join(source, "cmd/kube-apiserver/app/aggregator.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	before := len(result)
	ast.Inspect(file, func(node ast.Node) bool {
		entry, ok := node.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, value := members(entry.Key), members(entry.Value)
		if len(key) != 2 || len(value) != 2 {
			return true
		}
		group, _ := strconv.Atoi(value["Group"])
		version, _ := strconv.Atoi(value["Version"])
		result[schema.GroupVersion{Group: unquoted(key["Group"]), Version: unquoted(key["Version"])}] = priority{group, version}
		return false
	})
	if len(result) == before {
		return nil, fmt.Errorf("%s: no priorities found", path)
	}
	return result, nil
}

// members are the literals of a composite literal by the names of their fields.
func members(expression ast.Expr) map[string]string {
	composite, ok := expression.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	found := map[string]string{}
	for _, element := range composite.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			return nil
		}
		name, isName := pair.Key.(*ast.Ident)
		literal, isLiteral := pair.Value.(*ast.BasicLit)
		if !isName || !isLiteral {
			return nil
		}
		found[name.Name] = literal.Value
	}
	return found
}

func unquoted(literal string) string {
	text, err := strconv.Unquote(literal)
	if err != nil {
		return literal
	}
	return text
}

// selectorCandidates are all strings in the files that convert objects between versions.
// Among them are the labels that a field selector may name and that are no field of the
// object, such as those of older versions. The scheme tells which.
func selectorCandidates(source string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(source, "pkg/apis/*/*/conversion.go"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s: no conversions found", source)
	}
	found := map[string]bool{"metadata.name": true, "metadata.namespace": true}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				found[unquoted(literal.Value)] = true
			}
			return true
		})
	}
	return slices.Collect(maps.Keys(found)), nil
}
