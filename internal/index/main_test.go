package index_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	runChild()
	goleak.VerifyTestMain(m)
}
