package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// A role is a line of bootstrap-rbac.json: a role of a namespace or of the cluster.
type role struct {
	Metadata        metav1.ObjectMeta     `json:"metadata"`
	Rules           []rbac.PolicyRule     `json:"rules,omitempty"`
	AggregationRule *rbac.AggregationRule `json:"aggregationRule,omitempty"`
}

// A binding is a line of bootstrap-rbac.json: a binding of a namespace or of the cluster.
type binding struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	RoleRef  rbac.RoleRef      `json:"roleRef"`
	Subjects []rbac.Subject    `json:"subjects,omitempty"`
}

// rbacTable generates bootstrap-rbac.json: the roles and bindings that Kubernetes creates
// of its own accord, one per line, by namespace and name.
func rbacTable(*inputs) ([]byte, error) {
	var roles, clusterRoles []role
	var bindings, clusterBindings []binding
	for _, of := range namespaced(bootstrappolicy.NamespaceRoles()) {
		roles = append(roles, role{of.ObjectMeta, of.Rules, nil})
	}
	for _, of := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		rules := of.Rules
		if of.AggregationRule != nil {
			// They are put together from those of other roles.
			rules = nil
		}
		clusterRoles = append(clusterRoles, role{of.ObjectMeta, rules, of.AggregationRule})
	}
	for _, of := range namespaced(bootstrappolicy.NamespaceRoleBindings()) {
		bindings = append(bindings, binding{of.ObjectMeta, of.RoleRef, of.Subjects})
	}
	for _, of := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		clusterBindings = append(clusterBindings, binding{of.ObjectMeta, of.RoleRef, of.Subjects})
	}

	ofRole := func(of role) metav1.ObjectMeta { return of.Metadata }
	ofBinding := func(of binding) metav1.ObjectMeta { return of.Metadata }
	var out bytes.Buffer
	out.WriteString("{\n")
	if err := section(&out, "roles", roles, ofRole, ",\n"); err != nil {
		return nil, err
	}
	if err := section(&out, "clusterroles", clusterRoles, ofRole, ",\n"); err != nil {
		return nil, err
	}
	if err := section(&out, "rolebindings", bindings, ofBinding, ",\n"); err != nil {
		return nil, err
	}
	if err := section(&out, "clusterrolebindings", clusterBindings, ofBinding, "\n"); err != nil {
		return nil, err
	}
	out.WriteString("}\n")
	return out.Bytes(), nil
}

// namespaced flattens objects that are kept by namespace.
func namespaced[T any](objects map[string][]T) []T {
	var all []T
	for _, namespace := range slices.Sorted(maps.Keys(objects)) {
		all = append(all, objects[namespace]...)
	}
	return all
}

// section writes a member of the document: a list with one object per line.
func section[T any](out *bytes.Buffer, name string, objects []T, metadata func(T) metav1.ObjectMeta, end string) error {
	slices.SortFunc(objects, func(a, b T) int {
		first, second := metadata(a), metadata(b)
		return cmp.Or(cmp.Compare(first.Namespace, second.Namespace), cmp.Compare(first.Name, second.Name))
	})
	fmt.Fprintf(out, "%q:[\n", name)
	for i, object := range objects {
		line, err := marshal(object)
		if err != nil {
			return err
		}
		if i > 0 {
			out.WriteString(",\n")
		}
		out.Write(line)
	}
	out.WriteString("\n]" + end)
	return nil
}
