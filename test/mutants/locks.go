package main

// Packages of the lock client.
const (
	locks    = "lockclient"
	etcd     = "lockclient/etcd"
	postgres = "lockclient/postgres"
	pgfence  = "lockclient/pgfence"
	runs     = "test/run"
)

func init() { mutants = append(mutants, lockMutants...) }

// lockMutants are the safeguards of the lock client and its backends.
var lockMutants = []mutant{
	{
		name: "lock window: counted from the moment the request was sent",
		file: "lockclient/acquire.go",
		old:  "k := newKeeper(c.backend, cfg, clk, claim, sent)",
		new:  "k := newKeeper(c.backend, cfg, clk, claim, clk.read())",
		and:  []edit{{"lockclient/acquire.go", "	sent := clk.read()\n", ""}},
		pkg:  locks, tests: "TestWindowCountsFromSending",
	},
	{
		name: "lock window: a renewal counts from when it was sent",
		file: "lockclient/keeper.go",
		old:  "	k.win = newWindow(sent, ttl, k.cfg.drift)\n	k.timer",
		new:  "	k.win = newWindow(k.clock.read(), ttl, k.cfg.drift)\n	k.timer",
		pkg:  locks, tests: "TestSchedules",
	},
	{
		name: "lock window: a late reply revives nothing",
		file: "lockclient/keeper.go",
		old:  "	if _, err := k.check(); err != nil {\n		return err\n	}\n	k.mu.Lock()",
		new:  "	k.mu.Lock()",
		pkg:  locks, tests: "TestReplyAfterTheWindow",
	},
	{
		name: "lock renewal, etcd: never creates the lock anew",
		file: "lockclient/etcd/renew.go",
		old:  "	case errors.Is(err, lockclient.ErrLost):\n		return 0, err\n",
		new:  "	case errors.Is(err, lockclient.ErrLost):\n		_, err := b.client.Put(ctx, r.key, \"\", clientv3.WithLease(r.lease))\n		return ttl, err\n",
		pkg:  etcd, tests: "TestBackend/.*/claims",
	},
	{
		name: "lock renewal, lease table: an expired lease is over",
		file: "tokens/schema/005*.sql",
		old:  "BEGIN\n  UPDATE fence.lease l SET expires_at = clock_timestamp() + l.ttl\n    WHERE l.name = lock_name AND l.claim = my_claim AND l.expires_at > clock_timestamp() AND",
		new:  "BEGIN\n  UPDATE fence.lease l SET expires_at = clock_timestamp() + l.ttl\n    WHERE l.name = lock_name AND l.claim = my_claim AND",
		pkg:  postgres, tests: "TestClaims",
	},
	{
		name: "lock release, etcd: compares the create revision",
		file: "lockclient/etcd/renew.go",
		old:  "		If(clientv3.Compare(clientv3.CreateRevision(r.key), \"=\", r.rev)).\n",
		pkg:  etcd, tests: "TestBackend/.*/claims",
	},
	{
		name: "lock release, lease table: by claim, not by name",
		file: "tokens/schema/005*.sql",
		old:  "WHERE k.name = lock_name AND k.claim = my_claim FOR UPDATE;",
		new:  "WHERE k.name = lock_name FOR UPDATE;",
		pkg:  postgres, tests: "TestClaims",
	},
	{
		name: "lock token, etcd: the create revision, not the header's",
		file: "lockclient/etcd/queue.go",
		old:  "			won.Held, won.Token = true, r.token()\n",
		new:  "			won.Held, won.Token = true, r.token()\n			won.Token.Counter = at\n",
		pkg:  etcd, tests: "TestBackend/.*/(order|expired_waiter)",
	},
	{
		name: "lock queue, etcd: the own key is checked when the wait is over",
		file: "lockclient/etcd/queue.go",
		old:  "len(own) == 0 || own[0].CreateRevision != r.rev {",
		new:  "len(own) > 1 {",
		pkg:  etcd, tests: "TestBackend/.*/expired_waiter",
	},
	{
		name: "lock grant, lease table: raises the mark",
		file: "tokens/schema/005*.sql",
		old:  "UPDATE fence.mark k SET epoch = new_epoch, token = new_token, timeline",
		new:  "UPDATE fence.mark k SET timeline",
		pkg:  postgres, tests: "TestTakeoverWaitsForGuarded",
	},
	{
		name: "lock grant, lease table: durable",
		file: "tokens/schema/005*.sql",
		old:  "    PERFORM set_config('synchronous_commit', 'on', true);\n",
		new:  "    NULL;\n",
		and: []edit{{"tokens/schema/001*.sql",
			"    PERFORM set_config('synchronous_commit', 'on', true);\n",
			"    NULL;\n"}},
		pkg: postgres, tests: "TestNoTokenTwiceAfterACrash",
	},
	{
		name: "lock grant, lease table: waits for guarded transactions",
		file: "tokens/schema/005*.sql",
		old:  "RETURN pg_try_advisory_xact_lock(1178947139, mark_id);",
		new:  "RETURN true;",
		and: []edit{
			{"tokens/schema/005*.sql", "PERFORM pg_advisory_xact_lock(1178947139, mark_id);", "NULL;"},
			{"tokens/schema/005*.sql", "IF NOT pg_try_advisory_xact_lock(1178947139, m.id) THEN", "IF false THEN"},
		},
		pkg: postgres, tests: "TestTakeoverWaitsForGuarded",
	},
	{
		name: "lock token in the database: ZF001 ends the lease",
		file: "lockclient/pgfence/present.go",
		old:  "			l.MarkLost(err)\n",
		new:  "			_ = l\n",
		pkg:  pgfence, tests: "TestTransactions",
	},
	{
		name: "lock token in the database: never a reader's",
		file: "lockclient/pgfence/present.go",
		old:  "!twice && l.Mode() == lockclient.Exclusive {",
		new:  "!twice {",
		pkg:  pgfence, tests: "TestReadersPresentNothing",
	},
	{
		name: "lock loss, lease table: a raised mark is the end",
		file: "lockclient/postgres/watchloss.go",
		old:  "if mark.Compare(claim.Token) > 0 {",
		new:  "if false {",
		pkg:  postgres, tests: "TestLossIsTold",
	},
	{
		name: "lock loss, lease table: those that watch hear of a raise",
		file: "tokens/schema/005*.sql",
		old:  "    PERFORM pg_notify('fence_lease', NEW.name || ' ');\n",
		new:  "    NULL;\n",
		pkg:  postgres, tests: "TestLossIsTold",
	},
	{
		name: "lock loss, advisory: a session that the server has ended",
		file: "lockclient/postgres/watchloss.go",
		old:  "conn != nil && hungUp(conn)",
		new:  "conn == nil",
		pkg:  postgres, tests: "TestLossIsTold",
	},
	{
		name: "run: a guardian that is stopped is not waited for",
		file: "cmd/fenceproxy/run.go",
		old:  "		if left <= 0 {\n			group.Kill()\n",
		new:  "		if left <= 0 {\n",
		pkg:  runs, tests: "TestGuardianStopped",
	},
	{
		name: "run: descendants of a killed guardian are found",
		file: "cmd/fenceproxy/internal/guardian/start.go",
		old:  "	adoptOrphans()\n",
		pkg:  runs, tests: "TestGuardianKilledDescendants",
	},
	{
		name: "run: an advisory lock outlives the wrapper",
		file: "cmd/fenceproxy/run.go",
		old:  "	if conn := lease.Connection(); conn != nil {",
		new:  "	if conn := lease.Connection(); false {",
		pkg:  runs, tests: "TestAdvisory/wrapper_killed",
	},
	{
		name: "run: the guardian ends the group before the deadline",
		file: "cmd/fenceproxy/internal/guardian/main.go",
		old:  "		if t >= w.until-w.limits.Grace {",
		new:  "		if false {",
		pkg:  runs, tests: "TestNothingOutlivesTheWindow/.*/wrapper_stopped",
	},
	{
		name: "run: what has left the group goes with it when the lock is lost",
		file: "cmd/fenceproxy/internal/guardian/main.go",
		old:  "	if w.lost {\n		killDescendants(nil)\n	}\n",
		and:  []edit{{"cmd/fenceproxy/internal/guardian/main.go", " && (!w.lost || killDescendants(nil) == 0)", ""}},
		pkg:  runs, tests: "TestNothingOutlivesTheWindow",
	},
	{
		name: "run: the guardian hears of renewals before it looks at the clock",
		file: "cmd/fenceproxy/internal/guardian/main.go",
		old:  "		w.obey(orders.take()) // first: the deadline may have moved\n		t := now()\n",
		new:  "		t := now()\n",
		and:  []edit{{"cmd/fenceproxy/internal/guardian/main.go", "		case <-orders.more:\n", "		case <-orders.more:\n			w.obey(orders.take())\n"}},
		pkg:  "cmd/fenceproxy/internal/guardian", tests: "TestRenewalThatCame",
	},
	{
		name: "lock, elect: output that nobody reads releases",
		file: "cmd/fenceproxy/interrupts.go",
		old:  "func surviveClosedOutput() { notified(syscall.SIGPIPE) }",
		new:  "func surviveClosedOutput() {}",
		pkg:  runs, tests: "TestOutputFails",
	},
	{
		name: "etcd: what is not trusted is not asked again",
		file: "lockclient/etcd/reach.go",
		old:  "	if refused {",
		new:  "	if false {",
		pkg:  etcd, tests: "TestTLS",
	},
	{
		name: "init: roles that an installer in another database has just made",
		file: "tokens/schema/roles.sql",
		old:  "      WHEN duplicate_object OR unique_violation THEN\n        NULL;\n",
		pkg:  "tokens", tests: "TestInstallInTwoDatabasesAtOnce",
	},
	{
		name: "init: memberships that an installer in another database has just granted",
		file: "tokens/schema/roles.sql",
		old:  "      GRANT fence_control TO fence_operator;\n    EXCEPTION WHEN unique_violation",
		new:  "      GRANT fence_control TO fence_operator;\n    EXCEPTION WHEN division_by_zero",
		pkg:  "tokens", tests: "TestInstallInTwoDatabasesAtOnce",
	},
}
