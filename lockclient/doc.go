// Package lockclient takes distributed locks whose tokens a fence in PostgreSQL can check. A Client asks a Backend, such
// as etcd or a table in the fenced database, and hands out a Lease: the token of this tenure, and a context that ends when
// the lock does. It must never call a lock held that somebody else may have been given, and never report a token that is
// not this tenure's own.
//
// The lock gives efficiency: usually one process works. The fence gives safety: the slower one cannot write. A process
// can be stopped at any instruction for any time, so no client can promise that only one process acts. What this one
// promises is that the loss is known at the first look after the wake, and that the token it presents then is old.
//
// # Holding a lock
//
// Do runs a function under a lock; Campaign runs it again after each loss, for leader election; Lock and TryLock leave
// the release to the caller; RLock and TryRLock are for readers. Pass the lease's context to everything that the work
// does. Nothing is reentrant: a second Lock in the same process queues like anybody, and a Lock of the same name under the
// lease's context is ErrNested, for it would wait for itself.
//
//	held ──► renewed           the window moves on
//	     ──► transient failure retried, several attempts at once if need be, while the window is open
//	     ──► lost              the window closed, the backend proved the claim gone, MarkLost, or the worker fell silent
//	     ──► released          by Release, by compare with this very claim
//
// Lost and released are final. A lock that is lost is never renewed or created again; a new tenure has a new token, also
// for the same holder.
//
// # The trust window
//
// A lease may be trusted until its TTL, less one percent for clocks that run apart, has passed since the last successful
// request was sent: not since its answer, which may have been under way for seconds. Time is what passed on the monotonic
// or on the wall clock, whichever is more: Go's monotonic clock stops while the system is suspended (golang/go#24595), the
// wall clock may be set back. A wall clock set forward by more than the window costs the lock. The lease ends at the end of
// the window at the latest, whether the service answers or not. Renewals start a third of the TTL after the last one.
//
// Timers do not fire in a process that is stopped. After anything slow, and before anything that matters, call
// Lease.Check, which looks at the clock; Lease.Confirm asks the service. Package pgfence does so before each transaction,
// and marks the lease lost when the database says ZF001.
//
// # Known faults, and why they are not here
//
// Each fault below was reported for some client; tests bear the numbers, or the reason is given.
//
//   - The lock is returned although its lease expired in the queue, and two holders have one token (etcd #11456, #9921,
//     #10811): the token is the create revision of the own key, which is read in the same transaction as the absence of
//     older ones. Locks alone exclude nobody (etcd #11457): that is what the fence is for.
//   - No way to know that a mutex is no longer held (etcd #6127, Redisson #4698, curator #727): the lease's context.
//   - Loss is noticed only when an answer comes (etcd #5571, #6922, Consul #18271), or the window counts from the answer
//     (River #1213): a timer, and the time of sending.
//   - A session is closed by its first slow renewal (etcd #13675), a failed renewal is the end (pglock #41, Consul #1290,
//     #5437) or is ignored (cozy-stack #4911, redsync #158): retried in the window, lost after it.
//   - Renewal revives, re-creates or goes on after the loss (Kubernetes #44887, redsync #144, redis-semaphore #175,
//     Redisson #5698, #7272, #2714): a claim that has ended stays so, and Release joins the renewer.
//   - The lock is kept alive although the worker is dead (etcd #17470): WithHeartbeat.
//   - A waiter whose lease is gone waits on (etcd #19597): waiters watch their own key.
//   - A retried unlock deletes somebody else's lock (etcd #22082): release compares the create revision.
//   - Two goroutines that share a session both hold (etcd #11364), a lost lock object is unusable (Consul #4902): each
//     acquisition is a claim with a lease of its own, and each Lease is used once.
//   - A stalled ex-leader revokes live leases (etcd #15247, #12528): it costs the lock, which WatchLoss and the next
//     renewal report; the fence protects the data. Its answers to renewals are recognized by their term.
//   - Observers see a wrong leader, stop after a compaction, or never hear of vacancy (etcd #18163, #7815, charts #326):
//     each state is read, watches only say when; vacancy is a state.
//   - A command runs on after the loss, or long into the next tenure (etcd #8365, Consul #9788, #1843, Cilium #42920): the
//     window closes before the service can grant; WithGrace, WithExitOnLoss, and `fenceproxy run`.
//   - "Communication is disrupted" is undefined (Consul #985): the states above.
//   - The lock is released while the work still runs (client-go #728, Kubernetes #139504, #139991): Do waits for the work.
//   - Release fails on a conflict (client-go #1289): it is tried again until its time is over, and compares what no renewal
//     changes.
//   - A deadline cannot be told from a held lock (redislock #79): ErrNotAcquired is joined with the one or the other.
//   - The same owner keeps its token across an expiry (eventstore #176): a token belongs to a claim, not to an owner.
//   - Two work after an outage, a reconnect or a failover, each sure of its lock (Redisson #3636, curator #980, #1121, Vault
//     #23013): no client can exclude it; each tenure has a token, and the database refuses the older one.
//   - Tokens that have no order (dynamodb-lock-client #1, #62), or count renewals (fabric8 #4616): a token only ever means a
//     tenure, and is higher than all before.
//   - Renewal stops after a reconnect and never begins again (Redisson #3194): the renewer runs until the claim has ended, and
//     the timer that ends it does not depend on the renewer.
//   - A split brain's older leader is never told (Kubernetes #23731): its window closes without anybody telling.
//   - Counters of tokens leak or are forgotten (Redisson #6510, SlateDB #352): etcd keeps one revision for all keys, the
//     database one row; marks are never deleted.
//   - A service that was restored gives old tokens again: the client refuses one that is not higher than the last it saw
//     (ErrRegressed); what it did not see, the fence refuses.
package lockclient
