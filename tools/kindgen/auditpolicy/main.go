// Command auditpolicy records what Kubernetes' audit policies say about the requests of a table,
// so that Insula's can be compared with it.
//
// It reads the table --cases and writes to the file --out one line of JSON for each policy: the
// error with which it is refused, or for each request the level, the omitted stages and whether
// managed fields are omitted.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"

	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
)

// A table has policies and the requests that each of them is asked about.
type table struct {
	Policies []json.RawMessage `json:"policies"`
	Requests []request         `json:"requests"`
}

// A request is for objects if it has a resource, or else for a path.
type request struct {
	User        string   `json:"user,omitempty"`
	Groups      []string `json:"groups,omitempty"`
	Verb        string   `json:"verb"`
	Group       string   `json:"group,omitempty"`
	Resource    string   `json:"resource,omitempty"`
	Subresource string   `json:"subresource,omitempty"`
	Namespace   string   `json:"namespace,omitempty"`
	Name        string   `json:"name,omitempty"`
	Path        string   `json:"path,omitempty"`
}

// A record is a policy and what it says.
type record struct {
	Policy    json.RawMessage `json:"policy"`
	Error     string          `json:"error,omitempty"`
	Decisions []decision      `json:"decisions,omitempty"`
}

type decision struct {
	Request           request  `json:"request"`
	Level             string   `json:"level"`
	OmitStages        []string `json:"omitStages,omitempty"`
	OmitManagedFields bool     `json:"omitManagedFields,omitempty"`
}

func main() {
	cases := flag.String("cases", "auditpolicy/cases.json", "table of policies and requests")
	out := flag.String("out", "", "file to write the recorded decisions to")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if *out == "" || flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*cases, *out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(cases, out string) error {
	content, err := os.ReadFile(cases)
	if err != nil {
		return err
	}
	var all table
	if err := json.Unmarshal(content, &all); err != nil {
		return err
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for _, text := range all.Policies {
		if err := encoder.Encode(recordPolicy(text, all.Requests)); err != nil {
			return err
		}
	}
	return os.WriteFile(out, lines.Bytes(), 0o644)
}

func recordPolicy(text json.RawMessage, requests []request) record {
	loaded, err := policy.LoadPolicyFromBytes(text)
	if err != nil {
		return record{Policy: text, Error: err.Error()}
	}
	evaluator := policy.NewPolicyRuleEvaluator(loaded)
	recorded := record{Policy: text}
	for _, asked := range requests {
		found := evaluator.EvaluatePolicyRule(attributes(asked))
		said := decision{
			Request:           asked,
			Level:             string(found.Level),
			OmitManagedFields: found.OmitManagedFields,
		}
		for _, stage := range found.OmitStages {
			said.OmitStages = append(said.OmitStages, string(stage))
		}
		slices.Sort(said.OmitStages)
		recorded.Decisions = append(recorded.Decisions, said)
	}
	return recorded
}

func attributes(asked request) authorizer.Attributes {
	found := authorizer.AttributesRecord{
		Verb:            asked.Verb,
		Namespace:       asked.Namespace,
		APIGroup:        asked.Group,
		Resource:        asked.Resource,
		Subresource:     asked.Subresource,
		Name:            asked.Name,
		ResourceRequest: asked.Resource != "",
		Path:            asked.Path,
	}
	if asked.User != "" {
		found.User = &user.DefaultInfo{Name: asked.User, Groups: asked.Groups}
	}
	return found
}
