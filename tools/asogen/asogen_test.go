package main

import (
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// source returns the package of a text.
func source(t *testing.T, text string) *Package {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	pkg := newPackage("x")
	pkg.add(file)
	return pkg
}

func walk(t *testing.T, crd, arm string) (*Shape, *Pool) {
	t.Helper()
	walker := &Walker{crd: source(t, crd), arm: source(t, arm), done: map[string]*Shape{}, counts: map[string]int{}}
	shape := walker.shape("Thing_Spec", "Thing_Spec", true)
	if len(walker.problems) > 0 {
		t.Fatal(walker.problems)
	}
	return shape, newPool([]*Shape{shape})
}

func TestAPIVersionsFollowFromNames(t *testing.T) {
	for name, expected := range map[string]string{
		"v20230101":            "2023-01-01",
		"v1api20230101preview": "2023-01-01-preview",
		"v1":                   "",
	} {
		if api := apiVersion(name); api != expected {
			t.Errorf("%s: %q", name, api)
		}
	}
}

const crd = `
type Thing_Spec struct {
	AzureName string ` + "`json:\"azureName,omitempty\"`" + `
	Location *string ` + "`json:\"location,omitempty\"`" + `
	Sku *string ` + "`json:\"sku,omitempty\"`" + `
	Size *int ` + "`json:\"size,omitempty\"`" + `
	DiskReference *genruntime.ResourceReference ` + "`armReference:\"DiskId\" json:\"diskReference,omitempty\"`" + `
	Parts []Part ` + "`json:\"parts,omitempty\"`" + `
	Plain *Plain ` + "`json:\"plain,omitempty\"`" + `
	Self *Self ` + "`json:\"self,omitempty\"`" + `
}
type Part struct {
	Name *string ` + "`json:\"name,omitempty\"`" + `
	Port *int ` + "`json:\"port,omitempty\"`" + `
}
type Plain struct {
	Text *string ` + "`json:\"text,omitempty\"`" + `
}
type Self struct {
	Self *Self ` + "`json:\"self,omitempty\"`" + `
}
`

const arm = `
type Thing_Spec struct {
	Name string ` + "`json:\"name,omitempty\"`" + `
	Location *string ` + "`json:\"location,omitempty\"`" + `
	Properties *ThingProperties ` + "`json:\"properties,omitempty\"`" + `
}
type ThingProperties struct {
	Sku *string ` + "`json:\"sku,omitempty\"`" + `
	Size *int ` + "`json:\"size,omitempty\"`" + `
	DiskId *string ` + "`json:\"diskId,omitempty\"`" + `
	Parts []Part ` + "`json:\"parts\"`" + `
	Plain *Plain ` + "`json:\"plain,omitempty\"`" + `
	Self *Self ` + "`json:\"self,omitempty\"`" + `
}
type Part struct {
	Name *string ` + "`json:\"name,omitempty\"`" + `
	Properties *PartProperties ` + "`json:\"properties,omitempty\"`" + `
}
type PartProperties struct {
	Port *int ` + "`json:\"port,omitempty\"`" + `
}
type Plain struct {
	Text *string ` + "`json:\"text,omitempty\"`" + `
}
type Self struct {
	Self *Self ` + "`json:\"self,omitempty\"`" + `
}
`

func TestShapesHaveWhatFollowsFromNoRule(t *testing.T) {
	shape, pool := walk(t, crd, arm)
	expected := []string{
		`{"under":{"properties":["port"]}}`,
		`{"under":{"properties":["sku"]},"nulls":["parts"],"fields":{"diskReference":"reference diskId","parts":0}}`,
	}
	if !slices.Equal(pool.lines, expected) {
		t.Error(pool.lines)
	}
	if number := pool.number(shape); number == nil || *number != 1 {
		t.Error(number)
	}
}

func TestFieldsWithoutARuleAreReported(t *testing.T) {
	walker := &Walker{
		crd:    source(t, "type Thing_Spec struct {\nOdd *string `json:\"odd\"`\n}"),
		arm:    source(t, "type Thing_Spec struct {\nName string `json:\"name\"`\n}"),
		done:   map[string]*Shape{},
		counts: map[string]int{},
	}
	walker.shape("Thing_Spec", "Thing_Spec", true)
	if len(walker.problems) != 1 {
		t.Error(walker.problems)
	}
}

func TestMarkersBecomeLimits(t *testing.T) {
	pkg := source(t, `
// +kubebuilder:validation:Enum={"A","B"}
type Letter string
type Thing_Spec struct {
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Maximum=9
	Count *int `+"`json:\"count,omitempty\"`"+`
	// +kubebuilder:validation:Pattern="^a\\d$"
	Text *string `+"`json:\"text,omitempty\"`"+`
	Letters []Letter `+"`json:\"letters,omitempty\"`"+`
	Owner *genruntime.KnownResourceReference `+"`json:\"owner,omitempty\"`"+`
}`)
	schemas := &Schemas{numbers: map[string]int{}}
	builder := &Builder{pkg: pkg, schemas: schemas}
	if _, err := builder.object("Thing_Spec"); err != nil {
		t.Fatal(err)
	}
	expected := `{"required":["count"],"fields":{"count":{"maximum":9,"type":"integer"},` +
		`"letters":{"list":{"enum":["A","B"],"type":"string"}},"owner":"owner",` +
		`"text":{"pattern":"^a\\d$","type":"string"}}}`
	if schemas.lines[0] != expected {
		t.Error(schemas.lines[0])
	}
}

func TestTypesOfIDs(t *testing.T) {
	for id, expected := range map[string]string{
		"/subscriptions/s/resourceGroups/g":                                          "Microsoft.Resources/resourceGroups",
		"/subscriptions/s/resourceGroups/g/providers/P/a/x/b/y":                      "P/a/b",
		"/subscriptions/s/resourceGroups/g/providers/P/a/x/providers/Q/extensions/y": "Q/extensions",
	} {
		if armType := armTypeOf(id); armType != expected {
			t.Errorf("%s: %q", id, armType)
		}
	}
}
