// Package etcd keeps locks in etcd: its own recipe on KV and Lease, the same against every server since 3.4. Importing it
// lets lockclient.Open understand
//
//	etcd://[user:password@]host[:2379][,host…][/prefix][?ttl=10s&ca=ca.pem&cert=c.pem&key=k.pem]
//
// A claim is one key bound to one fresh lease. The token is the key's create revision: revisions rise over the whole
// cluster, a claim holds when no older key stands before it, so each holder's token is higher than all before, and anybody
// can verify it. (The revision in a response's header, which concurrency.Mutex and etcdctl lock offer, is no token: with a
// 3.4 server's lock service two holders get the same one, with an election it goes backwards.) Tokens of all locks below
// one prefix are comparable. After the cluster was restored from a backup or replaced, revisions start lower: bump the
// epoch of the fences and call Backend.SetEpoch.
//
// Taking a free lock costs a lease grant and one transaction; a queued one also one transaction when its turn comes;
// releasing costs one transaction, and a revocation that nobody waits for. A waiter watches its own key and the one before
// it. Readers queue with writers: a reader waits for older writers, a writer for everything older.
//
// Class Strict, first in first out, shared locks. TTLs are whole seconds, at least 1.5 times the cluster's election timeout
// (2 s with the defaults): etcd grants more than was asked for otherwise. A dead holder's lock passes on up to 500 ms after
// its TTL, which is how often etcd looks for expired leases. Requests ask for a member that has a leader, so the smaller
// side of a split grants nothing.
package etcd
