package main

import (
	"context"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// drain ends the sessions; a signal meanwhile ends them at once.
func (p *proxy) drain(signals <-chan os.Signal) error {
	p.draining.Store(true)
	c := p.current.Load().config
	p.ready.Drain()
	if p.holder != nil {
		p.holder.StandDown()
	}
	if p.config.ListenReuseport && p.admin != nil {
		p.admin.Close() // the page of the new process is the one to be asked
	}
	over := time.NewTimer(c.DrainDelay)
	defer over.Stop()
	if s := signalOr(over.C, signals); s != nil {
		return p.force(s)
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.DrainTimeout)
	defer cancel()
	var err error
	ended := make(chan time.Time)
	go func() {
		err = p.server.Shutdown(ctx)
		close(ended)
	}()
	if p.holder != nil {
		go p.giveUp(p.running)
	}
	if s := signalOr(ended, signals); s != nil {
		cancel()
		return p.force(s)
	}
	if err != nil {
		p.log.Warn("drain timeout is over: sessions were cut off")
	}
	p.log.Info("ended")
	return nil
}

// signalOr waits for a signal to end, or for nil.
func signalOr(until <-chan time.Time, signals <-chan os.Signal) os.Signal {
	for {
		select {
		case <-until:
			return nil
		case s := <-signals:
			if s != syscall.SIGHUP {
				return s
			}
		}
	}
}

func (p *proxy) force(s os.Signal) error {
	p.log.Warn("ending at once", zap.Stringer("signal", s), zap.Int("sessions", p.server.Sessions()))
	if p.holder != nil {
		go p.giveUp(p.running) // the last words to the clients take a moment
	}
	p.server.Close()
	return errForced
}
