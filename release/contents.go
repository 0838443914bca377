package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// describe writes beside each binary which modules are in it, as SPDX 2.3 in JSON, from what the Go linker has written
// into the binary itself.
func describe(version string, at time.Time, built []binary) error {
	for _, b := range built {
		info, err := buildinfo.ReadFile(b.file)
		if err != nil {
			return err
		}
		name := filepath.Base(b.file)
		text, err := json.MarshalIndent(contents(name, version, at, info), "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.file+".spdx.json", append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

type spdxDocument struct {
	Version       string             `json:"spdxVersion"`
	License       string             `json:"dataLicense"`
	ID            string             `json:"SPDXID"`
	Name          string             `json:"name"`
	Namespace     string             `json:"documentNamespace"`
	Creation      spdxCreation       `json:"creationInfo"`
	Packages      []spdxPackage      `json:"packages"`
	Relationships []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID       string          `json:"SPDXID"`
	Name     string          `json:"name"`
	Version  string          `json:"versionInfo"`
	Location string          `json:"downloadLocation"`
	Analyzed bool            `json:"filesAnalyzed"`
	License  string          `json:"licenseConcluded"`
	Refs     []spdxReference `json:"externalRefs"`
}

type spdxReference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

func contents(name, version string, at time.Time, info *debug.BuildInfo) spdxDocument {
	d := spdxDocument{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: fmt.Sprintf("https://%s/releases/%s/%s", rootModule, version, name),
		Creation:  spdxCreation{at.Format(time.RFC3339), []string{"Tool: " + rootModule + "/release"}},
	}

	modules := append([]*debug.Module{&info.Main}, info.Deps...)
	modules = append(modules, &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")})
	for i, m := range modules {
		if m.Replace != nil {
			m = m.Replace
		}
		// No checksum: SPDX's is of an archive's bytes, and that of go.sum is of a list of files.
		p := spdxPackage{
			ID: fmt.Sprintf("SPDXRef-%d", i), Name: m.Path, Version: m.Version, Location: "NOASSERTION", License: "NOASSERTION",
			Refs: []spdxReference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}},
		}
		d.Packages = append(d.Packages, p)

		relation := spdxRelationship{"SPDXRef-0", "DEPENDS_ON", p.ID}
		if i == 0 {
			relation = spdxRelationship{d.ID, "DESCRIBES", p.ID}
		}
		d.Relationships = append(d.Relationships, relation)
	}
	return d
}
