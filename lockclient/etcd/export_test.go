package etcd

// Settle waits until the leases of released locks are revoked.
func (b *Backend) Settle() { b.behind.Wait() }
