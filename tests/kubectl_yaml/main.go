// Reads texts as `kubectl apply -f` does: a list of strings in JSON on stdin; per text its documents, or the error.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

type result struct {
	Documents []any  `json:"documents"`
	Error     string `json:"error"`
}

func read(text string) (made result) {
	made.Documents = []any{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			if !errors.Is(err, io.EOF) {
				made.Error = err.Error()
			}
			return made
		}
		if trimmed := strings.TrimSpace(string(raw)); trimmed == "" || trimmed == "null" {
			continue
		}
		var data any
		if err := kjson.Unmarshal(raw, &data); err != nil {
			made.Error = err.Error()
			return made
		}
		made.Documents = append(made.Documents, data)
	}
}

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		panic(err)
	}
	results := make([]result, len(texts))
	for i, text := range texts {
		results[i] = read(text)
	}
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		panic(err)
	}
}
