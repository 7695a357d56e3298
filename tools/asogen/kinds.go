package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// KindVersion is a kind in one version, as a package of the module declares it.
type KindVersion struct {
	Group, Kind, Version string
	API, ARMType         string
	Owner, Scope         string
	FixedName            string
	NoDelete, Head       bool
	Storage              bool
	Package, ARM         *Package
	ServicePackage       string
}

var versionName = regexp.MustCompile(`^v(1api)?(\d{4})(\d{2})(\d{2})(preview)?$`)

// apiVersion returns the api-version that a version's name stands for.
func apiVersion(name string) string {
	parts := versionName.FindStringSubmatch(name)
	if parts == nil {
		return ""
	}
	api := parts[2] + "-" + parts[3] + "-" + parts[4]
	if parts[5] != "" {
		api += "-preview"
	}
	return api
}

// readKinds returns every kind of ARM in every version, in the order of group, kind and version.
func readKinds(source string) ([]*KindVersion, error) {
	folders, err := filepath.Glob(filepath.Join(source, "api", "*", "v*"))
	if err != nil {
		return nil, err
	}
	var kinds []*KindVersion
	for _, folder := range folders {
		if info, err := os.Stat(filepath.Join(folder, "arm")); err != nil || !info.IsDir() {
			continue
		}
		found, err := readVersion(folder)
		if err != nil {
			return nil, err
		}
		kinds = append(kinds, found...)
	}
	sort.SliceStable(kinds, func(i, j int) bool { return kinds[i].less(kinds[j]) })
	return kinds, nil
}

func (kind *KindVersion) less(other *KindVersion) bool {
	if kind.Group != other.Group {
		return kind.Group < other.Group
	}
	if kind.Kind != other.Kind {
		return kind.Kind < other.Kind
	}
	if kind.API != other.API {
		return kind.API < other.API
	}
	// The twin `v1apiDATE` of `vDATE` comes first.
	return kind.Version < other.Version
}

func readVersion(folder string) ([]*KindVersion, error) {
	pkg, err := readPackage(folder)
	if err != nil {
		return nil, err
	}
	arm, err := readPackage(filepath.Join(folder, "arm"))
	if err != nil {
		return nil, err
	}
	stored, err := storedKinds(filepath.Join(folder, "storage"))
	if err != nil {
		return nil, err
	}
	service := filepath.Base(filepath.Dir(folder))
	var kinds []*KindVersion
	for name := range pkg.Methods {
		armType := pkg.literal(name, "GetType")
		if armType == "" || pkg.structOf(name+"_Spec") == nil {
			continue
		}
		operations := strings.Join(pkg.selectors(name, "GetSupportedOperations"), " ")
		kind := &KindVersion{
			Group:          pkg.Group,
			Kind:           name,
			Version:        pkg.Version,
			API:            pkg.literal(name, "GetAPIVersion"),
			ARMType:        armType,
			Scope:          strings.TrimPrefix(pkg.literal(name, "GetResourceScope"), "ResourceScope"),
			NoDelete:       !strings.Contains(operations, "ResourceOperationDelete"),
			Head:           strings.Contains(operations, "ResourceOperationHead"),
			Storage:        stored[name],
			Package:        pkg,
			ARM:            arm,
			ServicePackage: service,
		}
		if pkg.structOf(name+"_Spec").field("AzureName") == nil {
			kind.FixedName = pkg.literal(name, "AzureName")
			if kind.FixedName == "" {
				return nil, fmt.Errorf("%s: %s has neither a field for its name nor a fixed name", folder, name)
			}
		}
		if owner := pkg.structOf(name + "_Spec").field("Owner"); owner != nil {
			kind.Owner = "any"
			if group := owner.Tag.Get("group"); group != "" {
				kind.Owner = group + "/" + owner.Tag.Get("kind")
			}
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// storedKinds returns the kinds that are stored in a version.
func storedKinds(folder string) (map[string]bool, error) {
	pkg, err := readPackage(folder)
	if err != nil {
		return nil, err
	}
	stored := map[string]bool{}
	for name, markers := range pkg.Markers {
		if _, found := marker(markers, "storageversion"); found {
			stored[name] = true
		}
	}
	return stored, nil
}

// StatusType returns the name of the type of the kind's status.
func (kind *KindVersion) StatusType() string {
	return nameOf(kind.Package.structOf(kind.Kind).field("Status").Type)
}
