package stages

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/shadowlimit/shadowlimit/policies"
)

// Every field of a file's section reaches the gate, and every field of the gate's
// configuration can be set in a file: a field that is added to one type and forgotten
// in the other, or in the conversion, fails here.
func TestEveryPromotionFieldIsConverted(t *testing.T) {
	whole := reflect.New(reflect.TypeFor[policies.Promotion]()).Elem()
	for i := range whole.NumField() {
		name := whole.Type().Field(i).Name
		if !whole.Type().Field(i).IsExported() {
			continue
		}

		fill(t, whole.Field(i))

		one := reflect.New(whole.Type()).Elem()
		fill(t, one.Field(i))
		if got := declared(one.Interface().(policies.Promotion)); reflect.DeepEqual(got, Config{}) {
			t.Errorf("policies.Promotion.%s is not converted", name)
		}
	}

	for _, field := range unset(reflect.ValueOf(declared(whole.Interface().(policies.Promotion)))) {
		if field == "Config.Graded" { // WithDefaults sets it where no soak is declared
			continue
		}
		t.Errorf("Config has %s, which no field of policies.Promotion sets", field)
	}
}

// fill gives a field a value that is not its zero value.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch value := v.Addr().Interface().(type) {
	case *string:
		*value = "automatic" // the one word that a conversion looks at; the others take any
	case *float64:
		*value = 0.5
	case *int64:
		*value = 7
	case *time.Duration:
		*value = time.Hour
	case *[]float64:
		*value = []float64{5}
	case *[]time.Weekday:
		*value = []time.Weekday{time.Monday}
	case *[]string:
		*value = []string{"a"}
	case **time.Location:
		*value = time.UTC
	default:
		t.Fatalf("a field of type %s: teach this test a value of it", v.Type())
	}
}

// unset names the fields of a configuration that have their zero value.
func unset(v reflect.Value) (names []string) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		switch {
		case field.Type.Kind() == reflect.Struct:
			for _, name := range unset(v.Field(i)) {
				names = append(names, field.Name+"."+name)
			}
		case v.Field(i).IsZero():
			names = append(names, field.Name)
		}
	}
	return names
}

// checkedFile is a file with one promotion section of its own and one of a policy.
const checkedFile = `version: 1
name: test
promotion: { FILE }
policies:
  - name: p
    key: request.user
    authoritative: { algorithm: fixed_window, limit: 10, window: 1m }
    candidate: { algorithm: gcra, limit: 10, window: 1m }
    promotion: { POLICY }
generation: 1
`

// findings loads a file with the gate's check, and returns its problems.
func findings(text string) (list []string) {
	set, err := policies.Load("p.yaml", []byte(text), Check)
	var problems *policies.Problems
	switch {
	case errors.As(err, &problems):
	case err != nil:
		return []string{err.Error()}
	default:
		problems = &policies.Problems{List: set.Warnings}
	}

	for _, p := range problems.List {
		list = append(list, fmt.Sprintf("%d:%d %s %s", p.Line, p.Column, p.Severity, p.Message))
	}
	return list
}

// A set that a program has loaded without the check has the same findings later.
func TestASetIsCheckedLater(t *testing.T) {
	text := strings.NewReplacer("FILE", "soak: 31d", "POLICY", "mode: manual").Replace(checkedFile)
	unchecked, err := policies.Load("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}

	var problems *policies.Problems
	_, err = policies.Load("p.yaml", []byte(text), Check)
	if got := unchecked.Check(Check); !errors.As(err, &problems) || len(got) != 1 || !reflect.DeepEqual(got, problems.List) {
		t.Errorf("got %v, want %v", got, err)
	}
}

// What the gate finds is said of the field that is to change, at its place: in the
// policy's section if that names one of the fields, else in the file's.
func TestFindingsOfTheGateHaveTheirPlace(t *testing.T) {
	tests := []struct {
		name, file, policy string
		want               []string // line:column severity message
	}{
		{"nothing", "mode: manual", "soak: 48h", nil},
		{"a short soak", "mode: manual", "mode: manual, soak: 12h", nil},
		{"a long soak", "mode: manual", "soak: 31d", []string{"9:24 error soak: "}},
		{"a long soak of the file, inherited", "soak: 31d", "mode: manual", []string{"3:20 error soak: "}},
	}

	for _, tt := range tests {
		text := strings.NewReplacer("FILE", tt.file, "POLICY", tt.policy).Replace(checkedFile)
		list := findings(text)
		if len(list) != len(tt.want) {
			t.Errorf("%s: got %q, want %d", tt.name, list, len(tt.want))
			continue
		}

		for i, want := range tt.want {
			if !strings.HasPrefix(list[i], want) {
				t.Errorf("%s: got %q, want %q", tt.name, list[i], want)
			}
		}
	}
}
