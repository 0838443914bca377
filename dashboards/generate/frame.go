package main

// This file has the parts that all boards share: variables, annotations, links.

func variables() []variable {
	ask := func(name, label, query string) variable {
		return variable{
			Name: name, Label: label, Type: "query", Datasource: &prometheus, Definition: query,
			Query: variableQuery{1, query, "PrometheusVariableQueryEditor-VariableQuery"}, Refresh: 2, Sort: 1,
			Current: map[string]any{}, Options: []struct{}{},
		}
	}

	many := func(v variable) variable {
		v.Multi, v.IncludeAll, v.AllValue = true, true, ".+"
		v.Current = map[string]any{"text": []string{"All"}, "value": []string{"$__all"}}
		return v
	}

	return []variable{
		{
			Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: 1,
			Current: map[string]any{}, Options: []struct{}{},
		},
		many(ask("job", "Job", `label_values(shadowlimit_build_info, job)`)),
		ask("name", "Service", `label_values(shadowlimit_build_info{job=~"$job"}, name)`),
		many(ask("instance", "Instance", `label_values(shadowlimit_build_info{job=~"$job",name="$name"}, instance)`)),
		many(ask("policy", "Policy", `label_values(shadowlimit_stage{job=~"$job",name="$name"}, policy)`)),
	}
}

// annotationList marks events. Its queries have a step of at least a minute and an
// increase over the rate interval, which reaches one scrape further back than the
// step: an increase over the step alone would miss a change between two windows.
func annotationList() []annotation {
	mark := func(name, color, title, text, tags, expr string) annotation {
		return annotation{
			Name: name, Datasource: prometheus, Enable: true, IconColor: color,
			TitleFormat: title, TextFormat: text, TagKeys: tags,
			Target: &target{Datasource: prometheus, RefID: "Anno", Expr: expr, Interval: "60s", Range: true},
		}
	}

	return []annotation{
		{
			Name: "Annotations & Alerts", BuiltIn: 1, Type: "dashboard", Datasource: source{"grafana", "-- Grafana --"},
			Enable: true, Hide: true, IconColor: "rgba(0, 211, 255, 1)",
		},
		mark("Transitions", "purple", "{{policy}}: {{stage}}", "An instance has applied this stage.", "policy,stage",
			"max by (policy, stage) (increase("+series("transitions_total")+"[$__rate_interval])) > 0"),
		mark("Alerts", "red", "{{alertname}}", "{{policy}} {{instance}}", "severity,alertname",
			`ALERTS{alertname=~"Shadowlimit.+",alertstate="firing",name=~"$name|"}`),
	}
}

// links lead to the other boards, with the same time and variables.
func links(uid string) []link {
	all := []struct{ uid, title string }{
		{overviewUID, overviewTitle},
		{divergenceUID, divergenceTitle},
		{runtimeUID, runtimeTitle},
	}

	var list []link
	for _, b := range all {
		if b.uid != uid {
			list = append(list, link{
				Title: b.title, Type: "link", Icon: "dashboard", URL: "/d/" + b.uid, IncludeVars: true, KeepTime: true,
			})
		}
	}

	return append(list, link{
		Title: "Runbooks", Type: "link", Icon: "doc", URL: runbooks, Tooltip: "What to do when an alert fires", TargetBlank: true,
	})
}
