package main

import (
	"reflect"
	"testing"
)

func TestDescriptionsOfSeveralDocumentsAreCollectedByType(t *testing.T) {
	documents := [][]byte{
		[]byte(`{"components":{"schemas":{"a.v1.Lamp":{"description":"Gives light.","properties":{"spec":{"description":"How bright."},"status":{}}}}}}`),
		[]byte(`{"components":{"schemas":{"a.v1.Silent":{"properties":{"spec":{}}}}}}`),
		[]byte(`{"paths":{}}`),
	}
	types, err := collect(documents)
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]described{
		"a.v1.Lamp": {Description: "Gives light.", Properties: map[string]string{"spec": "How bright."}},
	}
	if !reflect.DeepEqual(types, expected) {
		t.Errorf("collected %v, expected %v", types, expected)
	}
}

func TestADocumentThatIsNoJSONIsAnError(t *testing.T) {
	if _, err := collect([][]byte{[]byte("no JSON")}); err == nil {
		t.Error("expected an error")
	}
}
