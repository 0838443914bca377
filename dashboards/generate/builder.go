package main

import "strings"

const (
	width    = 24 // of Grafana's grid
	runbooks = "https://github.com/shadowlimit/shadowlimit/blob/main/docs/runbooks/"
	tag      = "shadowlimit"
)

var prometheus = source{"prometheus", "${datasource}"}

// board is a dashboard: rows of panels, placed from left to right.
type board struct {
	name, uid   string
	title, what string
	rows        []row
}

type row struct {
	title  string
	height int // of its panels
	panels []panel
}

// panel is one chart or number, made by the functions below, one for each kind.
type panel struct {
	kind, title string
	what        string // its meaning, and what to do
	unit        string
	width       int
	queries     []query
	runbooks    []string // the pages about what it shows
	defaults    fieldDefaults
	overrides   []override
	options     map[string]any
	transforms  []transform
}

type query struct {
	legend, expr string
	format       string // of the answer; "" is a time series
}

func (b board) document() document {
	d := document{
		UID: b.uid, Title: b.title, Description: b.what, Tags: []string{tag},
		SchemaVersion: 42, // every Grafana in use can load it
		Version:       1,
		GraphTooltip:  1, // a shared crosshair
		Refresh:       "30s", Timezone: "utc", Time: timeRange{"now-6h", "now"},
		Templating: variableList{variables()}, Annotations: annotations{annotationList()}, Links: links(b.uid),
	}

	y := 0
	for _, r := range b.rows {
		collapsed := false
		d.Panels = append(d.Panels, panelModel{
			ID: len(d.Panels) + 1, Type: "row", Title: r.title,
			GridPos: gridPos{1, width, 0, y}, Collapsed: &collapsed, Panels: &[]struct{}{},
		})
		y++

		// A panel that does not fit into the line begins the next one.
		x := 0
		for _, p := range r.panels {
			if x+p.width > width {
				x, y = 0, y+r.height
			}
			d.Panels = append(d.Panels, p.model(len(d.Panels)+1, gridPos{r.height, p.width, x, y}))
			x += p.width
		}

		y += r.height
	}

	return d
}

func (p panel) model(id int, at gridPos) panelModel {
	m := panelModel{
		ID: id, Type: p.kind, Title: p.title, Description: p.what, GridPos: at, Datasource: &prometheus,
		Options: p.options, Transforms: p.transforms,
	}

	for _, page := range p.runbooks {
		title := "Runbook " + strings.TrimSuffix(page, ".md")
		m.Links = append(m.Links, link{Title: title, URL: runbooks + page, TargetBlank: true})
	}

	for i, q := range p.queries {
		instant := p.kind == "table" || p.kind == "stat" // the others draw a range of time
		m.Targets = append(m.Targets, target{
			Datasource: prometheus, RefID: string(rune('A' + i)), Expr: q.expr, Legend: q.legend, Format: q.format,
			Instant: instant, Range: !instant,
		})
	}

	// A nil list or map would be null in the file, where Grafana expects a list or an object.
	config := fieldConfig{p.defaults, p.overrides}
	config.Defaults.Unit = p.unit
	if config.Defaults.Color == nil {
		config.Defaults.Color = map[string]any{"mode": "thresholds"}
	}
	if config.Defaults.Mappings == nil {
		config.Defaults.Mappings = []mapping{}
	}
	if config.Defaults.Thresholds.Steps == nil {
		config.Defaults.Thresholds = levels("blue")
	}
	if config.Overrides == nil {
		config.Overrides = []override{}
	}

	m.FieldConfig = &config
	return m
}

// stat is a current number for each policy.
func stat(width int, title, unit, what string, queries ...query) panel {
	return panel{
		kind: "stat", title: title, what: what, unit: unit, width: width, queries: queries,
		options: map[string]any{
			"colorMode": "background", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "auto",
			"wideLayout": false, "reduceOptions": lastOnly(),
		},
	}
}

// lines are values over time.
func lines(width int, title, unit, what string, queries ...query) panel {
	return panel{
		kind: "timeseries", title: title, what: what, unit: unit, width: width, queries: queries,
		defaults: fieldDefaults{Color: map[string]any{"mode": "palette-classic"}, Custom: map[string]any{
			"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false,
		}},
		options: map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		},
	}
}

