// Command descriptions collects the descriptions of types and fields from the OpenAPI
// documents of a kube-apiserver, for `insula serve --openapi-descriptions`.
//
// It reads them through kubectl, which gets the arguments after `--`:
//
//	descriptions --out FILE -- --kubeconfig FILE --context NAME
//
// or from a folder of saved OpenAPI version 3 documents:
//
//	descriptions --out FILE --folder DIR
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A described is what a document says about a type, by its name in OpenAPI.
type described struct {
	Description string            `json:"description,omitempty"`
	Properties  map[string]string `json:"properties,omitempty"`
}

// A document is the part of an OpenAPI version 3 document that is read.
type document struct {
	Components struct {
		Schemas map[string]struct {
			Description string `json:"description"`
			Properties  map[string]struct {
				Description string `json:"description"`
			} `json:"properties"`
		} `json:"schemas"`
	} `json:"components"`
}

func main() {
	out := flag.String("out", "", "file to write")
	folder := flag.String("folder", "", "folder of saved documents to read instead of asking kubectl")
	kubectl := flag.String("kubectl", "kubectl", "kubectl to ask")
	flag.Parse()
	if *out == "" || *folder != "" && flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	read := func() ([][]byte, error) { return ask(*kubectl, flag.Args()) }
	if *folder != "" {
		read = func() ([][]byte, error) { return saved(*folder) }
	}
	if err := run(read, *out); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(read func() ([][]byte, error), out string) error {
	documents, err := read()
	if err != nil {
		return err
	}
	types, err := collect(documents)
	if err != nil {
		return err
	}
	if len(types) == 0 {
		return fmt.Errorf("the %d documents describe no type", len(documents))
	}
	text, err := json.MarshalIndent(types, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(out, append(text, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: descriptions of %d types\n", out, len(types))
	return nil
}

// collect merges what the documents say about each type.
func collect(documents [][]byte) (map[string]described, error) {
	types := map[string]described{}
	for _, text := range documents {
		var document document
		if err := json.Unmarshal(text, &document); err != nil {
			return nil, fmt.Errorf("reading an OpenAPI document: %w", err)
		}
		for name, schema := range document.Components.Schemas {
			of := described{Description: schema.Description, Properties: map[string]string{}}
			for field, property := range schema.Properties {
				if property.Description != "" {
					of.Properties[field] = property.Description
				}
			}
			if of.Description != "" || len(of.Properties) > 0 {
				types[name] = of
			}
		}
	}
	return types, nil
}

// ask reads the index of documents and then each of them.
func ask(kubectl string, arguments []string) ([][]byte, error) {
	get := func(path string) ([]byte, error) {
		command := exec.Command(kubectl, append([]string{"get", "--raw", path}, arguments...)...)
		command.Stderr = os.Stderr
		text, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", command, err)
		}
		return text, nil
	}
	text, err := get("/openapi/v3")
	if err != nil {
		return nil, err
	}
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, fmt.Errorf("reading the index of OpenAPI documents: %w", err)
	}
	var documents [][]byte
	for _, entry := range index.Paths {
		text, err := get(entry.URL)
		if err != nil {
			return nil, err
		}
		documents = append(documents, text)
	}
	return documents, nil
}

// saved reads every file of a folder.
func saved(folder string) ([][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	var documents [][]byte
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		documents = append(documents, text)
	}
	return documents, nil
}
