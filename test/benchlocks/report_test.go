package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// Targets that are met pass, one that is missed fails the run.
func TestJudge(t *testing.T) {
	good := results{
		free: map[string]cost{ours: {4 * time.Millisecond, 2 * time.Millisecond}, mutex: {5 * time.Millisecond, 4 * time.Millisecond}},
		orphaned: map[string][]time.Duration{ours: {failoverTTL, failoverTTL + 500*time.Millisecond},
			lease: {failoverTTL, failoverTTL + 100*time.Millisecond}},
	}
	var out bytes.Buffer
	if !good.judge(&out) || strings.Count(out.String(), "PASS") != 4 {
		t.Error(out.String())
	}
	for _, spoil := range []func(*results){
		func(r *results) { r.free = map[string]cost{ours: {6, 2}, mutex: {5, 4}} },
		func(r *results) { r.free = map[string]cost{ours: {5, 5}, mutex: {5, 4}} },
		func(r *results) {
			r.orphaned = map[string][]time.Duration{ours: {failoverTTL + 700*time.Millisecond}, lease: {1}}
		},
		func(r *results) {
			r.orphaned = map[string][]time.Duration{ours: {1}, lease: {failoverTTL + 300*time.Millisecond}}
		},
	} {
		bad := good
		spoil(&bad)
		out.Reset()
		if bad.judge(&out) || strings.Count(out.String(), "FAIL") != 1 {
			t.Error(out.String())
		}
	}
}
