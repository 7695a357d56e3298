package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"

	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

const functionsHeader = "" +
	"# CEL overloads, one per line: function, overload, call style, argument types, result type.\n" +
	"# A `member` overload is called as `x.f(y)`, with x as the first argument. The overloads of a\n" +
	"# function are in the order in which the checker tries them.\n"

// functionsTable generates functions.txt: every overload that an expression may call.
func functionsTable(*inputs) ([]byte, error) {
	set := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	var out bytes.Buffer
	out.WriteString(functionsHeader)
	functions := set.NewExpressionsEnv().Functions()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		writeFunction(&out, functions[name])
	}
	// Only mutations may call these.
	patch, err := cel.NewEnv(library.JSONPatch())
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(patch.Functions())) {
		if strings.HasPrefix(name, "jsonpatch.") {
			writeFunction(&out, patch.Functions()[name])
		}
	}
	return out.Bytes(), nil
}

func writeFunction(out *bytes.Buffer, function *decls.FunctionDecl) {
	for _, overload := range function.OverloadDecls() {
		style := "global"
		if overload.IsMemberFunction() {
			style = "member"
		}
		var arguments []string
		for _, argument := range overload.ArgTypes() {
			arguments = append(arguments, typeWord(argument))
		}
		fmt.Fprintf(out, "%s | %s | %s | %s | %s\n", function.Name(), overload.ID(), style,
			strings.Join(arguments, "; "), typeWord(overload.ResultType()))
	}
}

// typeWord spells a type: a parameter in angle brackets, everything else by its name, with
// what it is made of in parentheses.
func typeWord(of *cel.Type) string {
	if of.Kind() == cel.TypeParamKind {
		return "<" + of.TypeName() + ">"
	}
	if len(of.Parameters()) == 0 {
		return of.TypeName()
	}
	var parameters []string
	for _, parameter := range of.Parameters() {
		parameters = append(parameters, typeWord(parameter))
	}
	return of.TypeName() + "(" + strings.Join(parameters, ", ") + ")"
}
