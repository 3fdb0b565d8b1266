// Command sbom writes what a program consists of, as a CycloneDX document: its Go modules, the Go standard library and, if
// it is linked statically, the C library.
//
//	go run ./deploy/sbom -version 0.1.0 -glibc 2.36 quorate > quorate.cdx.json
package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "", "version of the program")
	glibc := flag.String("glibc", "", "version of the GNU C library in the program, if it is linked statically")
	flag.Parse()
	if err := run(os.Stdout, flag.Arg(0), *version, *glibc); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, program, version, glibc string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading what %s was built from: %w", program, err)
	}
	settings := []cyclonedx.Property{}
	for _, s := range info.Settings {
		settings = append(settings, cyclonedx.Property{Name: "build:" + s.Key, Value: s.Value})
	}
	main := component(cyclonedx.ComponentTypeApplication, "golang", info.Path, version)
	main.Name, main.Properties = "quorate", &settings
	components := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "golang", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	if glibc != "" {
		components = append(components, component(cyclonedx.ComponentTypeLibrary, "generic", "glibc", glibc))
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, component(cyclonedx.ComponentTypeLibrary, "golang", m.Path, m.Version))
	}
	parts := make([]string, len(components))
	for i, c := range components {
		parts[i] = c.BOMRef
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &parts}}
	if err := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("writing the document: %w", err)
	}
	return nil
}

// component returns a component with its package URL, which is also its reference.
func component(kind cyclonedx.ComponentType, ecosystem, name, version string) cyclonedx.Component {
	url := fmt.Sprintf("pkg:%s/%s@%s", ecosystem, name, strings.ReplaceAll(version, "+", "%2B"))
	return cyclonedx.Component{BOMRef: url, Type: kind, Name: name, Version: version, PackageURL: url}
}
