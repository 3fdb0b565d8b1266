package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestEveryModuleOfTheProgramIsListed(t *testing.T) {
	kept, err := os.ReadFile("../../THIRD_PARTY_NOTICES")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) < 10 {
		t.Fatalf("got %d modules, want all", len(modules))
	}
	for _, m := range modules {
		if !strings.Contains(string(kept), "\n"+m.Path+" "+m.Version+" (") {
			t.Errorf("THIRD_PARTY_NOTICES lacks %s %s; run go run ./deploy/notices > THIRD_PARTY_NOTICES", m.Path, m.Version)
		}
	}
	var now bytes.Buffer
	if err := write(&now, modules); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kept, now.Bytes()) {
		t.Error("THIRD_PARTY_NOTICES is not what go run ./deploy/notices writes")
	}
}
