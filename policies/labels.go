package policies

import "go.yaml.in/yaml/v3"

// Bounds of labels: they travel with every announcement, and each is a series.
const (
	mostLabels    = 16
	mostLabelText = 128 // bytes of a value
)

// labels returns a reader of the labels of a policy: texts by name, which stand wherever the policy is shown.
func (r *reader) labels(into *map[string]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		*into = map[string]string{}
		for name, value := range r.pairs(n, "labels") {
			text := ""
			r.text("labels", &text)(value)
			_, twice := (*into)[name.Value]
			switch {
			case !r.identifier(name, "labels"):
			case twice:
				r.fail(name, "labels: %s is there already", name.Value)
			case len(text) > mostLabelText:
				r.fail(value, "labels: %d bytes: want at most %d", len(text), mostLabelText)
			case len(*into) == mostLabels:
				r.fail(name, "labels: want at most %d", mostLabels)
				return
			default:
				(*into)[name.Value] = text
			}
		}
	}
}
