package logging

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestFormats(t *testing.T) {
	for format, want := range map[string][]string{
		"json":    {`"level":"warn"`, `"message":"rejected"`, `"fence":"billing"`},
		"console": {"WARN  rejected", `{"fence": "billing"}`},
	} {
		var out bytes.Buffer
		log, err := New(zapcore.AddSync(&out), "info", format)
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("not shown")
		log.Warn("rejected", zap.String("fence", "billing"))
		for _, w := range want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s: %q is not in %q", format, w, out.String())
			}
		}
		if strings.Contains(out.String(), "not shown") {
			t.Errorf("%s: a line below the level: %q", format, out.String())
		}
	}
}

func TestBoundedCountsWhatItDrops(t *testing.T) {
	var out bytes.Buffer
	log, err := New(zapcore.AddSync(&out), "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	dropped := 0
	bounded := Bounded(log.Logger, func() { dropped++ })
	for range 100 {
		bounded.Info("token refused")
	}
	lines := strings.Count(out.String(), "\n")
	if lines+dropped != 100 || lines < perSecond || lines > 2*perSecond { // a second may begin in between
		t.Errorf("%d lines, %d dropped", lines, dropped)
	}
}

func TestLevelChangesForLoggersInUse(t *testing.T) {
	var out bytes.Buffer
	log, err := New(zapcore.AddSync(&out), "warn", "json")
	if err != nil {
		t.Fatal(err)
	}
	session := log.With(zap.String("user", "app"))
	session.Info("before")
	if err := log.SetLevel("info"); err != nil {
		t.Fatal(err)
	}
	session.Info("after")
	if log.SetLevel("loud") == nil {
		t.Error("an unknown level")
	}
	session.Info("still")
	if got := out.String(); strings.Contains(got, "before") || !strings.Contains(got, "after") || !strings.Contains(got, "still") {
		t.Errorf("%q", got)
	}
}
