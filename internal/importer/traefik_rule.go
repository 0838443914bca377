package importer

import (
	"fmt"
	"strings"
)

// ruleParser takes a rule of Traefik apart: functions with texts, joined by &&, || and !.
type ruleParser struct {
	rest  string
	depth int
}

// parseRule returns the condition of a rule.
func parseRule(text string) (expr, error) {
	if len(text) > mostExpression {
		return expr{}, fmt.Errorf("it is too long")
	}
	p := &ruleParser{rest: text}
	e, err := p.either()
	if err == nil && p.skip() != "" {
		err = fmt.Errorf("unexpected %.20q", p.rest)
	}
	return e, err
}

// skip goes to the next sign, and returns the rest.
func (p *ruleParser) skip() string {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	return p.rest
}

// takes goes behind a sign if it comes next.
func (p *ruleParser) takes(sign string) bool {
	rest, found := strings.CutPrefix(p.skip(), sign)
	p.rest = rest
	return found
}

func (p *ruleParser) either() (expr, error) {
	e, err := p.both()
	for err == nil && p.takes("||") {
		var next expr
		next, err = p.both()
		e = or(e, next)
	}
	return e, err
}

func (p *ruleParser) both() (expr, error) {
	e, err := p.one()
	for err == nil && p.takes("&&") {
		var next expr
		next, err = p.one()
		e = and(e, next)
	}
	return e, err
}

func (p *ruleParser) one() (expr, error) {
	if p.depth++; p.depth > mostDepth {
		return expr{}, fmt.Errorf("too deep")
	}
	defer func() { p.depth-- }()

	if p.takes("!") {
		e, err := p.one()
		return not(e), err
	}
	if p.takes("(") {
		e, err := p.either()
		if err == nil && !p.takes(")") {
			err = fmt.Errorf("a ) is missing")
		}
		return e, err
	}

	name := leadingName(p.skip())
	p.rest = p.rest[len(name):]
	arguments, err := p.arguments()
	if err != nil {
		return expr{}, err
	}
	return ruleFunction(name, arguments)
}

// arguments reads the texts of a function, in backticks or in quotes.
func (p *ruleParser) arguments() (list []string, err error) {
	if !p.takes("(") {
		return nil, fmt.Errorf("unexpected %.20q", p.rest)
	}
	for {
		if p.skip() == "" || strings.IndexByte("`\"", p.rest[0]) < 0 {
			return nil, fmt.Errorf("a text is missing at %.20q", p.rest)
		}
		text, rest, found := strings.Cut(p.rest[1:], p.rest[:1])
		if !found {
			return nil, fmt.Errorf("a quote is not closed")
		}

		p.rest = rest
		list = append(list, text)
		if p.takes(")") {
			return list, nil
		}
		if !p.takes(",") {
			return nil, fmt.Errorf("unexpected %.20q", p.rest)
		}
	}
}

// ruleFunction returns the condition of a function.
func ruleFunction(name string, texts []string) (expr, error) {
	first, second := texts[0], ""
	if len(texts) > 1 {
		second = texts[1]
	}

	e := no
	switch name {
	case "Host":
		return hostsOf(texts), nil
	case "Path":
		return oneOf(requestPath, texts), plainPaths(texts)
	case "PathPrefix":
		for _, prefix := range texts {
			if prefix == "/" {
				return yes, nil
			}
			e = or(e, hasPrefix(requestPath, prefix))
		}
		return e, plainPaths(texts)
	case "Method":
		return oneOf(expr{"request.method", atom}, texts), nil
	case "Header", "Headers":
		return equals(headerValue(first), literal(second)), nil
	case "Query":
		value := expr{"request.query[?" + literal(first).text + `].orValue("")`, atom}
		return equals(value, literal(second)), nil
	case "HostRegexp":
		e = matches(requestHost, first)
	case "PathRegexp":
		e = matches(requestPath, first)
	case "HeaderRegexp", "HeadersRegexp":
		e = matches(headerValue(first), second)
	case "ClientIP":
		for _, text := range texts {
			prefix, ok := prefixOf(text)
			if !ok {
				return expr{}, fmt.Errorf("%s is no network", text)
			}
			e = or(e, inNetwork(requestIP, prefix))
		}
	default:
		return expr{}, fmt.Errorf("no function %q that a policy has", name)
	}
	if e == no {
		return expr{}, fmt.Errorf("no regular expression of RE2")
	}
	return e, nil
}

// plainPaths refuses the templates of older releases.
func plainPaths(texts []string) error {
	for _, text := range texts {
		if strings.ContainsAny(text, "{}") {
			return fmt.Errorf("a template of a path: write it as PathRegexp")
		}
	}
	return nil
}
