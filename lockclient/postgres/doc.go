// Package postgres takes locks from the fenced database itself: no other server, and no moment between having the lock
// and being protected by it. It opens URLs of the schemes postgres and postgresql.
//
// The lease table (mode=lease, the default) grants a lock and makes its token the mark of the fence of the same name in
// one transaction, one round trip. It works through poolers in any mode. Advisory locks (mode=advisory) end with a session,
// take part in an application's own pg_advisory_lock scheme, and know readers; the token comes from the same counter, and
// is raised in the same session. A transaction pooler in between would hand the session to others, so it is refused.
//
// Both need the schema that "fenceproxy init" installs, a role that is a member of fence_control, and, to end sessions of
// an earlier holder that keep a takeover waiting, pg_signal_backend and pg_read_all_stats.
//
// All times are the database's: its clock decides when a lease ends, and the client counts only how long its own requests
// took. Tokens follow the WAL's timeline: after a promotion all holders must acquire again, and the database refuses the
// tokens of before, also when the newest of them were lost with the old primary.
//
// # What has gone wrong elsewhere
//
// Public reports about lock clients on PostgreSQL, and what keeps each from happening here.
//
//   - pglock #41, #42: a failed heartbeat released the lock, or was ignored. Renewal has three outcomes (package lockclient);
//     only the database's word that the claim is gone is a loss. TestClaims, TestServerCrash.
//   - river #197: EXCLUDED compared with itself, so anybody renewed the leader's lease. Every function compares the row
//     with the claim, which nobody else knows. TestClaims.
//   - river #1213: the trust window counted from the answer. The client counts from when a request was sent; the server sets
//     the end later than that. TestSchedules.
//   - eventstore #176: an owner who came back after the end of its lease kept its token. A grant is always a new token.
//     TestTenures, TestStoppedHolder.
//   - DistributedLock #230, #133: a crashed client kept an advisory lock, a lost one was not told. The server ends a session
//     that is silent for a TTL, and each renewal asks the session itself. TestAdvisorySessionEnds.
//   - DistributedLock #168, authentik #23876: advisory locks behind PgBouncer in transaction mode were stranded. Refused.
//     TestAdvisoryRefusesPoolers.
//   - redisson #4822, #4706: after a failover only the old owner could lock, or nobody. Nobody keeps a lock over a promotion;
//     all acquire anew, once a TTL is over at the latest. TestPromotion.
//   - synapse #18544: a sequence went back after a switchover. The counter is a row, and the epoch follows the timeline.
//     TestPromotion.
//   - slatedb #352: a fence was forgotten while a stalled writer still had its token. Marks and lease rows are never deleted.
//   - patroni #837, #2787: two primaries, each of which gives locks. A promoted server has a timeline of its own, so its tokens
//     are higher; two promotions to the same timeline are not told apart, here or there.
//   - ShedLock #2201: "the service behind the lock has to check". It does: the mark is raised in the transaction that grants.
//     TestTakeoverWaitsForGuarded.
//   - redisson #6510: counters of old locks pile up. A name costs one row in fence.lease and one in fence.mark for ever: name
//     locks after what they protect, not after single jobs by the million.
//   - cozy-stack #4911, redsync #158, #149, redis-semaphore #175: an extension that failed went unnoticed, or took a lost lock
//     again. Renewal never creates, and a loss is final. TestClaims, TestSchedules.
package postgres
