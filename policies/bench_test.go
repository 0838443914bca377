package policies_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/shadowlimit/shadowlimit/policies"
)

// The same condition, key and cost by a policy and by bare programs of cel-go, with
// typed variables, values on demand, and everything that can be folded folded.
const (
	benchWhen = `request.method in ["POST", "PUT"] && request.route.startsWith("/v1/")`
	benchKey  = `request.headers[?"x-tenant"].orValue("anonymous")`
	benchCost = `request.path.startsWith("/v1/bulk") ? 10 : 1`
)

const benchFile = `version: 1
name: a
policies:
  - name: p
    when: 'WHEN'
    key: 'KEY'
    cost: 'COST'
    authoritative: {algorithm: gcra, limit: 1, window: 1m}
`

func BenchmarkPolicy(b *testing.B) {
	text := strings.NewReplacer("WHEN", benchWhen, "KEY", benchKey, "COST", benchCost).Replace(benchFile)
	p := loadPolicy(b, text)
	h := http.Header{"X-Tenant": {"acme"}}

	var r policies.Request
	b.ReportAllocs()
	for b.Loop() {
		r.Reset()
		r.Method, r.Route, r.Path, r.Headers = "POST", "/v1/orders", "/v1/orders", h
		if c, ok, err := p.Check(b.Context(), &r); !ok || err != nil || c.Key != "acme" {
			b.Fatal(c, ok, err)
		}
	}
}

// bare is what the programs ask.
type bare struct {
	method, route, path string
	headers             map[string]string
}

func (bare) Parent() cel.Activation { return nil }

func (r *bare) ResolveName(name string) (any, bool) {
	switch name {
	case "request.method":
		return types.String(r.method), true
	case "request.route":
		return types.String(r.route), true
	case "request.path":
		return types.String(r.path), true
	case "request.headers":
		return r.headers, true
	}
	return nil, false
}

func BenchmarkBareCEL(b *testing.B) {
	programs := barePrograms(b)
	r := &bare{"POST", "/v1/orders", "/v1/orders", map[string]string{"x-tenant": "acme"}}

	b.ReportAllocs()
	for b.Loop() {
		for _, program := range programs {
			if _, _, err := program.Eval(r); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func barePrograms(b *testing.B) (programs []cel.Program) {
	env, err := cel.NewEnv(
		cel.OptionalTypes(),
		cel.Variable("request.method", cel.StringType),
		cel.Variable("request.route", cel.StringType),
		cel.Variable("request.path", cel.StringType),
		cel.Variable("request.headers", cel.MapType(cel.StringType, cel.StringType)),
	)
	if err != nil {
		b.Fatal(err)
	}

	for _, source := range []string{benchWhen, benchKey, benchCost} {
		ast, issues := env.Compile(source)
		if issues.Err() != nil {
			b.Fatal(issues.Err())
		}
		program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize))
		if err != nil {
			b.Fatal(err)
		}
		programs = append(programs, program)
	}
	return programs
}

func BenchmarkManyPolicies(b *testing.B) {
	const route = "  - name: pN\n    when: request.method == 'POST' && request.route == '/rN'\n    key: request.user\n" +
		"    authoritative: {algorithm: gcra, limit: 1, window: 1m}\n"

	for _, n := range []int{1, 100} {
		text := "version: 1\nname: a\npolicies:\n"
		for i := range n {
			text += strings.ReplaceAll(route, "N", fmt.Sprint(i))
		}
		set := load(b, text)

		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := &policies.Request{Method: "POST", Route: "/r0", User: "alice"}
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range set.Policies {
					p.Check(b.Context(), r)
				}
			}
		})
	}
}
