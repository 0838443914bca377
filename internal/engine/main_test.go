package engine

import (
	"testing"

	"go.uber.org/goleak"

	_ "github.com/shadowlimit/shadowlimit/internal/testseed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
