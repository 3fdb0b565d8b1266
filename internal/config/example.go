package config

import _ "embed"

// Example is what quorate config example prints.
//
//go:embed config.example.yaml
var Example []byte
