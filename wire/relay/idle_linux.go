package relay

func (s *looped) stopIf(decide func() *stop) {
	s.post(func() {
		if st := decide(); st != nil {
			s.stop(st)
		}
	})
}