// timeline shows which of several states holds.
func timeline(width int, title, what string, queries ...query) panel {
	return panel{
		kind: "state-timeline", title: title, what: what, unit: "none", width: width, queries: queries,
		defaults: fieldDefaults{Custom: map[string]any{"fillOpacity": 80, "lineWidth": 0}},
		options: map[string]any{
			"mergeValues": true, "showValue": "auto", "rowHeight": 0.9, "alignValue": "left",
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": false},
			"tooltip": map[string]any{"mode": "single", "sort": "none"},
		},
	}
}

// heatmap shows a histogram over time; its query sums by le.
func heatmap(width int, title, unit, what string, q query) panel {
	q.format = "heatmap"
	q.legend = "{{le}}"

	return panel{
		kind: "heatmap", title: title, what: what, unit: unit, width: width, queries: []query{q},
		options: map[string]any{
			"calculate": false, "cellGap": 1, "showValue": "never", "legend": map[string]any{"show": true},
			"color": map[string]any{
				"mode": "scheme", "scheme": "Oranges", "steps": 64, "scale": "exponential", "exponent": 0.5,
			},
			"yAxis":        map[string]any{"unit": unit, "axisPlacement": "left"},
			"filterValues": map[string]any{"le": 1e-9},
			"tooltip":      map[string]any{"mode": "single", "yHistogram": false},
		},
	}
}

// table has a line for each series and a column for each label.
func table(width int, title, what string, hide []string, q query) panel {
	q.format = "table"
	hidden := map[string]bool{"Time": true}
	for _, column := range hide {
		hidden[column] = true
	}

	return panel{
		kind: "table", title: title, what: what, unit: "none", width: width, queries: []query{q},
		options:    map[string]any{"showHeader": true, "cellHeight": "sm"},
		transforms: []transform{{"organize", map[string]any{"excludeByName": hidden}}},
	}
}

func lastOnly() map[string]any {
	return map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
}

// pages links the panel to runbooks.
func (p panel) pages(runbooks ...string) panel {
	p.runbooks = runbooks
	return p
}

// colours sets the thresholds of the colours.
func (p panel) colours(t thresholds) panel {
	p.defaults.Thresholds = t
	return p
}

// from sets the least value of the axis.
func (p panel) from(least float64) panel {
	p.defaults.Min = &least
	return p
}

// otherwise sets the text of a panel without a value.
func (p panel) otherwise(text string) panel {
	p.defaults.NoValue = text
	return p
}

// calls names the values first, first+1, ... of a state.
func (p panel) calls(first int, names ...display) panel {
	options := map[string]display{}
	for i, d := range names {
		d.Index = i
		options[string(rune('0'+first+i))] = d
	}

	p.defaults.Mappings = []mapping{{"value", options}}
	return p
}

// custom sets an option of how a panel is drawn. It copies the map, because panels
// are values and the map may be another panel's too.
func (p panel) custom(key string, value any) panel {
	merged := map[string]any{key: value}
	for k, v := range p.defaults.Custom {
		if k != key {
			merged[k] = v
		}
	}

	p.defaults.Custom = merged
	return p
}

func (p panel) stacked() panel {
	return p.custom("stacking", map[string]any{"mode": "normal", "group": "A"}).custom("fillOpacity", 40)
}

func (p panel) logarithmic() panel {
	return p.custom("scaleDistribution", map[string]any{"type": "log", "log": 10})
}

// dashed draws the lines whose legend contains a text as limits.
func (p panel) dashed(legend string) panel {
	return p.override(legend,
		property{"custom.lineStyle", map[string]any{"fill": "dash", "dash": []int{6, 6}}},
		property{"custom.fillOpacity", 0},
	)
}

// coloured fixes the colour of the lines whose legend contains a text.
func (p panel) coloured(legend, color string) panel {
	return p.override(legend, property{"color", map[string]any{"mode": "fixed", "fixedColor": color}})
}

func (p panel) override(legend string, properties ...property) panel {
	p.overrides = append(p.overrides, override{matcher{"byRegexp", "/" + legend + "/"}, properties})
	return p
}

// levels are a base colour, and further colours from values on.
func levels(base string, more ...step) thresholds {
	return thresholds{"absolute", append([]step{{Color: base}}, more...)}
}

func at(value float64, color string) step { return step{color, &value} }
