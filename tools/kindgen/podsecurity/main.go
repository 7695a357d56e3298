// Command podsecurity records what Kubernetes' PodSecurity says about the pods and requests of
// two tables, so that Insula's can be compared with it.
//
// It reads pods.json and reviews.json of the folder --cases and writes one line of JSON for
// each pod and each request below the folder --out.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"
)

func main() {
	cases := flag.String("cases", "podsecurity", "folder of pods.json and reviews.json")
	out := flag.String("out", "", "folder to write the recorded answers to")
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
	pods, err := recordPods(filepath.Join(cases, "pods.json"))
	if err != nil {
		return err
	}
	if err := write(filepath.Join(out, "pod_security.jsonl"), pods); err != nil {
		return err
	}
	reviews, err := recordReviews(filepath.Join(cases, "reviews.json"))
	if err != nil {
		return err
	}
	return write(filepath.Join(out, "pod_security_reviews.jsonl"), reviews)
}

// readTable decodes a table and refuses members that are not known.
func readTable(path string, table any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(table); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// write writes one line for each record.
func write[T any](path string, records []T) error {
	var content bytes.Buffer
	encoder := json.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	for _, record := range records {
		if err := encoder.Encode(record); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %d records\n", filepath.Base(path), len(records))
	return os.WriteFile(path, content.Bytes(), 0o644)
}
