package main

import _ "embed"

// exampleConfig is what quorate config example prints.
//
//go:embed config.example.yaml
var exampleConfig []byte
