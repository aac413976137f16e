package upstream

import (
	"errors"
	"strings"
	"testing"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/wire/relay"
)

func TestChoose(t *testing.T) {
	down := state{err: errors.New("connection refused")}
	primary, locked, standby := state{readWrite: true}, state{}, state{standby: true}
	for _, tc := range []struct {
		target config.Target
		states []state
		want   string // numbers of the servers, or what the error says
	}{
		{config.TargetPrimary, []state{standby, primary}, "1"},
		{config.TargetPrimary, []state{locked, standby}, "0"}, // default_transaction_read_only does not matter
		{config.TargetPrimary, []state{primary, primary}, "0 1"},
		{config.TargetPrimary, []state{down, standby}, "no server of the upstream is primary; 0: connection refused"},
		{config.TargetPrimary, []state{standby, standby}, "no server of the upstream is primary"},
		{config.TargetReadWrite, []state{locked, standby, primary}, "2"},
		{config.TargetReadOnly, []state{primary, locked, standby}, "1 2"},
		{config.TargetStandby, []state{primary, standby, down}, "1"},
		{config.TargetPreferStandby, []state{primary, standby}, "1 0"},
		{config.TargetPreferStandby, []state{primary, down}, "0"},
	} {
		var servers []*server
		for i := range tc.states {
			servers = append(servers, &server{address: relay.Address{Address: string(rune('0' + i))}})
		}
		order, err := choose(tc.target, servers, tc.states)
		var names []string
		for _, at := range order {
			names = append(names, at.Address)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s of %+v: %q, want %q", tc.target, tc.states, got, tc.want)
		}
	}
}
