package main

import (
	"maps"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

// lineWidth is the longest line of unicode-classes.txt.
const lineWidth = 95

// classesTable generates unicode-classes.txt: the names that \\p{...} knows, as Go folds
// them, filled into lines. They are those of the Go release that runs the generator.
func classesTable(*inputs) ([]byte, error) {
	candidates := []string{"Any", "ASCII", "Assigned"}
	candidates = slices.AppendSeq(candidates, maps.Keys(unicode.Categories))
	candidates = slices.AppendSeq(candidates, maps.Keys(unicode.CategoryAliases))
	candidates = slices.AppendSeq(candidates, maps.Keys(unicode.Scripts))
	names := map[string]bool{}
	for _, name := range candidates {
		// Go does not find every name that it has a table for.
		if _, err := syntax.Parse(`\p{`+name+`}`, syntax.Perl); err == nil {
			names[folded(name)] = true
		}
	}
	var lines []string
	line := ""
	for _, name := range slices.Sorted(maps.Keys(names)) {
		switch {
		case line == "":
			line = name
		case len(line)+1+len(name) > lineWidth:
			lines = append(lines, line)
			line = name
		default:
			line += " " + name
		}
	}
	lines = append(lines, line)
	return []byte(strings.Join(lines, "\n") + "\n"), nil
}

// folded is a capital and then small letters, without what separates words.
func folded(name string) string {
	name = strings.NewReplacer("_", "", "-", "", " ", "").Replace(name)
	return strings.ToUpper(name[:1]) + strings.ToLower(name[1:])
}
