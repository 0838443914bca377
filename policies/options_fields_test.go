package policies

import (
	"reflect"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// Each option of the algorithms is a field of a side: an option that no file can have would be tried by replay alone.
func TestEveryOptionIsAField(t *testing.T) {
	fields := reflect.TypeFor[algorithms.Options]()
	for i := range fields.NumField() {
		name := optionOf(i)
		if name == "" {
			t.Errorf("options has no row that copies %s", fields.Field(i).Name)
			continue
		}

		// No option is a list, so its reader refuses it. A field that is not known is refused with other words.
		_, err := Load("p.yaml", []byte("version: 1\nname: a\npolicies:\n  - name: p\n    key: request.ip\n    authoritative: "+
			"{ algorithm: gcra, limit: 1, window: 1m, "+name+": [1] }\n"))
		if err == nil || strings.Contains(err.Error(), "has no field") {
			t.Errorf("a side has no field %s: %v", name, err)
		}
	}
}

// optionOf returns the name of the row of options that copies a field, "" if none does.
func optionOf(field int) string {
	var from algorithms.Options
	switch v := reflect.ValueOf(&from).Elem().Field(field); v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(1)
	default:
		v.SetUint(1)
	}

	for _, o := range options {
		var into algorithms.Options
		o.into(from, &into)
		if into == from {
			return o.name
		}
	}
	return ""
}
