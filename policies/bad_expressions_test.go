package policies_test

import "strings"

// badExpressions are mistakes in expressions, in all styles of YAML: the place, the message of CEL, and the nearest name.
var badExpressions = []badFile{
	// Names.
	{"a typing error in a name", onePolicy("key: request.methodd"), 5, 10, "did you mean request.method?"},
	{"two letters in the wrong order", onePolicy("key: reqeust.ip"), 5, 10, "did you mean request.ip?"},
	{"a name before a function", onePolicy("when: request.rout.startsWith('/')\n    key: request.ip"), 5, 11, "did you mean request.route?"},
	{"a field of the request without request", onePolicy("key: ip"), 5, 10, "did you mean request.ip?"},
	{"a variable without its word", "variables: {tenant: request.user}\n" + onePolicy("key: [tenant]"), 6, 11, "did you mean variables.tenant?"},
	{"a name like no other", onePolicy("key: [request.ip, request.nope]"), 5, 23, "there is no request.nope: there are request.claims"},
	{"a text without quotes", onePolicy("when: request.method == GET\n    key: request.ip"), 5, 29, "there is no GET"},
	{"a function", onePolicy("when: request.path.startWith('/')\n    key: request.ip"), 5, 33, "did you mean startsWith?"},
	{"a function like no other", onePolicy("key: md5(request.ip)"), 5, 13, "there is no function md5"},
	{
		"a variable that stands below", "version: 1\nname: a\nvariables:\n  a: variables.b\n  b: request.ip\n" +
			"policies: [{ name: p, key: variables.a, authoritative: { algorithm: gcra, limit: 1, window: 1s } }]\n",
		4, 6, "there is no variables.b",
	},

	// The places of the message, by the style of the text.
	{"in a block", onePolicy("when: |\n      request.method == 'GET' &&\n      request.size == 'x'\n    key: request.ip"), 7, 20, "(int, string)"},
	{"further in on its line", onePolicy("when: |\n      true &&\n        request.nope == ''\n    key: request.ip"), 7, 9, "request.nope"},
	{"in a folded block", onePolicy("when: >-\n      true &&\n      request.nope == ''\n    key: request.ip"), 5, 11, "request.nope"},
	{"in a plain text of two lines", onePolicy("when: true &&\n      request.nope == ''\n    key: request.ip"), 5, 11, "request.nope"},
	{"in a quoted text of two lines", onePolicy("when: \"true &&\n      request.nope == ''\"\n    key: request.ip"), 5, 11, "request.nope"},
	{"in the first of two lines", onePolicy("when: request.nope ==\n      ''\n    key: request.ip"), 5, 11, "request.nope"},
	{"below a line separator", "# a\u2028# b\r# c\r\n" + onePolicy("key: request.nope"), 8, 10, "request.nope"},
	{"behind an escape", onePolicy("when: 'request.path == '''' || request.nope == request.ip'\n    key: request.ip"), 5, 11, "request.nope"},
	{"in quotes", onePolicy("key: 'request.ip + 1'"), 5, 22, "(string, int)"},

	// Messages of CEL.
	{"one sign of equality", onePolicy("when: request.method = 'GET'\n    key: request.ip"), 5, 26, "Syntax error"},
	{"a word of another language", onePolicy("when: request.method == 'GET' and true\n    key: request.ip"), 5, 35, "Syntax error"},
	{"one ] too much", onePolicy("when: 'request.ip in [\"a\"]]'\n    key: request.ip"), 5, 31, "Syntax error"},
	{"a condition that ends too early", onePolicy("when: request.method ==\n    key: request.ip"), 5, 28, "Syntax error"},
	{"a text without its end", onePolicy("when: request.method == 'a\n    key: request.ip"), 5, 29, "Syntax error"},
	{"if", onePolicy("when: if true then true\n    key: request.ip"), 5, 11, "reserved identifier: if"},
	{"too few arguments", onePolicy("when: request.path.startsWith()\n    key: request.ip"), 5, 34, "'startsWith'"},
	{"has of a field", onePolicy("when: has(request.user)\n    key: request.ip"), 5, 15, "undeclared reference to 'request'"},
	{"a bad regular expression", onePolicy("when: request.path.matches('(')\n    key: request.ip"), 5, 32, "invalid matches argument"},
	{"a bad duration", onePolicy("when: duration('soon') > duration('1s')\n    key: request.ip"), 5, 20, "invalid duration argument"},
	{"a list of mixed types", onePolicy("when: request.method in ['GET', 1]\n    key: request.ip"), 5, 0, "'string' but found 'int'"},

	// Types.
	{"wrong type", onePolicy("when: request.path\n    key: request.ip"), 5, 11, "of type string: want bool"},
	{"key of a wrong type", onePolicy("key: request.headers"), 5, 10, "want string or int"},
	{"a key that is a fraction", onePolicy("key: 1.5"), 5, 10, "of type double"},
	{"cost of no number", onePolicy("cost: request.ip\n    key: request.ip"), 5, 11, "of type string: want int"},
	{"negative cost", onePolicy("cost: -1\n    key: request.ip"), 5, 11, "cost: want a whole number, at least 0"},
	{"a cost that is a list", onePolicy("cost: [1]\n    key: request.ip"), 5, 11, "cost: want a whole number"},
	{"an empty condition", onePolicy("when: ''\n    key: request.ip"), 5, 11, "when: want a CEL expression"},
	{"a key that is a mapping", onePolicy("key: {a: request.ip}"), 5, 10, "key: want a CEL expression"},
	{"a list in the list of a key", onePolicy("key: [[request.ip]]"), 5, 11, "key: want a CEL expression"},
	{"empty key list", onePolicy("key: []"), 5, 10, "at least one expression"},
	{"a key of too many parts", onePolicy("key: [" + strings.Repeat("request.ip, ", 17) + "]"), 5, 10, "at most 16"},

	// Headers, whose names expressions see in lower case.
	{"a header", onePolicy("when: 'true'\n    key: request.headers[\"X-Tenant\"]"), 6, 26, `"x-tenant"`},
	{"a header that may be absent", onePolicy("key: request.headers[?\"X-Tenant\"].orValue('')"), 5, 27, `"x-tenant"`},
	{"a header in a condition", onePolicy("when: '\"X-Tenant\" in request.headers'\n    key: request.ip"), 5, 12, `"x-tenant"`},

	// Bounds.
	{
		"a regular expression that is short and slow",
		onePolicy("when: request.path.matches('(a{1,100}){1,10}b')\n    key: request.ip"), 5, 11, "it may cost",
	},
	{
		"the same for a claim", onePolicy("when: request.claims.sub.matches('(a{1,100}){1,10}b')\n    key: request.ip"),
		5, 11, "it may cost",
	},
	{
		"the same, put together from two texts",
		onePolicy("when: request.path.matches('(a{1,100})' + '{1,10}b')\n    key: request.ip"), 5, 11, "it may cost",
	},
	{
		"loops in loops", onePolicy("when: '[1].all(a, [1].all(b, [1].all(c, a == b)))'\n    key: request.ip"),
		5, 0, "comprehension exceeds nesting limit",
	},
	{
		"an expression that is too long",
		onePolicy("when: request.path == '" + strings.Repeat("x", 5000) + "'\n    key: request.ip"), 5, 11, "4096",
	},
	{
		"an expression that is too deep",
		onePolicy("when: " + strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60) + "\n    key: request.ip"),
		5, 0, "recursion limit",
	},
}
