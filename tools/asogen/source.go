package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
)

// Package holds the types of one package of the module and the methods of these types.
type Package struct {
	Path    string
	Types   map[string]ast.Expr
	Markers map[string][]string
	Docs    map[string]string
	Methods map[string]map[string]*ast.FuncDecl
	Structs map[string]*Struct
	Group   string
	Version string
}

// Struct is a Go struct with the fields that JSON has.
type Struct struct {
	Name   string
	Fields []Field
}

// Field is a field of a struct.
type Field struct {
	Go        string
	JSON      string
	OmitEmpty bool
	Type      ast.Expr
	Tag       reflect.StructTag
	Markers   []string
	Doc       string
}

// isCollection tells whether the type of a field is a list or a map.
func (field *Field) isCollection() bool {
	switch field.Type.(type) {
	case *ast.ArrayType, *ast.MapType:
		return true
	}
	return false
}

// marker returns the value of a kubebuilder marker, without its prefix.
func marker(markers []string, name string) (string, bool) {
	for _, line := range markers {
		rest, found := strings.CutPrefix(line, "+kubebuilder:"+name)
		if !found {
			continue
		}
		if rest == "" {
			return "", true
		}
		if value, found := strings.CutPrefix(rest, "="); found {
			return value, true
		}
	}
	return "", false
}

func newPackage(path string) *Package {
	return &Package{
		Path:    path,
		Types:   map[string]ast.Expr{},
		Markers: map[string][]string{},
		Docs:    map[string]string{},
		Methods: map[string]map[string]*ast.FuncDecl{},
		Structs: map[string]*Struct{},
	}
}

// readPackage parses the Go files of a folder, without tests.
func readPackage(folder string) (*Package, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	pkg := newPackage(folder)
	files := token.NewFileSet()
	for _, entry := range entries {
		name := entry.Name()
		generatedCopy := strings.HasPrefix(name, "zz_generated")
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || generatedCopy {
			continue
		}
		file, err := parser.ParseFile(files, filepath.Join(folder, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		pkg.add(file)
	}
	return pkg, nil
}

func (pkg *Package) add(file *ast.File) {
	for _, declaration := range file.Decls {
		switch declared := declaration.(type) {
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					doc := spec.Doc
					if doc == nil {
						doc = declared.Doc
					}
					pkg.Types[spec.Name.Name] = spec.Type
					pkg.Markers[spec.Name.Name] = markersOf(doc)
					pkg.Docs[spec.Name.Name] = doc.Text()
				case *ast.ValueSpec:
					pkg.addGroupVersion(spec)
				}
			}
		case *ast.FuncDecl:
			if receiver := receiverOf(declared); receiver != "" {
				if pkg.Methods[receiver] == nil {
					pkg.Methods[receiver] = map[string]*ast.FuncDecl{}
				}
				pkg.Methods[receiver][declared.Name.Name] = declared
			}
		}
	}
}

// addGroupVersion reads group and version from the variable GroupVersion.
func (pkg *Package) addGroupVersion(spec *ast.ValueSpec) {
	if len(spec.Names) != 1 || spec.Names[0].Name != "GroupVersion" || len(spec.Values) != 1 {
		return
	}
	literal, ok := spec.Values[0].(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, ok := pair.Key.(*ast.Ident)
		switch {
		case ok && key.Name == "Group":
			pkg.Group = text(pair.Value)
		case ok && key.Name == "Version":
			pkg.Version = text(pair.Value)
		}
	}
}

func receiverOf(function *ast.FuncDecl) string {
	if function.Recv == nil || len(function.Recv.List) != 1 {
		return ""
	}
	return nameOf(function.Recv.List[0].Type)
}

// nameOf returns the name of a local type, without pointers.
func nameOf(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.StarExpr:
		return nameOf(expression.X)
	case *ast.Ident:
		return expression.Name
	}
	return ""
}

// text returns the value of a string literal.
func text(expression ast.Expr) string {
	literal, ok := expression.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return value
}

func markersOf(groups ...*ast.CommentGroup) []string {
	var markers []string
	for _, group := range groups {
		if group == nil {
			continue
		}
		for _, comment := range group.List {
			line := strings.TrimSpace(strings.TrimPrefix(comment.Text, "//"))
			if strings.HasPrefix(line, "+") {
				markers = append(markers, line)
			}
		}
	}
	return markers
}

// structOf returns the struct of a local type, or nil.
func (pkg *Package) structOf(name string) *Struct {
	if known, found := pkg.Structs[name]; found {
		return known
	}
	declared, ok := pkg.Types[name].(*ast.StructType)
	if !ok {
		if alias, ok := pkg.Types[name].(*ast.Ident); ok {
			return pkg.structOf(alias.Name)
		}
		return nil
	}
	result := &Struct{Name: name}
	pkg.Structs[name] = result
	for _, field := range declared.Fields.List {
		if field.Tag == nil || len(field.Names) == 0 {
			continue
		}
		raw, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			panic(fmt.Sprintf("%s.%s: %v", name, field.Names[0].Name, err))
		}
		tag := reflect.StructTag(raw)
		json, options, _ := strings.Cut(tag.Get("json"), ",")
		if json == "" || json == "-" {
			continue
		}
		result.Fields = append(result.Fields, Field{
			Go:        field.Names[0].Name,
			JSON:      json,
			OmitEmpty: strings.Contains(options, "omitempty"),
			Type:      field.Type,
			Tag:       tag,
			Markers:   markersOf(field.Doc),
			Doc:       field.Doc.Text(),
		})
	}
	return result
}

func (s *Struct) field(name string) *Field {
	if s == nil {
		return nil
	}
	for index := range s.Fields {
		if s.Fields[index].Go == name {
			return &s.Fields[index]
		}
	}
	return nil
}

// literal returns the string that a method without conditions returns.
func (pkg *Package) literal(receiver, method string) string {
	function := pkg.Methods[receiver][method]
	if function == nil || function.Body == nil || len(function.Body.List) != 1 {
		return ""
	}
	returned, ok := function.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(returned.Results) != 1 {
		return ""
	}
	if value := text(returned.Results[0]); value != "" {
		return value
	}
	if selector, ok := returned.Results[0].(*ast.SelectorExpr); ok {
		return selector.Sel.Name
	}
	return ""
}

// selectors returns the names that a method's return value lists, `genruntime.X` as `X`.
func (pkg *Package) selectors(receiver, method string) []string {
	var names []string
	function := pkg.Methods[receiver][method]
	if function == nil {
		return nil
	}
	ast.Inspect(function.Body, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			names = append(names, selector.Sel.Name)
		}
		return true
	})
	return names
}
