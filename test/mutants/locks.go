package main

// Packages of the lock client.
const (
	locks    = "lockclient"
	etcd     = "lockclient/etcd"
	postgres = "lockclient/postgres"
	pgfence  = "lockclient/pgfence"
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
}
