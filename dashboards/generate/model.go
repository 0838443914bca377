package main

// This file is the part of Grafana's classic dashboard model that the boards use,
// with the field names that Grafana writes.

type document struct {
	UID           string       `json:"uid"`
	Title         string       `json:"title"`
	Description   string       `json:"description"`
	Tags          []string     `json:"tags"`
	SchemaVersion int          `json:"schemaVersion"`
	Version       int          `json:"version"`
	Editable      bool         `json:"editable"`
	GraphTooltip  int          `json:"graphTooltip"`
	Refresh       string       `json:"refresh"`
	Timezone      string       `json:"timezone"`
	Time          timeRange    `json:"time"`
	Timepicker    struct{}     `json:"timepicker"`
	Templating    variableList `json:"templating"`
	Annotations   annotations  `json:"annotations"`
	Links         []link       `json:"links"`
	Panels        []panelModel `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type variableList struct {
	List []variable `json:"list"`
}

type variable struct {
	Name       string         `json:"name"`
	Label      string         `json:"label"`
	Type       string         `json:"type"`
	Datasource *source        `json:"datasource,omitempty"`
	Definition string         `json:"definition,omitempty"`
	Query      any            `json:"query"`
	Refresh    int            `json:"refresh"`
	Sort       int            `json:"sort,omitempty"`
	Regex      string         `json:"regex"`
	Hide       int            `json:"hide"`
	Multi      bool           `json:"multi"`
	IncludeAll bool           `json:"includeAll"`
	AllValue   string         `json:"allValue,omitempty"`
	Current    map[string]any `json:"current"`
	Options    []struct{}     `json:"options"`
}

type variableQuery struct {
	QryType int    `json:"qryType"`
	Query   string `json:"query"`
	RefID   string `json:"refId"`
}

type annotations struct {
	List []annotation `json:"list"`
}

type annotation struct {
	Name        string  `json:"name"`
	BuiltIn     int     `json:"builtIn,omitempty"`
	Type        string  `json:"type,omitempty"`
	Datasource  source  `json:"datasource"`
	Enable      bool    `json:"enable"`
	Hide        bool    `json:"hide"`
	IconColor   string  `json:"iconColor"`
	TitleFormat string  `json:"titleFormat,omitempty"`
	TextFormat  string  `json:"textFormat,omitempty"`
	TagKeys     string  `json:"tagKeys,omitempty"`
	Target      *target `json:"target,omitempty"`
}

type link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type,omitempty"` // "" in links of panels
	Icon        string   `json:"icon,omitempty"`
	Tooltip     string   `json:"tooltip,omitempty"`
	URL         string   `json:"url"`
	Tags        []string `json:"tags,omitempty"`
	AsDropdown  bool     `json:"asDropdown,omitempty"`
	IncludeVars bool     `json:"includeVars,omitempty"`
	KeepTime    bool     `json:"keepTime,omitempty"`
	TargetBlank bool     `json:"targetBlank"`
}

type panelModel struct {
	ID          int            `json:"id"`
	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	GridPos     gridPos        `json:"gridPos"`
	Datasource  *source        `json:"datasource,omitempty"`
	Links       []link         `json:"links,omitempty"`
	Targets     []target       `json:"targets,omitempty"`
	FieldConfig *fieldConfig   `json:"fieldConfig,omitempty"`
	Options     map[string]any `json:"options,omitempty"`
	Transforms  []transform    `json:"transformations,omitempty"`
	Collapsed   *bool          `json:"collapsed,omitempty"`
	Panels      *[]struct{}    `json:"panels,omitempty"`
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type target struct {
	Datasource source `json:"datasource"`
	RefID      string `json:"refId"`
	Expr       string `json:"expr"`
	Legend     string `json:"legendFormat,omitempty"`
	Format     string `json:"format,omitempty"`
	Interval   string `json:"interval,omitempty"`
	Instant    bool   `json:"instant"`
	Range      bool   `json:"range"`
}

type fieldConfig struct {
	Defaults  fieldDefaults `json:"defaults"`
	Overrides []override    `json:"overrides"`
}

type fieldDefaults struct {
	Unit       string         `json:"unit"`
	Decimals   *int           `json:"decimals,omitempty"`
	Min        *float64       `json:"min,omitempty"`
	Max        *float64       `json:"max,omitempty"`
	NoValue    string         `json:"noValue,omitempty"`
	Color      map[string]any `json:"color"`
	Mappings   []mapping      `json:"mappings"`
	Thresholds thresholds     `json:"thresholds"`
	Custom     map[string]any `json:"custom,omitempty"`
}

type thresholds struct {
	Mode  string `json:"mode"`
	Steps []step `json:"steps"`
}

// step is a colour from a value on; the first step has no value.
type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

type mapping struct {
	Type    string             `json:"type"`
	Options map[string]display `json:"options"`
}

type display struct {
	Text  string `json:"text"`
	Color string `json:"color"`
	Index int    `json:"index"`
}

type override struct {
	Matcher    matcher    `json:"matcher"`
	Properties []property `json:"properties"`
}

type matcher struct {
	ID      string `json:"id"`
	Options string `json:"options"`
}

type property struct {
	ID    string `json:"id"`
	Value any    `json:"value"`
}

type transform struct {
	ID      string         `json:"id"`
	Options map[string]any `json:"options"`
}
