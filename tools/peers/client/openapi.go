package main

import (
	"encoding/json"
	"errors"
	"fmt"

	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/client-go/openapi"
	"sigs.k8s.io/yaml"
)

// sameDocument compares the protobuf of a document with gnostic's conversion of its JSON.
func sameDocument(version openapi.GroupVersion, sealed []byte) error {
	text, err := version.Schema("application/json")
	if err != nil {
		return err
	}
	converted, err := openapi_v3.ParseDocument(text)
	if err != nil {
		return err
	}
	sent := &openapi_v3.Document{}
	if err := proto.Unmarshal(sealed, sent); err != nil {
		return err
	}
	if len(converted.Components.Schemas.AdditionalProperties) == 0 {
		return errors.New("there are no schemas")
	}
	normalise(converted.ProtoReflect())
	normalise(sent.ProtoReflect())
	if proto.Equal(converted, sent) {
		return nil
	}
	for i, schema := range converted.Components.Schemas.AdditionalProperties {
		if i < len(sent.Components.Schemas.AdditionalProperties) {
			if other := sent.Components.Schemas.AdditionalProperties[i]; !proto.Equal(schema, other) {
				return fmt.Errorf("%s is %v, not %v", schema.Name, other, schema)
			}
		}
	}
	for i, path := range converted.Paths.Path {
		if i < len(sent.Paths.Path) && !proto.Equal(path, sent.Paths.Path[i]) {
			return fmt.Errorf("%s is %v, not %v", path.Name, sent.Paths.Path[i], path)
		}
	}
	return errors.New("the documents are not the same")
}

// normalise formats all values that are stored as YAML in the same way.
func normalise(message protoreflect.Message) {
	if found, ok := message.Interface().(*openapi_v3.Any); ok {
		var value any
		if err := yaml.Unmarshal([]byte(found.Yaml), &value); err == nil {
			text, _ := json.Marshal(value)
			found.Yaml = string(text)
		}
		return
	}
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.IsList() && field.Message() != nil:
			for i := range value.List().Len() {
				normalise(value.List().Get(i).Message())
			}
		case !field.IsList() && field.Message() != nil:
			normalise(value.Message())
		}
		return true
	})
}
