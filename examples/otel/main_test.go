package main

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// Of six requests the candidate would deny those from the third on, and the authoritative denies the last. The spans and the
// exported metrics say so. The clock stands still, so that no window ends.
func TestSpansAndMetrics(t *testing.T) { synctest.Test(t, spansAndMetrics) }

func spansAndMetrics(t *testing.T) {
	harness, err := newHarness()
	if err != nil {
		t.Fatal(err)
	}
	defer harness.Close(context.Background())
	reader := metric.NewManualReader(metric.WithProducer(metrics(harness)))
	defer metric.NewMeterProvider(metric.WithReader(reader)).Shutdown(context.Background())
	spans := tracetest.NewInMemoryExporter()
	handler := newHandler(harness, sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))

	want := [][2]bool{{true, true}, {true, true}, {true, false}, {true, false}, {true, false}, {false, false}}
	for range want {
		r := httptest.NewRequest(http.MethodGet, "/items/1", http.NoBody)
		r.Header.Set("X-User", "alice")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}

	ended := spans.GetSpans()
	if len(ended) != len(want) {
		t.Fatalf("%d spans, want %d", len(ended), len(want))
	}
	for i, span := range ended {
		attributes := map[attribute.Key]attribute.Value{}
		for _, a := range span.Attributes {
			attributes[a.Key] = a.Value
		}
		got := [2]bool{attributes["shadowlimit.authoritative.allowed"].AsBool(), attributes["shadowlimit.candidate.allowed"].AsBool()}
		if got != want[i] || attributes["shadowlimit.policy"].AsString() != "per-user" || attributes["shadowlimit.enforced"].AsString() != "authoritative" {
			t.Errorf("span %d: %v, want %v", i, attributes, want[i])
		}
	}

	var collected metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &collected); err != nil {
		t.Fatal(err)
	}
	outcomes := outcomesOf(collected)
	if wanted := map[string]float64{"agree_allow": 2, "newly_denied": 3, "agree_deny": 1}; !maps.Equal(outcomes, wanted) {
		t.Errorf("comparisons %v, want %v", outcomes, wanted)
	}
}

// outcomesOf returns the counts of shadowlimit_comparisons_total above 0 by outcome.
func outcomesOf(collected metricdata.ResourceMetrics) map[string]float64 {
	outcomes := map[string]float64{}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[float64])
			if m.Name != "shadowlimit_comparisons_total" || !ok {
				continue
			}
			for _, point := range sum.DataPoints {
				outcome, _ := point.Attributes.Value("outcome")
				if point.Value > 0 {
					outcomes[outcome.AsString()] += point.Value
				}
			}
		}
	}
	return outcomes
}
