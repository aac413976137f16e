package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/guardian"
)

// untilInterrupted is ctx until a signal says that the command shall end. One that was ignored when we began says nothing:
// that is what nohup and background jobs are about.
func untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := notified(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
		signal.Stop(signals)
	}()
	return ctx, cancel
}

// notified receives those of the signals that were not ignored when we began, and goes on ignoring the others.
func notified(all ...syscall.Signal) chan os.Signal {
	ch := make(chan os.Signal, 16)
	for _, s := range all {
		if guardian.Ignored(s) {
			signal.Ignore(s)
		} else {
			signal.Notify(ch, s)
		}
	}
	return ch
}

// surviveClosedOutput makes writing to a pipe that nobody reads an error, which by default would end us with the lock in
// our hands.
func surviveClosedOutput() { notified(syscall.SIGPIPE) }
