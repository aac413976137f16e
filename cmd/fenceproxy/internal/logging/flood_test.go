package logging

import (
	"testing"
	"time"
)

func TestFloodIsBoundedAndCounted(t *testing.T) {
	now := time.Unix(100, 0)
	f := NewFlood()
	f.now = func() time.Time { return now }
	written := 0
	for range 1000 {
		if ok, _ := f.Allow("billing ZF001"); ok {
			written++
		}
	}
	if written != perSecond {
		t.Errorf("%d lines in a second, want %d", written, perSecond)
	}
	if ok, _ := f.Allow("jobs ZF001"); !ok {
		t.Error("a flood of one kind hides another")
	}
	now = now.Add(time.Second)
	if ok, left := f.Allow("billing ZF001"); !ok || left != 1000-perSecond {
		t.Errorf("next second: %v, %d left out", ok, left)
	}
	if _, left := f.Allow("billing ZF001"); left != 0 {
		t.Errorf("%d told twice", left)
	}
}
