package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// Entry is a kind in the table. See the README.
type Entry struct {
	Group     string         `json:"group"`
	Kind      string         `json:"kind"`
	Plural    string         `json:"plural"`
	ARM       string         `json:"arm"`
	Owner     string         `json:"owner,omitempty"`
	Scope     string         `json:"scope,omitempty"`
	AzureName string         `json:"azureName,omitempty"`
	NoDelete  bool           `json:"noDelete,omitempty"`
	Head      bool           `json:"head,omitempty"`
	Storage   string         `json:"storage"`
	Versions  []EntryVersion `json:"versions"`
	*Choice
}

// EntryVersion is a version of a kind in the table.
type EntryVersion struct {
	Name   string   `json:"name"`
	Also   []string `json:"also,omitempty"`
	API    string   `json:"api,omitempty"`
	Spec   *int     `json:"spec,omitempty"`
	Status *int     `json:"status,omitempty"`
}

// Table collects kinds and shapes.
type Table struct {
	versions [][]*KindVersion
	spec     map[*KindVersion]*Shape
	status   map[*KindVersion]*Shape
	problems []string
	counts   map[string]int
}

func newTable(kinds []*KindVersion) *Table {
	table := &Table{
		spec:   map[*KindVersion]*Shape{},
		status: map[*KindVersion]*Shape{},
		counts: map[string]int{},
	}
	for index, kind := range kinds {
		if index == 0 || kinds[index-1].Group != kind.Group || kinds[index-1].Kind != kind.Kind {
			table.versions = append(table.versions, nil)
		}
		last := len(table.versions) - 1
		table.versions[last] = append(table.versions[last], kind)
		table.spec[kind] = table.walk(kind, kind.Kind+"_Spec", false)
		table.status[kind] = table.walk(kind, kind.StatusType(), true)
	}
	return table
}

func (table *Table) walk(kind *KindVersion, name string, status bool) *Shape {
	walker := &Walker{
		crd:    kind.Package,
		arm:    kind.ARM,
		status: status,
		kind:   kind.Group + "/" + kind.Version + " " + kind.Kind,
		done:   map[string]*Shape{},
		counts: table.counts,
	}
	shape := walker.shape(name, name, true)
	table.problems = append(table.problems, walker.problems...)
	return shape
}

// write writes the table into a file.
func (table *Table) write(path, source string, plurals map[string]string, choices map[string]*Choice) error {
	var roots []*Shape
	for _, versions := range table.versions {
		for _, version := range versions {
			roots = append(roots, table.spec[version], table.status[version])
		}
	}
	pool := newPool(roots)
	var lines []string
	var failures []error
	for _, versions := range table.versions {
		name := versions[0].Group + "/" + versions[0].Kind
		entry, err := table.entry(versions, pool)
		if err != nil {
			return err
		}
		entry.Plural = plurals[name]
		entry.Choice = choices[name]
		delete(choices, name)
		if entry.Choice == nil {
			entry.Choice = &Choice{}
		}
		failures = append(failures, entry.Choice.addExports(versions), entry.Choice.addKnownFields(versions))
		if entry.Plural == "" {
			return fmt.Errorf("%s has no plural", name)
		}
		lines = append(lines, line(entry))
	}
	if len(choices) > 0 {
		failures = append(failures, fmt.Errorf("choices for kinds that are not there: %v", sortedKeys(choices)))
	}
	if err := errors.Join(failures...); err != nil {
		return err
	}
	content := fmt.Sprintf("{\"source\":%s,\n\"shapes\":[\n%s\n],\n\"kinds\":[\n%s\n]}\n",
		line(source), strings.Join(pool.lines, ",\n"), strings.Join(lines, ",\n"))
	if !json.Valid([]byte(content)) {
		return fmt.Errorf("the table is not JSON")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

// entry returns a kind with its versions. Versions of the same date and content become one.
func (table *Table) entry(versions []*KindVersion, pool *Pool) (*Entry, error) {
	last := versions[len(versions)-1]
	entry := &Entry{
		Group:     last.Group,
		Kind:      last.Kind,
		ARM:       last.ARMType,
		Owner:     last.Owner,
		AzureName: last.FixedName,
		NoDelete:  last.NoDelete,
		Head:      last.Head,
	}
	if last.Scope != "ResourceGroup" {
		entry.Scope = strings.ToLower(last.Scope)
	}
	for _, version := range versions {
		if version.Storage {
			entry.Storage = version.Version + "storage"
		}
		same := version.ARMType == last.ARMType && version.Owner == last.Owner && version.Scope == last.Scope &&
			version.NoDelete == last.NoDelete && version.Head == last.Head && version.FixedName == last.FixedName
		if !same {
			return nil, fmt.Errorf("%s/%s differs in %s", last.Group, last.Kind, version.Version)
		}
		next := EntryVersion{Name: version.Version, Spec: pool.number(table.spec[version]), Status: pool.number(table.status[version])}
		if apiVersion(version.Version) != version.API {
			next.API = version.API
		}
		if count := len(entry.Versions); count > 0 {
			before := &entry.Versions[count-1]
			twin := apiVersion(before.Name) == version.API && equal(before.Spec, next.Spec) && equal(before.Status, next.Status)
			if twin {
				next.Also = append(before.Also, before.Name)
				*before = next
				continue
			}
		}
		entry.Versions = append(entry.Versions, next)
	}
	sort.SliceStable(entry.Versions, func(i, j int) bool {
		return apiVersion(entry.Versions[i].Name) < apiVersion(entry.Versions[j].Name)
	})
	return entry, nil
}

func equal(one, other *int) bool {
	return one == nil && other == nil || one != nil && other != nil && *one == *other
}

// number returns the number of a shape, or nil if it says nothing.
func (pool *Pool) number(shape *Shape) *int {
	if number, found := pool.index[shape]; found {
		return &number
	}
	return nil
}

var webhookMarker = regexp.MustCompile(`\+kubebuilder:webhook:path=/mutate-\S+-([a-z0-9]+),mutating=true,\S*groups=([^,]+),resources=([^,]+),`)

// readPlurals returns the plural of each kind, as the markers of webhooks have it.
func readPlurals(source string, kinds []*KindVersion) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(source, "api", "*", "v*", "webhook", "*.go"))
	if err != nil {
		return nil, err
	}
	byLower := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, parts := range webhookMarker.FindAllStringSubmatch(string(content), -1) {
			byLower[parts[2]+"/"+parts[1]] = parts[3]
		}
	}
	plurals := map[string]string{}
	for _, kind := range kinds {
		name := kind.Group + "/" + kind.Kind
		plurals[name] = byLower[kind.Group+"/"+strings.ToLower(kind.Kind)]
	}
	return plurals, nil
}
