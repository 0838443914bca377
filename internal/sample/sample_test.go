package sample_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/shadowlimit/shadowlimit/internal/sample"
)

func TestLogIsWhole(t *testing.T) {
	in, err := gzip.NewReader(bytes.NewReader(sample.Log()))
	if err != nil {
		t.Fatal(err)
	}

	lines, clients := 0, map[string]int{}
	scanner := bufio.NewScanner(in)
	for scanner.Scan() {
		host, _, _ := strings.Cut(scanner.Text(), " ")
		if !strings.HasPrefix(host, "10.") {
			t.Errorf("line %d begins with %s, which is not a replaced address", lines+1, host)
		}
		lines++
		clients[host]++
	}

	if lines != 10_000 || len(clients) != 1753 || scanner.Err() != nil {
		t.Errorf("%d lines of %d clients (%v), want 10000 of 1753", lines, len(clients), scanner.Err())
	}
}
