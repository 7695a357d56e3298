package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"go/ast"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"
)

// Pair is a custom resource of the module's samples with the request that was recorded for it.
type Pair struct {
	Group   string            `json:"group"`
	Kind    string            `json:"kind"`
	Version string            `json:"version"`
	Object  map[string]any    `json:"object"`
	URL     string            `json:"url"`
	Body    json.RawMessage   `json:"body"`
	IDs     map[string]string `json:"ids"`
	Sample  string            `json:"sample"`
}

// Request is a PUT of a recording.
type Request struct {
	id, api, armType string
	url              string
	body             json.RawMessage
	answered         bool
}

// Sample is a custom resource of the module's samples.
type Sample struct {
	group, version, kind, name string
	object                     map[string]any
	file                       string
	known                      *KindVersion
	request                    *Request
}

var versionFolder = regexp.MustCompile(`^v(1api)?[a-z0-9]*$`)

// writeBodies writes the pairs of all samples with a recording as lines of JSON.
func writeBodies(source, out string) error {
	kinds, err := readKinds(source)
	if err != nil {
		return err
	}
	known := map[string]*KindVersion{}
	for _, kind := range kinds {
		known[kind.Group+"/"+kind.Version+"/"+kind.Kind] = kind
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(out, "bodies.jsonl"))
	if err != nil {
		return err
	}
	defer file.Close()
	writer := bufio.NewWriter(file)
	samples, pairs := 0, 0
	err = filepath.WalkDir(filepath.Join(source, "samples"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() || !versionFolder.MatchString(entry.Name()) {
			return err
		}
		folder := &Folder{source: source, path: path, kinds: known}
		found, all, err := folder.pairs()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		samples += all
		pairs += len(found)
		for _, pair := range found {
			fmt.Fprintln(writer, line(pair))
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d of %d samples in folders with a recording have a request\n", pairs, samples)
	if err := writer.Flush(); err != nil {
		return err
	}
	return writeRequests(source, filepath.Join(out, "requests.jsonl"), kinds)
}

// Recorded is a request of any recording.
type Recorded struct {
	Group     string          `json:"group"`
	Kind      string          `json:"kind"`
	Version   string          `json:"version"`
	URL       string          `json:"url"`
	Body      json.RawMessage `json:"body"`
	Recording string          `json:"recording"`
}

// writeRequests writes the PUTs of all recordings to resources of known kinds, one for each id.
func writeRequests(source, path string, kinds []*KindVersion) error {
	known := map[string]*KindVersion{}
	for _, kind := range kinds {
		known[strings.ToLower(kind.ARMType)+" "+kind.API] = kind
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	writer := bufio.NewWriter(file)
	count, seen := 0, map[string]bool{}
	err = filepath.WalkDir(filepath.Join(source, "internal"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" || !strings.Contains(path, "/recordings/") {
			return err
		}
		requests, err := readRecording(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		relative, _ := filepath.Rel(source, path)
		for _, request := range requests {
			kind := known[strings.ToLower(request.armType)+" "+request.api]
			if kind == nil {
				continue
			}
			count++
			seen[kind.Group+"/"+kind.Kind+"/"+kind.API] = true
			fmt.Fprintln(writer, line(Recorded{kind.Group, kind.Kind, kind.Version, request.url, request.body, relative}))
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d requests of %d kind-versions\n", count, len(seen))
	return writer.Flush()
}

// Folder is a folder of samples with its recording.
type Folder struct {
	source, path string
	// By group, version and kind.
	kinds map[string]*KindVersion
}

// recording returns the path of the folder's recording.
func (folder *Folder) recording() string {
	var name strings.Builder
	for _, part := range strings.Split(filepath.Base(filepath.Dir(folder.path)), ".") {
		name.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	test := fmt.Sprintf("Test_%s_%s_CreationAndDeletion.yaml", name.String(), filepath.Base(folder.path))
	return filepath.Join(folder.source, "internal/testsamples/recordings/Test_Samples_CreationAndDeletion", test)
}

// pairs returns the pairs of the folder, and the number of samples that could have one.
func (folder *Folder) pairs() ([]*Pair, int, error) {
	requests, err := readRecording(folder.recording())
	if os.IsNotExist(err) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	samples, err := folder.readSamples()
	if err != nil {
		return nil, 0, err
	}
	folder.match(samples, requests)
	ids := folder.ids(samples, requests)
	var pairs []*Pair
	for _, sample := range samples {
		if sample.request == nil {
			continue
		}
		sample.adapt(ids)
		relative, _ := filepath.Rel(folder.source, sample.file)
		pairs = append(pairs, &Pair{
			Group: sample.group, Kind: sample.kind, Version: sample.version, Object: sample.object,
			URL: sample.request.url, Body: sample.request.body, IDs: ids, Sample: relative,
		})
	}
	return pairs, len(samples), nil
}

func (folder *Folder) readSamples() ([]*Sample, error) {
	var samples []*Sample
	err := filepath.WalkDir(folder.path, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		decoder := yaml.NewDecoder(strings.NewReader(string(content)))
		for {
			var document yaml.Node
			if decoder.Decode(&document) != nil {
				return nil
			}
			if sample := folder.newSample(valueOf(&document), path); sample != nil {
				samples = append(samples, sample)
			}
		}
	})
	return samples, err
}

// newSample returns the sample of a document, or nil if it is not an object of a kind of ARM.
func (folder *Folder) newSample(document any, file string) *Sample {
	object, _ := document.(map[string]any)
	apiVersion, _ := object["apiVersion"].(string)
	group, version, _ := strings.Cut(apiVersion, "/")
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	known := folder.kinds[apiVersion+"/"+kind]
	if known == nil {
		return nil
	}
	object["spec"] = known.Package.normalise(kind+"_Spec", object["spec"])
	return &Sample{group: group, version: version, kind: kind, name: name, object: object, file: file, known: known}
}

// valueOf returns the value of a YAML node. Dates stay texts.
func valueOf(node *yaml.Node) any {
	switch node.Kind {
	case yaml.DocumentNode:
		return valueOf(node.Content[0])
	case yaml.MappingNode:
		object := map[string]any{}
		for index := 0; index+1 < len(node.Content); index += 2 {
			object[node.Content[index].Value] = valueOf(node.Content[index+1])
		}
		return object
	case yaml.SequenceNode:
		list := []any{}
		for _, element := range node.Content {
			list = append(list, valueOf(element))
		}
		return list
	}
	if node.Tag == "!!timestamp" {
		return node.Value
	}
	var value any
	if err := node.Decode(&value); err != nil {
		panic(err)
	}
	return value
}

// normalise gives the fields of an object the case of the type's: the module's tests read samples
// without regard to case, an API server does not.
func (pkg *Package) normalise(typeName string, value any) any {
	switch value := value.(type) {
	case []any:
		for index := range value {
			value[index] = pkg.normalise(typeName, value[index])
		}
	case map[string]any:
		declared := pkg.structOf(typeName)
		if declared == nil {
			return value
		}
		for _, key := range sortedKeys(value) {
			for _, field := range declared.Fields {
				if !strings.EqualFold(field.JSON, key) {
					continue
				}
				member := pkg.normaliseMember(field.Type, value[key])
				delete(value, key)
				value[field.JSON] = member
			}
		}
	}
	return value
}

func (pkg *Package) normaliseMember(declared ast.Expr, value any) any {
	switch typed := unpoint(declared).(type) {
	case *ast.ArrayType:
		return pkg.normaliseMember(typed.Elt, value)
	case *ast.MapType:
		if object, ok := value.(map[string]any); ok {
			for key := range object {
				object[key] = pkg.normaliseMember(typed.Value, object[key])
			}
		}
		return value
	}
	return pkg.normalise(nameOf(declared), value)
}

// azureName returns the name that the sample sets for Azure, or that of the object.
func (sample *Sample) azureName() string {
	spec, _ := sample.object["spec"].(map[string]any)
	if name, ok := spec["azureName"].(string); ok && name != "" {
		return name
	}
	return sample.name
}

// match finds the request of each sample: by type, api-version and name, or, since recordings have
// random names, by what samples and bodies have in common.
func (folder *Folder) match(samples []*Sample, requests []*Request) {
	used := map[*Request]bool{}
	candidates := func(sample *Sample) []*Request {
		var found []*Request
		for _, request := range requests {
			if !used[request] && request.api == apiVersion(sample.version) && strings.EqualFold(request.armType, sample.known.ARMType) {
				found = append(found, request)
			}
		}
		return found
	}
	for _, sample := range samples {
		for _, request := range candidates(sample) {
			if strings.EqualFold(lastOf(request.id), sample.azureName()) {
				sample.request = request
				used[request] = true
				break
			}
		}
	}
	type choice struct {
		sample  *Sample
		request *Request
		common  int
	}
	var choices []choice
	for _, sample := range samples {
		if sample.request != nil {
			continue
		}
		for _, request := range candidates(sample) {
			choices = append(choices, choice{sample, request, common(sample, request)})
		}
	}
	sort.SliceStable(choices, func(i, j int) bool { return choices[i].common > choices[j].common })
	for _, choice := range choices {
		if choice.sample.request == nil && !used[choice.request] {
			choice.sample.request = choice.request
			used[choice.request] = true
		}
	}
}

// common returns how many texts of a sample its body has too.
func common(sample *Sample, request *Request) int {
	texts := map[string]bool{}
	var collect func(value any)
	collect = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, key := range sortedKeys(value) {
				texts[key] = true
				collect(value[key])
			}
		case []any:
			for _, element := range value {
				collect(element)
			}
		case string:
			texts[value] = true
		}
	}
	collect(sample.object["spec"])
	count := 0
	for text := range texts {
		if quoted := line(text); strings.Contains(string(request.body), quoted) {
			count++
		}
	}
	return count
}

// ids returns the ARM ids of the samples, by `group/Kind/name`, and of the resource group.
func (folder *Folder) ids(samples []*Sample, requests []*Request) map[string]string {
	ids := map[string]string{}
	for _, request := range requests {
		if strings.EqualFold(request.armType, "Microsoft.Resources/resourceGroups") {
			ids["resources.azure.com/ResourceGroup/aso-sample-rg"] = request.id
		}
	}
	for _, sample := range samples {
		if sample.request != nil {
			ids[sample.group+"/"+sample.kind+"/"+sample.name] = sample.request.id
		}
	}
	return ids
}

// adapt gives a sample the names of its recording, as the tests and the webhooks of the module do.
func (sample *Sample) adapt(ids map[string]string) {
	group := lastOf(ids["resources.azure.com/ResourceGroup/aso-sample-rg"])
	spec, ok := sample.object["spec"].(map[string]any)
	if !ok {
		spec = map[string]any{}
		sample.object["spec"] = spec
	}
	var visit func(value any)
	visit = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			if id, ok := value["armId"].(string); ok && group != "" {
				value["armId"] = strings.ReplaceAll(id, "aso-sample-rg", group)
			}
			for _, member := range value {
				visit(member)
			}
		case []any:
			for _, element := range value {
				visit(element)
			}
		}
	}
	visit(spec)
	if _, found := spec["azureName"]; !found && sample.known.FixedName == "" {
		spec["azureName"] = lastOf(sample.request.id)
	}
}

func lastOf(id string) string {
	return id[strings.LastIndex(id, "/")+1:]
}

// readRecording returns the first PUT to each id.
func readRecording(path string) ([]*Request, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var cassette struct {
		Interactions []struct {
			Request struct {
				Body   string `yaml:"body"`
				URL    string `yaml:"url"`
				Method string `yaml:"method"`
			} `yaml:"request"`
			Response struct {
				Code int `yaml:"code"`
			} `yaml:"response"`
		} `yaml:"interactions"`
	}
	if err := yaml.Unmarshal(content, &cassette); err != nil {
		return nil, err
	}
	var requests []*Request
	byID := map[string]*Request{}
	for _, interaction := range cassette.Interactions {
		if interaction.Request.Method != "PUT" || !json.Valid([]byte(interaction.Request.Body)) {
			continue
		}
		request := newRequest(interaction.Request.URL, interaction.Request.Body)
		if request == nil {
			continue
		}
		request.answered = interaction.Response.Code < 300
		// What is refused at first may be sent again with values that were not there yet.
		if before := byID[request.id]; before != nil {
			if !before.answered {
				*before = *request
			}
			continue
		}
		byID[request.id] = request
		requests = append(requests, request)
	}
	return requests, nil
}

func newRequest(address, body string) *Request {
	parsed, err := url.Parse(address)
	if err != nil {
		return nil
	}
	return &Request{
		id:      parsed.Path,
		api:     parsed.Query().Get("api-version"),
		armType: armTypeOf(parsed.Path),
		url:     address,
		body:    json.RawMessage(body),
	}
}

// armTypeOf returns the type in an ARM id.
func armTypeOf(id string) string {
	index := strings.LastIndex(id, "/providers/")
	if index < 0 {
		if strings.Contains(strings.ToLower(id), "/resourcegroups/") {
			return "Microsoft.Resources/resourceGroups"
		}
		return ""
	}
	parts := strings.Split(id[index+len("/providers/"):], "/")
	armType := parts[0]
	for index := 1; index < len(parts); index += 2 {
		armType += "/" + parts[index]
	}
	return armType
}
