package policies

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/shadowlimit/shadowlimit/algorithms"
)

// hostileRequest warns of an expression that a client can make fail, where the file
// does not say what happens then: by default the client is not limited. One warning
// a policy is enough, for one on_error answers them all.
func (l *linter) hostileRequest(p *Policy, at places) {
	if at["on_error"] != nil {
		return
	}

	// In the order of the evaluation. A candidate whose limit fails harms itself alone.
	authoritative := p.Sides[algorithms.Authoritative]
	switch {
	case l.canFail("when", p.when, at), l.canFail("cost", p.cost.expression, at):
	case l.keyCanFail(p.key, at), l.negatesAbsent(p, at["when"]):
	case l.canFail("authoritative", authoritative.limit.expression, at):
	default:
		l.canFail("authoritative", authoritative.burst.expression, at)
	}
}

// canFail warns of a field's expression, and reports whether it has done so.
func (l *linter) canFail(field string, x *expression, at places) bool {
	if x == nil || len(x.failures) == 0 {
		return false
	}

	l.warn(at[field], "%s: a client that sends %s makes this fail, and is then not limited at all: "+
		"say what happens then, on_error: deny or on_error: allow", field, strings.Join(x.failures, " or "))
	return true
}

// withoutShare warns of today's limiter where it is foreign and has no limit in the file: local then has no share of a limit to
// apply. Where the file says what happens, its author has decided.
func (l *linter) withoutShare(p *Policy, at places) {
	side := p.Sides[algorithms.Authoritative]
	if !side.Foreign() || side.window > 0 || at["on_store_failure"] != nil {
		return
	}

	l.warn(at["authoritative"], "%s: while this limiter fails, every request is allowed, because on_store_failure: local has no limit "+
		"of it to go by: write limit and window beside its name, or say on_store_failure: allow or deny", side.Limiter)
}

// keyCanFail is canFail of a key's expressions.
func (l *linter) keyCanFail(k key, at places) bool {
	for _, x := range k {
		if l.canFail("key", x, at) {
			return true
		}
	}
	return false
}

// negatesAbsent warns of a condition such as headers["x-plan"] != "internal": its
// author means requests without the header, too, for which it fails.
func (l *linter) negatesAbsent(p *Policy, at *yaml.Node) bool {
	if p.when == nil || !strings.Contains(p.when.source, "!") {
		return false
	}
	// The first is enough: all have the same remedy.
	absent := p.when.assumed()
	if len(absent) == 0 {
		return false
	}

	l.warn(at, "when: for a request without %s the condition fails instead of being true, "+
		"and the request is not limited: give it a default with [?...].orValue(...), or set on_error: deny", absent[0])
	return true
}

// unknownSize warns of a cost that is the size of a body as such: a client chooses not
// to say the size, and pays nothing.
func (l *linter) unknownSize(p *Policy, at places) {
	x := p.cost.expression
	if x == nil || at["on_error"] != nil || !x.inputs["request.size"] {
		return
	}
	if strings.Contains(x.source, "?") || strings.Contains(x.source, "math.greatest") {
		return // the author has thought of it
	}

	l.warn(at["cost"], "cost: request.size is -1 if the client does not send the size, as with "+
		"Transfer-Encoding: chunked; a cost below 0 fails, and the client is not limited: "+
		"use math.greatest(request.size, 1), and bound the body")
}
