package main

import (
	"strings"
	"testing"
	"time"
)

func TestSlotName(t *testing.T) {
	zone := time.FixedZone("", 3600)
	for _, c := range []struct{ per, now, want string }{
		{"@daily", "2026-11-30T03:00:00+01:00", "@daily 2026-11-29T23:00:00Z"},
		{"@daily", "2026-11-30T00:00:00+01:00", "@daily 2026-11-29T23:00:00Z"},
		{"@daily", "2026-11-29T23:59:59+01:00", "@daily 2026-11-28T23:00:00Z"},
		{"@every 5m", "2026-11-30T03:07:12+01:00", "@every 5m 2026-11-30T02:05:00Z"},
		{"*/10 * * * *", "2026-11-30T03:09:59+01:00", "*/10 * * * * 2026-11-30T02:00:00Z"},
		{"0 3 * * 1", "2026-12-06T12:00:00+01:00", "0 3 * * 1 2026-11-30T02:00:00Z"},
		{"0 0 29 2 *", "2026-11-30T00:00:00+01:00", "0 0 29 2 * 2024-02-28T23:00:00Z"},
		{"CRON_TZ=UTC 0 3 * * *", "2026-11-30T03:30:00+01:00", "CRON_TZ=UTC 0 3 * * * 2026-11-29T03:00:00Z"},
		{"CRON_TZ=Europe/Paris @daily", "2026-03-29T23:30:00+01:00", "CRON_TZ=Europe/Paris @daily 2026-03-29T22:00:00Z"},         // summer has begun
		{"CRON_TZ=Europe/Paris 30 2 * * *", "2026-10-25T12:00:00+01:00", "CRON_TZ=Europe/Paris 30 2 * * * 2026-10-25T01:30:00Z"}, // twice on that day
		{"key=november", "2026-11-30T03:00:00+01:00", "key=november"},
	} {
		now, err := time.ParseInLocation(time.RFC3339, c.now, zone)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := slotName(c.per, now.In(zone)); err != nil || got != c.want {
			t.Errorf("%s at %s: %q, %v; want %q", c.per, c.now, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "daily", "key=", "* * *", "61 * * * *", "@every", "0 0 31 2 *", "key=" + strings.Repeat("x", 201), "key=\xff"} {
		if got, err := slotName(bad, time.Now()); err == nil {
			t.Errorf("%q is slot %q", bad, got)
		}
	}
}
