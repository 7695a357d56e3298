package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"slices"
	"sort"
	"strings"
)

// Shape is what does not follow from the rules about one object type. See the README.
type Shape struct {
	Status bool
	Beside []string
	Under  map[string][]string
	OneOf  *OneOf
	Nulls  []string
	Fields map[string]Rule
}

// OneOf is a union: the object has one of several members.
type OneOf struct {
	By       string            `json:"by,omitempty"`
	Variants map[string]string `json:"variants"`
}

// Rule is the rule of a field: a text, or a shape, or both for maps of objects.
type Rule struct {
	Text  string
	Shape *Shape
}

// topLevel are the fields that stand beside `properties` unless a shape says otherwise.
var topLevel = map[string]bool{}

func init() {
	names := "location tags identity sku extendedLocation zones kind plan etag placement " +
		"additionalProperties managedBy name id type systemData"
	for _, name := range strings.Fields(names) {
		topLevel[name] = true
	}
}

// Walker compares types of custom resources with types of ARM.
type Walker struct {
	crd, arm *Package
	status   bool
	done     map[string]*Shape
	kind     string
	// Problems are fields without a counterpart in ARM.
	problems []string
	counts   map[string]int
}

func (walker *Walker) problem(format string, arguments ...any) {
	walker.problems = append(walker.problems, walker.kind+": "+fmt.Sprintf(format, arguments...))
}

// place is where a field of a custom resource stands in ARM.
type place struct {
	under string
	field *Field
}

// Members finds fields in an ARM type, and in members of it that were flattened into the custom
// resource.
type Members struct {
	walker    *Walker
	arm       *Struct
	flattened []*Field
	root      bool
}

func (walker *Walker) members(crd, arm *Struct, root bool) *Members {
	members := &Members{walker: walker, arm: arm, root: root}
	for index := range arm.Fields {
		if walker.flattened(crd, &arm.Fields[index]) {
			members.flattened = append(members.flattened, &arm.Fields[index])
		}
	}
	return members
}

// find returns the place of a field by its Go name.
func (members *Members) find(name string) *place {
	below := members.within(name)
	isFlattened := slices.ContainsFunc(members.flattened, func(member *Field) bool { return member.Go == name })
	// The name of the resource itself is not a field of the custom resource.
	own := members.root && !members.walker.status && name == "Name"
	if field := members.arm.field(name); field != nil && !(below != nil && (isFlattened || own)) {
		return &place{field: field}
	}
	return below
}

func (members *Members) within(name string) *place {
	for _, member := range members.flattened {
		if field := members.walker.arm.structOf(nameOf(member.Type)).field(name); field != nil {
			return &place{under: member.JSON, field: field}
		}
	}
	return nil
}

// renamed returns the place of a field that has another name in the custom resource, because its
// own would collide with a field of the resource itself.
func (members *Members) renamed(name string) *place {
	for _, prefix := range []string{"Properties", "Rule"} {
		if original, cut := strings.CutPrefix(name, prefix); cut {
			return members.within(original)
		}
	}
	return nil
}

// flattened tells whether the fields of a member of ARM stand directly in the custom resource.
func (walker *Walker) flattened(crd *Struct, member *Field) bool {
	within := walker.arm.structOf(nameOf(member.Type))
	same := crd.field(member.Go)
	if within == nil || same == nil {
		return within != nil
	}
	inner := within.field(member.Go)
	return inner != nil && nameOf(inner.Type) == nameOf(same.Type) && nameOf(member.Type) != nameOf(same.Type)
}

// shape returns the shape of a struct of the custom resource and its ARM form.
func (walker *Walker) shape(crdName, armName string, root bool) *Shape {
	key := crdName + " " + armName
	if known, found := walker.done[key]; found {
		return known
	}
	shape := &Shape{Status: walker.status, Under: map[string][]string{}, Fields: map[string]Rule{}}
	walker.done[key] = shape
	crd, arm := walker.crd.structOf(crdName), walker.arm.structOf(armName)
	if crd == nil || arm == nil {
		walker.problem("%s or %s is not a struct", crdName, armName)
		return shape
	}
	shape.OneOf = walker.oneOf(crd, armName)
	members := walker.members(crd, arm, root)
	for index := range crd.Fields {
		walker.field(shape, crdName, &crd.Fields[index], members)
	}
	if len(shape.Under) > 0 && !root {
		walker.counts["flattened"]++
	}
	return shape
}

// ownFields are the fields of a root that are not those of ARM.
var ownFields = map[string]bool{
	"AzureName": true, "AzureNameFromConfig": true, "Owner": true, "OperatorSpec": true, "Conditions": true,
}

