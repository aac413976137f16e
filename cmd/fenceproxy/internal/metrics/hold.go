package metrics

// RegisterHold adds what a proxy counts that holds a lock for its clients. The function is to be called with each change.
func (m *Metrics) RegisterHold() (changed func(held bool)) {
	held := gauge("lock_held", "1 while this instance holds the lock of hold.lock, else 0.")
	tenures := counter("lock_tenures_total", "Times that this instance has taken the lock of hold.lock.")
	m.Registry.MustRegister(held, tenures)
	return func(now bool) {
		if !now {
			held.Set(0)
			return
		}
		held.Set(1)
		tenures.Inc()
	}
}
