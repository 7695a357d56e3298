// Asogen generates the table of Azure's kinds, and definitions of some of them, from the public Go
// module of Azure Service Operator. See README.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

const usage = "usage: asogen kinds|bodies|released --source DIR --out DIR [--choices DIR]"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	source := flags.String("source", "", "folder of the module")
	choices := flags.String("choices", "choices", "folder of what is maintained by hand")
	version := flags.String("version", "", "module and version that the table names as its source")
	out := flags.String("out", "", "folder to write to")
	_ = flags.Parse(os.Args[2:])
	var err error
	switch os.Args[1] {
	case "kinds":
		err = generate(*source, *choices, *version, *out)
	case "bodies":
		err = writeBodies(*source, *out)
	case "released":
		err = writeReleased(*source, *out)
	default:
		err = fmt.Errorf("%s", usage)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate writes the table and the definitions.
func generate(source, choicesFolder, version, out string) error {
	kinds, err := readKinds(source)
	if err != nil {
		return err
	}
	plurals, err := readPlurals(source, kinds)
	if err != nil {
		return err
	}
	choices, err := readChoices(choicesFolder)
	if err != nil {
		return err
	}
	table := newTable(kinds)
	if len(table.problems) > 0 {
		for _, problem := range table.problems {
			fmt.Fprintln(os.Stderr, problem)
		}
		return fmt.Errorf("%d fields of the module follow no rule", len(table.problems))
	}
	data := filepath.Join(out, "crates/azure/data")
	if err := table.write(filepath.Join(data, "kinds.json"), version, plurals, choices); err != nil {
		return err
	}
	chosen, err := readChosen(choicesFolder)
	if err != nil {
		return err
	}
	return table.writeDefinitions(filepath.Join(data, "definitions.json"), chosen, plurals)
}
