// Command tables writes the tables of Kubernetes facts that Insula is built with.
//
// It links the libraries of one Kubernetes version, asks them what they serve and how, and
// writes one file per table below the output folder, at the path the table has in the
// repository. It copies names, numbers, types and rules, never descriptions.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"
)

// A table is a file of the repository and the function that generates its content.
type table struct {
	path     string
	generate func(*inputs) ([]byte, error)
}

// inputs is what all generators read.
type inputs struct {
	// source is the folder of the module k8s.io/kubernetes: for the few facts that no
	// exported name gives access to.
	source string
	// additions are the types and kinds that Insula adds to those of Kubernetes.
	additions additions
	// served is what a kube-apiserver of this version serves by default.
	served *served
}

var tables = []table{
	{"crates/kinds/data/types.txt", typesTable},
	{"crates/kinds/data/kinds.json", kindsTable},
	{"crates/kinds/data/storage-hashes.txt", hashesTable},
	{"crates/access/data/bootstrap-rbac.json", rbacTable},
	{"crates/cel/data/functions.txt", functionsTable},
	{"crates/gotext/data/unicode-classes.txt", classesTable},
}

func main() {
	out := flag.String("out", "", "folder to write the tables below")
	source := flag.String("source", "", "folder of the module k8s.io/kubernetes")
	choices := flag.String("choices", "choices", "folder of Insula's own choices")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if *out == "" || *source == "" || flag.NArg() != 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*out, *source, *choices); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(out, source, choices string) error {
	additions, err := readAdditions(choices)
	if err != nil {
		return err
	}
	served, err := serve()
	if err != nil {
		return fmt.Errorf("assembling the API groups: %w", err)
	}
	inputs := &inputs{source: source, additions: additions, served: served}
	for _, table := range tables {
		content, err := table.generate(inputs)
		if err != nil {
			return fmt.Errorf("%s: %w", table.path, err)
		}
		path := filepath.Join(out, table.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
