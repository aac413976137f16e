package main

const (
	sidecar = "test/sidecar"
	once    = "test/run"
)

// Safeguards of serve --hold and of run --once-per; the log of bypasses.
func init() {
	mutants = append(mutants,
		mutant{
			name: "sidecar: sessions end with their tenure",
			file: "wire/relay/tenure.go",
			old:  "		r.kill(&stop{reason: EndTenure, words: t.Words, urgent: true})\n",
			pkg:  sidecar, tests: "TestDatabaseFrozen",
		},
		mutant{
			name: "sidecar: a client brings no token of its own",
			file: "wire/relay/tenure.go",
			old:  `start.Setting("fence.token"); given {`,
			new:  `start.Setting("fence.token"); given && s == nil {`,
			pkg:  sidecar, tests: "TestHolderWrites/lease",
		},
		mutant{
			name: "sidecar: the token is raised before the lock counts as held",
			file: "cmd/fenceproxy/internal/holding/holder.go",
			old:  "	if err := h.raise(lease); err != nil {\n",
			new:  "	if err := h.raise(lease); err != nil && lease == nil {\n",
			pkg:  sidecar, tests: "TestServiceThatLostItsHistory",
		},
		mutant{
			name: "sidecar: an instance that drains leaves the queue",
			file: "cmd/fenceproxy/drain.go",
			old:  "		p.holder.StandDown()\n",
			pkg:  sidecar, tests: "TestDrainingTakesNoLock",
		},
		mutant{
			name: "sidecar: the lock is kept until transactions have ended",
			file: "cmd/fenceproxy/hold.go",
			old:  "	for p.server.Relaying() > 0 {\n",
			new:  "	for p.server.Relaying() > 1000 {\n",
			pkg:  sidecar, tests: "TestHandOverAtShutdown/lease",
		},
		mutant{
			name: "sidecar: a second signal releases before the last words are said",
			file: "cmd/fenceproxy/drain.go",
			old:  "		go p.giveUp(p.running) // the last",
			new:  "		// the last",
			pkg:  sidecar, tests: "TestSecondSignalInTheDelay",
		},
		mutant{
			name: "sidecar: a service that is away is told while waiting",
			file: "cmd/fenceproxy/internal/holding/state.go",
			old:  "		h.away = err\n",
			pkg:  sidecar, tests: "TestAllOfEtcdAway/stopped",
		},
		mutant{
			name: "sidecar: a URL that can never work ends serve",
			file: "cmd/fenceproxy/hold.go",
			old:  "	if err := lockclient.Check(url); err != nil {\n",
			new:  "	if err := lockclient.Check(url); err != nil && p == nil {\n",
			pkg:  sidecar, tests: "TestWrongBackend",
		},
		mutant{
			name: "slots: what is done is not run again",
			file: "tokens/schema/010_slot_keys.sql",
			old:  "    verdict := 'done';\n",
			new:  "    verdict := 'run';\n",
			pkg:  once, tests: "TestOncePer",
		},
		mutant{
			name: "slots: a key is never forgotten",
			file: "tokens/schema/010_slot_keys.sql",
			old:  " AND k.slot NOT LIKE 'key=%'",
			pkg:  "tokens", tests: "TestKeysAreNotForgotten",
		},
		mutant{
			name: "slots: the end is recorded when the database is back",
			file: "cmd/fenceproxy/once.go",
			old:  "		if err == nil || lease.Check() != nil || ",
			new:  "		if err == nil || err != nil || lease.Check() != nil || ",
			pkg:  once, tests: "TestSlotDatabaseAwayAtTheEnd",
		},
		mutant{
			name: "bypass: each session is written down",
			file: "tokens/schema/012_bypass_sessions.sql",
			old:  "b.started = began AND ",
			pkg:  "tokens/triggers", tests: "TestBypass",
		},
	)
}
