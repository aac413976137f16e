package main

const commands = "cmd/fenceproxy"

// Safeguards of operating the proxy.
func init() {
	mutants = append(mutants,
		mutant{
			name: "reload: sessions of former fences end",
			file: "cmd/fenceproxy/reload.go",
			old:  "	retire := c.Mode == config.ModeEnforce && mustRetire(before.config, c)\n",
			new:  "	retire := c.Mode != config.ModeEnforce && mustRetire(before.config, c)\n",
			pkg:  commands, tests: "TestReloadAddsAFence",
		},
		mutant{
			name: "reload: a new fence's tokens wait for them",
			file: "cmd/fenceproxy/snapshot.go",
			old:  "		if !a.isFresh(fence) {\n",
			new:  "		if len(fence) >= 0 {\n",
			pkg:  commands, tests: "TestReloadAddsAFence",
		},
		mutant{
			name: "reload: those that are left are cut off",
			file: "wire/relay/retire.go",
			old:  "			t.kill(tooLate)\n",
			pkg:  "wire/relay", tests: "TestRetireCutsOffWhatIsLeft",
		},
		mutant{
			name: "reload: sessions that log in meanwhile end too",
			file: "wire/relay/listen.go",
			old:  "	if s.draining || ses.generation < s.oldest {\n",
			new:  "	if s.draining {\n",
			pkg:  "wire/relay", tests: "TestRetireMeetsSessionsThatLogIn",
		},
		mutant{
			name: "roll: the listening socket is handed over",
			file: "wire/relay/share.go",
			old:  "		if l := takeOver(address); l != nil {\n",
			new:  "		if l := takeOver(address); l != nil && mode > 0o1000 {\n",
			pkg:  "wire/relay", tests: "TestRollRefusesNobody",
		},
		mutant{
			name: "idle: a client that waits for its reply is not",
			file: "wire/relay/idle.go",
			old:  "	case !idle:\n",
			new:  "	case !idle && s == nil:\n",
			pkg:  "wire/relay", tests: "TestIdleWaitsForTheServer",
		},
		mutant{
			name: "failover: an idle control connection that leads to a standby is dropped",
			file: "tokens/conns.go",
			old:  ".Scan(&c.inRecovery) == nil && !c.inRecovery {",
			new:  ".Scan(&c.inRecovery) == nil {",
			pkg:  "tokens", tests: "TestControlFollowsThePrimary",
		},
		mutant{
			name: "failover: one broken control connection takes the idle ones with it",
			file: "tokens/conns.go",
			old:  "	if c.IsClosed() { // the",
			new:  "	if c.IsClosed() && p.closed { // the",
			pkg:  "tokens", tests: "TestAnnounceOverBrokenConnections",
		},
	)
}