// field adds the rule and the place of one field.
func (walker *Walker) field(shape *Shape, crdName string, field *Field, members *Members) {
	if members.root && ownFields[field.Go] {
		return
	}
	target, rule := walker.target(field)
	found := members.find(target)
	if found == nil {
		found = members.renamed(target)
		rule = "as"
	}
	if found == nil {
		walker.problem("%s.%s (%s) is not in ARM", crdName, field.Go, target)
		shape.Fields[field.JSON] = Rule{Text: "none"}
		return
	}
	if shape.OneOf == nil {
		walker.place(shape, field, found, members.root)
	}
	if !walker.status && found.field.isCollection() && !found.field.OmitEmpty && field.Tag.Get("serializationType") == "" {
		walker.counts["null"]++
		shape.Nulls = append(shape.Nulls, field.JSON)
	}
	if rule == "" && field.JSON != found.field.JSON {
		walker.problem("%s.%s is %s in ARM", crdName, field.JSON, found.field.JSON)
	}
	if rule != "" {
		walker.counts[rule]++
		rule += " " + found.field.JSON
	}
	if rule == "" || strings.HasPrefix(rule, "as ") {
		below := walker.value(field, found.field)
		if rule != "" {
			below.Text = rule
		}
		if below.Text == "" && below.Shape == nil {
			return
		}
		shape.Fields[field.JSON] = below
		return
	}
	shape.Fields[field.JSON] = Rule{Text: rule}
}

// value returns the rule of a field's value.
func (walker *Walker) value(field, arm *Field) Rule {
	below := walker.below(field.Type, arm.Type)
	_, isMap := unpoint(field.Type).(*ast.MapType)
	switch {
	case field.Tag.Get("serializationType") == "explicitEmptyCollection" && isMap:
		return Rule{Text: "keepEmpty map"}
	case field.Tag.Get("serializationType") == "explicitEmptyCollection":
		return Rule{Text: "keepEmpty list"}
	case field.JSON == "tags" && below.Text == "map" && below.Shape == nil:
		return Rule{}
	}
	return below
}

func (walker *Walker) place(shape *Shape, field *Field, found *place, root bool) {
	expected := ""
	if root && !topLevel[field.JSON] {
		expected = "properties"
	}
	switch {
	case found.under == expected:
	case found.under == "":
		shape.Beside = append(shape.Beside, field.JSON)
	default:
		shape.Under[found.under] = append(shape.Under[found.under], field.JSON)
	}
}

// target returns the Go name of the field in ARM, and the rule if the value has to be looked up.
func (walker *Walker) target(field *Field) (string, string) {
	name := typeName(field.Type)
	if reference := field.Tag.Get("armReference"); reference != "" {
		if name == "genruntime.WellKnownResourceReference" {
			return reference, "wellKnown"
		}
		return reference, "reference"
	}
	switch name {
	case "genruntime.ConfigMapReference":
		if pair := field.Tag.Get("optionalConfigMapPair"); pair != "" {
			return pair, "config"
		}
		return field.Go, "config"
	case "genruntime.SecretReference":
		if pair := field.Tag.Get("optionalSecretPair"); pair != "" {
			return pair, "secret"
		}
		return field.Go, "secret"
	case "genruntime.SecretMapReference":
		return field.Go, "secretMap"
	case "genruntime.SecretCollectionReference":
		return field.Go, "secretCollection"
	}
	return field.Go, ""
}

// below returns the rule of a field's value.
func (walker *Walker) below(crd, arm ast.Expr) Rule {
	crd, arm = unpoint(crd), unpoint(arm)
	switch typed := crd.(type) {
	case *ast.ArrayType:
		if _, ok := arm.(*ast.MapType); ok {
			walker.counts["identities"]++
			return Rule{Text: "identities"}
		}
		if other, ok := arm.(*ast.ArrayType); ok {
			return walker.below(typed.Elt, other.Elt)
		}
	case *ast.MapType:
		other, ok := arm.(*ast.MapType)
		if !ok {
			break
		}
		within := walker.below(typed.Value, other.Value)
		if within.Text == "json" || walker.status && within.Shape == nil {
			return Rule{Text: within.Text}
		}
		if within.Text == "map" {
			return Rule{Text: "map"}
		}
		return Rule{Text: "map", Shape: within.Shape}
	case *ast.SelectorExpr:
		if typeName(crd) == "v1.JSON" {
			if walker.status {
				return Rule{}
			}
			return Rule{Text: "json"}
		}
		walker.problem("type %s", typeName(crd))
	case *ast.Ident:
		if walker.crd.structOf(typed.Name) != nil {
			return Rule{Shape: walker.shape(typed.Name, nameOf(arm), false)}
		}
		if alias, found := walker.crd.Types[typed.Name]; found {
			if other, found := walker.arm.Types[nameOf(arm)]; found {
				return walker.below(alias, other)
			}
			if _, ok := alias.(*ast.Ident); !ok {
				return walker.below(alias, arm)
			}
		}
		return Rule{}
	}
	walker.problem("types differ: %T %T", crd, arm)
	return Rule{}
}

func unpoint(expression ast.Expr) ast.Expr {
	if pointer, ok := expression.(*ast.StarExpr); ok {
		return unpoint(pointer.X)
	}
	return expression
}

