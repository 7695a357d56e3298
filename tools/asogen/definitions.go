package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Definition is a definition of a kind that Insula ships. See the README.
type Definition struct {
	Group      string              `json:"group"`
	Kind       string              `json:"kind"`
	Plural     string              `json:"plural"`
	Categories []string            `json:"categories"`
	Storage    string              `json:"storage"`
	Versions   []DefinitionVersion `json:"versions"`
}

// DefinitionVersion is a version of a definition, with the numbers of its schemas.
type DefinitionVersion struct {
	Name   string `json:"name"`
	Spec   int    `json:"spec"`
	Status int    `json:"status"`
}

// Schemas numbers the schemas of object types, equal ones once.
type Schemas struct {
	lines   []string
	numbers map[string]int
}

// writeDefinitions writes the definitions of the chosen kinds.
func (table *Table) writeDefinitions(path string, chosen []string, plurals map[string]string) error {
	schemas := &Schemas{numbers: map[string]int{}}
	var lines []string
	for _, versions := range table.versions {
		name := versions[0].Group + "/" + versions[0].Kind
		index := slices.Index(chosen, name)
		if index < 0 {
			continue
		}
		chosen = slices.Delete(chosen, index, index+1)
		definition, err := schemas.define(versions)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		definition.Plural = plurals[name]
		lines = append(lines, line(definition))
	}
	if len(chosen) > 0 {
		return fmt.Errorf("definitions of kinds that are not there: %v", chosen)
	}
	content := fmt.Sprintf("{\"schemas\":[\n%s\n],\n\"definitions\":[\n%s\n]}\n",
		strings.Join(schemas.lines, ",\n"), strings.Join(lines, ",\n"))
	if !json.Valid([]byte(content)) {
		return fmt.Errorf("the definitions are not JSON")
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

func readChosen(folder string) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(folder, "definitions.txt"))
	return strings.Fields(string(content)), err
}

// define returns the definition of a kind: of its newest stable version and of the one before it,
// with their twins.
func (schemas *Schemas) define(versions []*KindVersion) (*Definition, error) {
	last := versions[len(versions)-1]
	definition := &Definition{Group: last.Group, Kind: last.Kind}
	categories, _ := marker(last.Package.Markers[last.Kind], "resource:categories")
	definition.Categories = strings.Split(strings.Trim(categories, "{}"), ",")
	dates := chosenDates(versions)
	for _, version := range slices.Backward(versions) {
		if version.Storage {
			definition.Storage = version.Version + "storage"
		}
		if !slices.Contains(dates, version.API) {
			continue
		}
		builder := &Builder{pkg: version.Package, schemas: schemas}
		spec, err := builder.object(version.Kind + "_Spec")
		if err != nil {
			return nil, err
		}
		status, err := builder.object(version.StatusType())
		if err != nil {
			return nil, err
		}
		definition.Versions = append(definition.Versions, DefinitionVersion{version.Version, spec, status})
	}
	return definition, nil
}

// chosenDates returns the newest stable api-version, and the newest of those before it, which is a
// preview only if there is no other.
func chosenDates(versions []*KindVersion) []string {
	var stable, previews []string
	for _, version := range slices.Backward(versions) {
		if strings.HasSuffix(version.API, "-preview") {
			previews = append(previews, version.API)
		} else if !slices.Contains(stable, version.API) {
			stable = append(stable, version.API)
		}
	}
	dates := stable[:min(2, len(stable))]
	if len(dates) == 1 && len(previews) > 0 && previews[0] < dates[0] {
		dates = append(dates, previews[0])
	}
	return dates
}

// Builder makes schemas of the types of a package.
type Builder struct {
	pkg     *Package
	schemas *Schemas
}

// imported are the names of schemas that Insula writes itself, by the types of the module.
var imported = map[string]string{
	"conditions.Condition":                  "condition",
	"core.DestinationExpression":            "expression",
	"genruntime.ArbitraryOwnerReference":    "reference",
	"genruntime.ConfigMapDestination":       "destination",
	"genruntime.ConfigMapReference":         "key",
	"genruntime.KnownResourceReference":     "owner",
	"genruntime.ResourceReference":          "reference",
	"genruntime.SecretDestination":          "destination",
	"genruntime.SecretMapReference":         "name",
	"genruntime.SecretReference":            "key",
	"genruntime.WellKnownResourceReference": "wellKnown",
	"v1.JSON":                               "json",
}

