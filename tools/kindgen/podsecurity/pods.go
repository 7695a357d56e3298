package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// newestMinor is evaluated beyond the newest version that has a check of its own.
const newestMinor = 40

type object = map[string]any

// A podsTable describes pods as changes of base pods.
type podsTable struct {
	Bases map[string]object `json:"bases"`
	Pods  []podCase         `json:"pods"`
}

// A podCase is a change of one base pod, or of several.
type podCase struct {
	Name  string   `json:"name"`
	Bases []string `json:"bases"`
	// Pod is merged into the pod.
	Pod object `json:"pod,omitempty"`
	// Container is merged into one container of each sort, and then into all containers.
	Container object `json:"container,omitempty"`
	// Containers are merged into all containers, one after the other.
	Containers []object `json:"containers,omitempty"`
}

// A podRecord is a pod and what is said about it.
type podRecord struct {
	Name       string    `json:"name"`
	Pod        object    `json:"pod"`
	Baseline   []verdict `json:"baseline"`
	Restricted []verdict `json:"restricted"`
}

// A verdict holds from one minor version on, until the next verdict.
type verdict struct {
	From    int    `json:"from"`
	Message string `json:"message,omitempty"`
}

func recordPods(path string) ([]podRecord, error) {
	var table podsTable
	if err := readTable(path, &table); err != nil {
		return nil, err
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, err
	}
	var records []podRecord
	for _, one := range table.Pods {
		for _, base := range one.Bases {
			if table.Bases[base] == nil {
				return nil, fmt.Errorf("%s: there is no base %q", one.Name, base)
			}
			for placement, pod := range one.expand(table.Bases[base]) {
				record := podRecord{Name: one.Name + " " + base + placement, Pod: pod}
				if err := record.evaluate(evaluator); err != nil {
					return nil, fmt.Errorf("%s: %w", record.Name, err)
				}
				records = append(records, record)
			}
		}
	}
	slices.SortStableFunc(records, func(a, b podRecord) int {
		return compare(a.Name, b.Name)
	})
	return records, nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

var sorts = []string{"initContainers", "containers", "ephemeralContainers"}

// expand returns the pods that a case describes, by what is changed.
func (one podCase) expand(base object) map[string]object {
	pod := merge(base, one.Pod).(object)
	if one.Container == nil && one.Containers == nil {
		return map[string]object{"": pod}
	}
	pods := map[string]object{}
	if one.Containers != nil {
		next := 0
		pods[""] = change(pod, func(_ string, _ int) object {
			next++
			return one.Containers[(next-1)%len(one.Containers)]
		})
		return pods
	}
	pods[" all"] = change(pod, func(string, int) object { return one.Container })
	for _, chosen := range sorts {
		pods[" "+chosen] = change(pod, func(sort string, index int) object {
			if sort == chosen && index == 0 {
				return one.Container
			}
			return nil
		})
	}
	return pods
}

// change merges a patch into each container.
func change(pod object, patch func(sort string, index int) object) object {
	pod = merge(pod, object{}).(object)
	spec := pod["spec"].(object)
	for _, sort := range sorts {
		list, _ := spec[sort].([]any)
		changed := slices.Clone(list)
		for index, container := range changed {
			if patch := patch(sort, index); patch != nil {
				changed[index] = merge(container.(object), patch)
			}
		}
		if changed != nil {
			spec[sort] = changed
		}
	}
	return pod
}

// merge returns a copy of the value with a JSON merge patch applied.
func merge(value any, patch any) any {
	members, isObject := patch.(object)
	if !isObject {
		return patch
	}
	before, _ := value.(object)
	after := object{}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		after[name] = before[name]
		if inner, isObject := before[name].(object); isObject {
			after[name] = merge(inner, object{})
		}
	}
	for name, patch := range members {
		if patch == nil {
			delete(after, name)
			continue
		}
		after[name] = merge(after[name], patch)
	}
	return after
}

func (record *podRecord) evaluate(evaluator policy.Evaluator) error {
	pod := &corev1.Pod{}
	if err := decode(record.Pod, pod); err != nil {
		return err
	}
	say := func(level api.Level, version api.Version) string {
		policyLevel := api.LevelVersion{Level: level, Version: version}
		results := evaluator.EvaluatePod(policyLevel, &pod.ObjectMeta, &pod.Spec)
		found := policy.AggregateCheckResults(results)
		return found.ForbiddenDetail()
	}
	verdicts := func(level api.Level) ([]verdict, error) {
		var list []verdict
		for minor := 0; minor <= newestMinor; minor++ {
			message := say(level, api.MajorMinorVersion(1, minor))
			if len(list) == 0 || list[len(list)-1].Message != message {
				list = append(list, verdict{minor, message})
			}
		}
		if latest := say(level, api.LatestVersion()); latest != list[len(list)-1].Message {
			return nil, fmt.Errorf("the latest version is newer than v1.%d", newestMinor)
		}
		return list, nil
	}
	var err error
	if record.Baseline, err = verdicts(api.LevelBaseline); err != nil {
		return err
	}
	record.Restricted, err = verdicts(api.LevelRestricted)
	return err
}

// decode converts JSON to a typed object, and refuses fields that it does not have.
func decode(from object, into any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return decodeStrictly(text, into)
}
