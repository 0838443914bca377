package policies_test

import "strings"

// badExpressions are mistakes in expressions, in all styles of YAML.
var badExpressions = []badFile{
	{
		"a regular expression that is short and slow",
		onePolicy("when: request.path.matches('(a{1,100}){1,10}b')\n    key: request.ip"),
		5, 11, "it may cost",
	},
	{
		"the same for a claim", onePolicy("when: request.claims.sub.matches('(a{1,100}){1,10}b')\n    key: request.ip"),
		5, 11, "it may cost",
	},
	{
		"the same, put together from two texts",
		onePolicy("when: request.path.matches('(a{1,100})' + '{1,10}b')\n    key: request.ip"),
		5, 11, "it may cost",
	},
	{"a field of the request without request", onePolicy("key: ip"), 5, 10, "did you mean request.ip?"},
	{
		"a text whose quotes are YAML's alone", onePolicy("key: \"everyone\""),
		5, 11, `if it is a text, quote it within the quotes of YAML: '"everyone"'`,
	},
	{
		"one sign of equality", onePolicy("when: request.method = 'GET'\n    key: request.ip"),
		5, 26, "write == to compare",
	},
	{
		"a regular expression that is not closed", onePolicy(`when: request.path.matches("^/(a")` + "\n    key: request.ip"),
		5, 32, "no regular expression of RE2: missing closing ): ^/(a",
	},
	{
		"a lookahead, in a raw text", onePolicy(`when: request.path.matches(r'^(?=/a)\w')` + "\n    key: request.ip"),
		5, 32, "has no lookahead and no lookbehind: (?=",
	},
	{
		"a variable that stands below", "version: 1\nname: a\nvariables:\n  a: variables.b\n  b: request.ip\n" +
			"policies: [{ name: p, key: variables.a, authoritative: { algorithm: gcra, limit: 1, window: 1s } }]\n",
		4, 6, "there is no variables.b; a variable sees the variables above it alone",
	},
	{"a function that CEL has not", onePolicy("key: md5(request.ip)"), 5, 13, "there is no function md5"},
	{"the time of another language", onePolicy("when: now() > request.time\n    key: a"), 5, 14, "now: write request.time"},
	{
		"a function of addresses", onePolicy("when: request.ip.inCidr('10.0.0.0/8')\n    key: a"),
		5, 28, `write cidr("10.0.0.0/8").containsIP(request.ip)`,
	},
	{"in a network", onePolicy("when: request.ip in '10.0.0.0/8'\n    key: a"), 5, 22, "cidr('10.0.0.0/8').containsIP(request.ip)"},
	{"a header in brackets", onePolicy("key: request.headers[x-tenant]"), 5, 10, `write request.headers[?"x-tenant"].orValue("none")`},
	{
		"a default of another type", onePolicy("key: request.headers[?'x'].orValue(0)"),
		5, 0, "of type string, and its default of type int: make them one type",
	},
	{"a limit in words", side("algorithm: gcra, limit: unlimited, window: 1m"), 5, 45, "unlimited is no number"},
	{"a limit with its window", side("algorithm: gcra, limit: 100/m, window: 1m"), 5, 45, "write limit: 100, and the time as window"},
	{"a backslash", onePolicy(`when: request.path.matches("\d")` + "\n    key: a"), 5, 32, "a backslash is written twice"},
	{
		"a variable with a dash", "version: 1\nname: a\nvariables: { my-tenant: request.ip }\n" +
			"policies: [{ name: p, key: request.ip, authoritative: { algorithm: gcra, limit: 1, window: 1s } }]\n",
		3, 14, "write my_tenant",
	},
	{"an optional entry as a key", onePolicy("key: request.headers[?'x']"), 5, 10, `write request.headers[?'x'].orValue("none")`},
	{"an instant as a key", onePolicy("key: request.time"), 5, 10, "such as request.time.getHours()"},
	{"a part of the time", onePolicy("when: request.time.hour > 3\n    key: a"), 5, 23, "write request.time.getHours()"},
	{"a field of a text", onePolicy("when: request.path.size > 3\n    key: a"), 5, 0, "there is no field size"},
	{"has() of an index", onePolicy("when: has(request.headers['x'])\n    key: a"), 5, 0, `with a dash, "x-plan" in request.headers`},
	{"has() of all headers", onePolicy("when: has(request.headers)\n    key: a"), 5, 15, "write size(request.headers) > 0"},
	{"a time as a text", onePolicy("when: request.time > '2026-01-01'\n    key: a"), 5, 0, "an instant is timestamp("},
	{"a list that contains", onePolicy("when: '[\"GET\"].contains(request.method)'\n    key: a"), 5, 0, "write request.method in ["},
	{"a negated text", onePolicy("when: '!request.user'\n    key: a"), 5, 0, `write request.user == ""`},
	{"a text as a condition", onePolicy("when: request.user\n    key: a"), 5, 11, `write request.user != ""`},
	{"a claim as a condition", onePolicy("when: request.claims.admin\n    key: a"), 5, 11, "request.claims.admin == true"},
	{"a word of SQL", onePolicy("when: request.path LIKE '/a'\n    key: a"), 5, 0, "write startsWith"},
	{"another name of the request", onePolicy("when: req.method == 'GET'\n    key: a"), 5, 11, "did you mean request.method?"},
	{"a template", onePolicy("key: '{{ request.ip }}'"), 5, 11, "an expression has no braces around it: write request.ip"},
	{"a number with a unit", side("algorithm: gcra, limit: 10k, window: 1m"), 5, 45, "a number has no unit: write 10000"},
	{"a table that is not there", onePolicy("when: request.path in data.limits\n    key: a"), 5, 0, "into a section data"},
	{"a field as others name it", onePolicy("key: request.ip\n    if: 'true'"), 6, 5, "did you mean when?"},
	{"a side's field as others name it", onePolicy("key: request.ip\n    algo: gcra"), 6, 5, "mean algorithm? it is a field of a side"},
	{"YAML's merge", onePolicy("key: request.ip\n    <<: {}"), 6, 5, "YAML's merge is not read"},
	{"and", onePolicy("when: request.method == 'GET' and true\n    key: request.ip"), 5, 35, "write &&"},
	{
		"a header that is not in lower case", onePolicy("when: 'true'\n    key: request.headers[\"X-Tenant\"]"),
		6, 26, `expressions see header names in lower case: write "x-tenant"`,
	},
	{
		"a header that is not in lower case and may be absent",
		onePolicy("key: request.headers[?\"X-Tenant\"].orValue('')"),
		5, 27, `write "x-tenant"`,
	},
	{
		"a header that is not in lower case in a condition",
		onePolicy("when: '\"X-Tenant\" in request.headers'\n    key: request.ip"),
		5, 12, `write "x-tenant"`,
	},
	{
		"typing error in a name", onePolicy("key: request.methodd"),
		5, 10, "there is no request.methodd: did you mean request.method?",
	},
	{
		"second line of a block",
		onePolicy("when: |\n      request.method == 'GET' &&\n      request.size == 'x'\n    key: request.ip"),
		7, 20, "== does not take int and string: both must be of one type",
	},
	{
		"further in on a block's line",
		onePolicy("when: |\n      true &&\n        request.nope == ''\n    key: request.ip"),
		7, 9, "there is no request.nope",
	},
	{
		"in a folded block", onePolicy("when: >-\n      true &&\n      request.nope == ''\n    key: request.ip"),
		5, 11, "there is no request.nope",
	},
	{
		"in a plain text of two lines", onePolicy("when: true &&\n      request.nope == ''\n    key: request.ip"),
		5, 11, "there is no request.nope",
	},
	{
		"in a quoted text of two lines", onePolicy("when: \"true &&\n      request.nope == ''\"\n    key: request.ip"),
		5, 11, "there is no request.nope",
	},
	{
		"in the first of two lines", onePolicy("when: request.nope ==\n      ''\n    key: request.ip"),
		5, 11, "there is no request.nope",
	},
	{
		"below a line separator", "# a\u2028# b\r# c\r\n" + onePolicy("key: request.nope"),
		8, 10, "there is no request.nope",
	},
	{
		"behind an escape", onePolicy("when: 'request.path == '''' || request.nope == request.ip'\n    key: request.ip"),
		5, 11, "there is no request.nope",
	},
	{"a key of too many parts", onePolicy("key: [" + strings.Repeat("request.ip, ", 17) + "]"), 5, 10, "at most 16"},
	{"one ] too much", onePolicy("when: 'request.ip in [\"a\"]]'\n    key: request.ip"), 5, 31, "the expression has ended before ]"},
	{"a parenthesis too few", onePolicy("when: '(true'\n    key: request.ip"), 5, 17, ") is missing at the end"},
	{"typographic quotes", onePolicy("when: request.path == “a”\n    key: request.ip"), 5, 27, "“ has no meaning: write \""},
	{"AND", onePolicy("when: true AND true\n    key: request.ip"), 5, 16, "before AND: write &&"},
	{"another default", onePolicy("key: request.user ?? request.ip"), 5, 24, "write orValue"},
	{"a word in front of a text", onePolicy("when: request.path startsWith \"/\"\n    key: request.ip"), 5, 24, "it is called"},
	{"a text without quotes", onePolicy("when: request.method == GET\n    key: request.ip"), 5, 29, `a text needs quotes, "GET"`},
	{"results of two types", onePolicy("cost: 'true ? 10 : 1.5'\n    key: request.ip"), 5, 0, "both results of ? : must be of one type"},
	{"a text as a condition", onePolicy("when: request.method == 'A' || 'B'\n    key: request.ip"), 5, 0, "compare each of several texts"},
	{"if", onePolicy("when: if true then true\n    key: request.ip"), 5, 11, "a choice is condition ? one : other"},
	{
		"a header with a dash behind a dot", onePolicy("when: request.headers.x-tenant == 'a'\n    key: request.ip"),
		5, 11, `write request.headers[?"x-tenant"].orValue("none")`,
	},
	{
		"a typing error before a function", onePolicy("when: request.rout.startsWith('/')\n    key: request.ip"),
		5, 11, "there is no request.rout: did you mean request.route?",
	},
	{"in quotes", onePolicy("key: 'request.ip + 1'"), 5, 22, "+ does not take string and int"},
	{"wrong type", onePolicy("when: request.path\n    key: request.ip"), 5, 11, "of type string: want bool"},
	{"cost of no number", onePolicy("cost: request.ip\n    key: request.ip"), 5, 11, "of type string: want int"},
	{"negative cost", onePolicy("cost: -1\n    key: request.ip"), 5, 11, "cost: want a whole number, at least 0"},
	{
		"a variable without its word", "variables: {tenant: request.user}\n" + onePolicy("key: [tenant]"),
		6, 11, "did you mean variables.tenant?",
	},
	{"has of a field", onePolicy("when: has(request.user)\n    key: a"), 5, 0, `write request.user != ""`},
	{"in of a text", onePolicy("when: request.method in 'POST'\n    key: a"), 5, 0, "in takes a list or a table"},
	{"a default of an entry that must be there", onePolicy("key: request.headers['x'].orValue('a')"), 5, 0, "it needs the optional access"},
	{"an entry without its default", onePolicy("when: request.headers[?'x'] == 'b'\n    key: a"), 5, 0, "by .orValue"},
	{"one length of networks", onePolicy("key: ipGroup(request.ip, 64)"), 5, 0, "ipGroup(request.ip, 24, 56)"},
	{"a null", onePolicy("when: request.user != null\n    key: a"), 5, 0, `a text that is absent is ""`},
	{"a function of another language", onePolicy("when: len(request.user) > 3\n    key: a"), 5, 0, "write size(...)"},
	{"a comma in a number", onePolicy("key: request.ip\n    promotion: { min_denials: 1,000 }"), 6, 33, "a number has no comma"},
	{"a colon without its space", onePolicy("key: request.ip\n    promotion: { dwell:1h }"), 6, 18, "a space is missing behind the colon"},
	{"braces around a key", onePolicy("key: {request.ip}"), 5, 10, "YAML takes { for a mapping"},
	{"a percentage without its sign", onePolicy("key: request.ip\n    promotion: { newly_denied: 20 }"), 6, 32, "such as 20%"},
	{"two letters in the wrong order", onePolicy("key: request.ip\n    wehn: 'true'"), 6, 5, "did you mean when?"},
	{"two letters of a word in front of a dot", onePolicy("key: reqeust.ip"), 5, 10, "did you mean request.ip?"},
	{"a list in the list of a key", onePolicy("key: [[request.ip]]"), 5, 11, "write it without these brackets"},
	{"a negation in words", onePolicy("when: NOT request.path == 'not'\n    key: request.ip"), 5, 11, "NOT is no operator: write !(...)"},
	{"a negation of a part", onePolicy("when: 'true && not (request.path == \"/a\")'\n    key: request.ip"), 5, 20, "not is no operator"},
	{"another mistake beside the word", onePolicy("when: 'request.path == \"not\" + 1'\n    key: request.ip"), 5, 34, "+ does not take"},
	{"key of a wrong type", onePolicy("key: request.headers"), 5, 10, "want string or int"},
	{"empty key list", onePolicy("key: []"), 5, 10, "at least one expression"},
	{
		"bad element of a key", onePolicy("key: [request.ip, request.nope]"),
		5, 23, "there is no request.nope: the names are request.method",
	},
	{
		"loops in loops", onePolicy("when: '[1].all(a, [1].all(b, [1].all(c, a == b)))'\n    key: request.ip"),
		5, 0, "comprehension exceeds nesting limit: at most one loop inside a loop",
	},
	{"an empty condition", onePolicy("when: ''\n    key: request.ip"), 5, 11, "when: want a CEL expression"},
	{
		"a condition that ends too early", onePolicy("when: request.method ==\n    key: request.ip"),
		5, 28, "Syntax error: the expression ends too early",
	},
	{"a text without its end", onePolicy("when: request.method == 'a\n    key: request.ip"), 5, 29, "write ' at its end"},
	{
		"an unknown function", onePolicy("when: request.path.startWith('/')\n    key: request.ip"),
		5, 33, "startWith",
	},
	{
		"too few arguments", onePolicy("when: request.path.startsWith()\n    key: request.ip"),
		5, 34, "there is no startsWith for string.()",
	},
	{
		"a bad regular expression", onePolicy("when: request.path.matches('(')\n    key: request.ip"),
		5, 32, "missing closing ): (",
	},
	{
		"a bad duration", onePolicy("when: duration('soon') > duration('1s')\n    key: request.ip"),
		5, 20, "invalid duration argument",
	},
	{
		"an expression that is too long",
		onePolicy("when: request.path == '" + strings.Repeat("x", 5000) + "'\n    key: request.ip"),
		5, 0, "has 5018 characters: at most 4096: put lists into data",
	},
	{
		"an expression that is too deep",
		onePolicy("when: " + strings.Repeat("(", 60) + "true" + strings.Repeat(")", 60) + "\n    key: request.ip"),
		5, 0, "recursion limit",
	},
	{
		"a list of mixed types", onePolicy("when: request.method in ['GET', 1]\n    key: request.ip"),
		5, 0, "expected type 'string' but found 'int'",
	},
	{"a key that is a fraction", onePolicy("key: 1.5"), 5, 10, "of type double"},
	{"a key that is a mapping", onePolicy("key: {a: request.ip}"), 5, 10, "key: want a CEL expression"},
	{"a cost that is a list", onePolicy("cost: [1]\n    key: request.ip"), 5, 11, "cost: want a whole number"},
}