// typeName returns `package.Name` of an imported type, without pointers and slices.
func typeName(expression ast.Expr) string {
	switch typed := unpoint(expression).(type) {
	case *ast.ArrayType:
		return typeName(typed.Elt)
	case *ast.SelectorExpr:
		return nameOf(typed.X) + "." + typed.Sel.Name
	}
	return ""
}

// oneOf returns the union that an ARM type is, by the members that its UnmarshalJSON chooses from.
func (walker *Walker) oneOf(crd *Struct, armName string) *OneOf {
	decode := walker.arm.Methods[armName]["UnmarshalJSON"]
	if decode == nil {
		return nil
	}
	union := &OneOf{Variants: map[string]string{}}
	ast.Inspect(decode.Body, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IndexExpr:
			union.By = text(node.Index)
		case *ast.IfStmt:
			comparison, ok := node.Cond.(*ast.BinaryExpr)
			if !ok || text(comparison.Y) == "" {
				return true
			}
			assignment, ok := node.Body.List[0].(*ast.AssignStmt)
			if !ok {
				return true
			}
			if member, ok := assignment.Lhs[0].(*ast.SelectorExpr); ok {
				if field := crd.field(member.Sel.Name); field != nil {
					union.Variants[field.JSON] = text(comparison.Y)
				}
			}
		}
		return true
	})
	walker.counts["oneOf"]++
	if union.By == "" || len(union.Variants) == 0 {
		walker.problem("union %s has no discriminator", armName)
	}
	return union
}

// Pool numbers shapes, equal ones once.
type Pool struct {
	lines []string
	index map[*Shape]int
}

// newPool numbers all shapes that are reachable from roots and say something.
func newPool(roots []*Shape) *Pool {
	all := reachable(roots)
	meaningful := meaningful(all)
	classes := map[*Shape]int{}
	count := 0
	for {
		names := map[string]int{}
		next := map[*Shape]int{}
		for _, shape := range all {
			if !meaningful[shape] {
				continue
			}
			content := shape.encode(meaningful, classes)
			if _, found := names[content]; !found {
				names[content] = len(names)
			}
			next[shape] = names[content]
		}
		classes = next
		if len(names) == count {
			break
		}
		count = len(names)
	}
	pool := &Pool{index: classes, lines: make([]string, count)}
	for shape, class := range classes {
		pool.lines[class] = shape.encode(meaningful, classes)
	}
	return pool
}

func reachable(roots []*Shape) []*Shape {
	var all []*Shape
	seen := map[*Shape]bool{}
	var visit func(shape *Shape)
	visit = func(shape *Shape) {
		if shape == nil || seen[shape] {
			return
		}
		seen[shape] = true
		for _, name := range sortedKeys(shape.Fields) {
			visit(shape.Fields[name].Shape)
		}
		all = append(all, shape)
	}
	for _, root := range roots {
		visit(root)
	}
	return all
}

// meaningful returns the shapes that have a rule, or a shape below that has one.
func meaningful(all []*Shape) map[*Shape]bool {
	result := map[*Shape]bool{}
	for changed := true; changed; {
		changed = false
		for _, shape := range all {
			if result[shape] {
				continue
			}
			says := len(shape.Beside) > 0 || len(shape.Under) > 0 || len(shape.Nulls) > 0 || shape.OneOf != nil
			for _, rule := range shape.Fields {
				says = says || shape.says(rule) || result[rule.Shape]
			}
			if says {
				result[shape] = true
				changed = true
			}
		}
	}
	return result
}

// says tells whether a rule means something without the shape below it. Maps in a status are only
// named for the sake of that shape.
func (shape *Shape) says(rule Rule) bool {
	return rule.Text != "" && !(shape.Status && rule.Text == "map")
}

func (shape *Shape) encode(meaningful map[*Shape]bool, classes map[*Shape]int) string {
	fields := map[string]any{}
	for name, rule := range shape.Fields {
		switch {
		case rule.Shape == nil:
			fields[name] = rule.Text
		case !meaningful[rule.Shape] && shape.says(rule):
			fields[name] = rule.Text
		case !meaningful[rule.Shape]:
		case rule.Text != "":
			fields[name] = fmt.Sprintf("%s %d", rule.Text, classes[rule.Shape])
		default:
			fields[name] = classes[rule.Shape]
		}
	}
	sort.Strings(shape.Beside)
	sort.Strings(shape.Nulls)
	for _, names := range shape.Under {
		sort.Strings(names)
	}
	return line(struct {
		Beside []string            `json:"beside,omitempty"`
		Under  map[string][]string `json:"under,omitempty"`
		OneOf  *OneOf              `json:"oneOf,omitempty"`
		Nulls  []string            `json:"nulls,omitempty"`
		Fields map[string]any      `json:"fields,omitempty"`
	}{shape.Beside, shape.Under, shape.OneOf, shape.Nulls, fields})
}

// line returns a value as JSON in one line.
func line(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func sortedKeys[V any](values map[string]V) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
