package dashboards_test

import (
	"encoding/json"
	"io/fs"
	"testing"

	"github.com/shadowlimit/shadowlimit/dashboards"
)

// board has the fields of a dashboard that the tests read. The tests read the files,
// not the program that wrote them, so that a wrong generator cannot agree with itself.
type board struct {
	file          string
	ID            *int
	UID, Title    string
	SchemaVersion int
	Editable      *bool
	Inputs        any `json:"__inputs"`
	Templating    struct{ List []variable }
	Annotations   struct{ List []annotation }
	Links         []link
	Panels        []panel
}

type variable struct {
	Name, Label, Type, AllValue string
	Datasource                  *source
	Query                       any
	Refresh                     int
	Multi, IncludeAll           bool
}

type source struct{ Type, UID string }

type annotation struct {
	Name    string
	BuiltIn int
	Target  *target
}

type link struct{ Title, URL string }

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               *source
	Links                    []link
	Targets                  []target
	FieldConfig              struct {
		Defaults struct{ Unit string }
	}
}

type target struct {
	Datasource                *source
	RefID, Expr, LegendFormat string
	Format                    string
	Instant, Range            bool
}

func boards(t *testing.T) []board {
	t.Helper()

	names, err := fs.Glob(dashboards.Files, "*.json")
	if err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}

	list := make([]board, len(names))
	for i, name := range names {
		text, err := dashboards.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &list[i]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list[i].file = name
	}

	return list
}

// eachPanel calls f with every panel that is not a row.
func (b board) eachPanel(f func(panel)) {
	for _, p := range b.Panels {
		if p.Type != "row" {
			f(p)
		}
	}
}

// eachQuery calls f with every query of panels and annotations.
func (b board) eachQuery(f func(where string, q target)) {
	b.eachPanel(func(p panel) {
		for _, q := range p.Targets {
			f(p.Title+" "+q.RefID, q)
		}
	})

	for _, a := range b.Annotations.List {
		if a.Target != nil {
			f("annotation "+a.Name, *a.Target)
		}
	}
}

// variable returns the variable of a name, or the zero value if there is none.
func (b board) variable(name string) variable {
	for _, v := range b.Templating.List {
		if v.Name == name {
			return v
		}
	}
	return variable{}
}