// object returns the number of the schema of a struct.
func (builder *Builder) object(name string) (int, error) {
	declared := builder.pkg.structOf(name)
	if declared == nil {
		return 0, fmt.Errorf("%s is not a struct", name)
	}
	fields := map[string]any{}
	var required []string
	for index := range declared.Fields {
		field := &declared.Fields[index]
		schema, err := builder.schema(field.Type)
		if err != nil {
			return 0, fmt.Errorf("%s.%s: %w", name, field.Go, err)
		}
		if schema, err = constrain(schema, field.Markers); err != nil {
			return 0, fmt.Errorf("%s.%s: %w", name, field.Go, err)
		}
		fields[field.JSON] = schema
		if _, found := marker(field.Markers, "validation:Required"); found {
			required = append(required, field.JSON)
		}
	}
	slices.Sort(required)
	return builder.schemas.number(line(struct {
		Required []string       `json:"required,omitempty"`
		Fields   map[string]any `json:"fields"`
	}{required, fields})), nil
}

func (schemas *Schemas) number(content string) int {
	if number, found := schemas.numbers[content]; found {
		return number
	}
	schemas.numbers[content] = len(schemas.lines)
	schemas.lines = append(schemas.lines, content)
	return len(schemas.lines) - 1
}

// schema returns the schema of a type: a number, the name of a schema, or an object with `type`,
// `list` or `map`.
func (builder *Builder) schema(expression ast.Expr) (any, error) {
	switch typed := unpoint(expression).(type) {
	case *ast.ArrayType:
		element, err := builder.schema(typed.Elt)
		return map[string]any{"list": element}, err
	case *ast.MapType:
		value, err := builder.schema(typed.Value)
		return map[string]any{"map": value}, err
	case *ast.SelectorExpr:
		if name, found := imported[typeName(typed)]; found {
			return name, nil
		}
		return nil, fmt.Errorf("type %s is not known", typeName(typed))
	case *ast.Ident:
		return builder.named(typed.Name)
	}
	return nil, fmt.Errorf("%T is not a type of a field", expression)
}

func (builder *Builder) named(name string) (any, error) {
	switch name {
	case "string":
		return "string", nil
	case "bool":
		return "boolean", nil
	case "int", "uint32":
		return "integer", nil
	case "float64":
		return "number", nil
	}
	if builder.pkg.structOf(name) != nil {
		return builder.object(name)
	}
	schema, err := builder.schema(builder.pkg.Types[name])
	if err != nil {
		return nil, err
	}
	return constrain(schema, builder.pkg.Markers[name])
}

// constrain adds the limits that kubebuilder's markers have to a schema.
func constrain(schema any, markers []string) (any, error) {
	limits := map[string]any{}
	for _, name := range []string{"MaxItems", "MaxLength", "Maximum", "MinItems", "MinLength", "Minimum", "MultipleOf"} {
		if value, found := marker(markers, "validation:"+name); found {
			limits[strings.ToLower(name[:1])+name[1:]] = json.Number(value)
		}
	}
	if value, found := marker(markers, "validation:Pattern"); found {
		pattern, err := strconv.Unquote(value)
		if err != nil {
			return nil, fmt.Errorf("pattern %s: %w", value, err)
		}
		limits["pattern"] = pattern
	}
	if value, found := marker(markers, "validation:Enum"); found {
		values := []any{}
		if err := json.Unmarshal([]byte("["+strings.Trim(value, "{}")+"]"), &values); err != nil {
			return nil, fmt.Errorf("enum %s: %w", value, err)
		}
		limits["enum"] = values
	}
	if len(limits) == 0 {
		return schema, nil
	}
	switch schema := schema.(type) {
	case string:
		limits["type"] = schema
	case map[string]any:
		for key, value := range schema {
			limits[key] = value
		}
	default:
		return nil, fmt.Errorf("limits of an object: %v", limits)
	}
	return limits, nil
}
