package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/logging"
)

func newServe() *cobra.Command {
	var file string
	var printConfig bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long: `serve accepts PostgreSQL clients and relays them to the upstream, with a guard in front of
every write to a fenced table.

Settings come from flags, which win over FENCEPROXY_* environment variables, which win over
the file. docs/configuration.md describes them all.

SIGHUP reads the configuration again, as fenceproxy reload does; docs/operations.md says which
settings change in a running process. The first SIGTERM or SIGINT drains: /readyz says no,
after the drain delay listeners close, sessions outside a transaction end, the others may
finish theirs until the drain timeout. A second signal ends everything at once. The log goes
to standard error.

Exit codes: 0 ended by a signal, 1 failed or ended by a second signal, 2 wrong flags or
configuration.`,
		Example: `  fenceproxy serve --upstream postgres://fence@db/app --fence billing=invoices,payments
  fenceproxy serve --listen :6432 --listen /run/fenceproxy/.s.PGSQL.6432 --admin 127.0.0.1:9432 \
    --upstream postgres://fence@db/app --fence billing=invoices --fence jobs/42=jobs
  fenceproxy serve --config fenceproxy.yaml --mode observe --log-format console
  fenceproxy serve --config fenceproxy.yaml --print-config`,
		Args: noArguments,
	}
	flags := config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&file, "config", os.Getenv("FENCEPROXY_CONFIG"), "configuration `FILE` (FENCEPROXY_CONFIG)")
	cmd.Flags().BoolVar(&printConfig, "print-config", false, "print the resulting configuration without passwords, and exit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		load := func() (*config.Config, []string, error) {
			return config.Load(config.Source{File: file, Environment: os.Environ(), Flags: flags, Partial: printConfig})
		}
		c, warnings, err := load()
		if err != nil {
			return wrongConfig(err)
		}
		if printConfig {
			tellWarnings(cmd, warnings)
			return c.Write(cmd.OutOrStdout())
		}
		log, err := logging.New(zapcore.AddSync(cmd.ErrOrStderr()), string(c.LogLevel), string(c.LogFormat))
		if err != nil {
			return wrongConfig(err)
		}
		for _, w := range warnings {
			log.Warn(w)
		}
		signals := make(chan os.Signal, 4)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		defer signal.Stop(signals)
		return serve(cmd.Context(), c, load, log, signals)
	}
	return cmd
}

// tellWarnings is for commands that have no log.
func tellWarnings(cmd *cobra.Command, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
	}
}

var errForced = errors.New("ended by a second signal")

// serve runs the proxy until a signal or the end of ctx has drained it. SIGHUP reloads.
func serve(ctx context.Context, c *config.Config, load loader, log *logging.Logger, signals <-chan os.Signal) error {
	p, err := assemble(c, load, log, useProcessors(c.Limits.Processors))
	if err != nil {
		return wrongConfig(err)
	}
	defer p.close()
	if err := p.listen(); err != nil {
		return err
	}
	failed := p.run()
	why := zap.Skip()
	for {
		select {
		case err := <-failed:
			return err
		case s := <-signals:
			if s == syscall.SIGHUP {
				p.reload("SIGHUP") // says itself what became of it
				continue
			}
			why = zap.Stringer("signal", s)
		case <-ctx.Done():
		}
		c := p.current.Load().config
		log.Info("draining", why, zap.Int("sessions", p.server.Sessions()), zap.Duration("delay", c.DrainDelay), zap.Duration("timeout", c.DrainTimeout))
		return p.drain(signals)
	}
}

// useProcessors bounds the threads that run sessions, and returns the number of event loops: one for each processor that
// may be used. Work that is spread over more processors than it needs costs more, because each finds less to do when it
// wakes up, so by default the proxy takes half of them. One more thread does what is not relaying.
func useProcessors(n int) (loops int) {
	fixed := os.Getenv("GOMAXPROCS") != ""
	switch {
	case n > 0:
	case fixed:
		return runtime.GOMAXPROCS(0)
	default:
		n = max(1, runtime.GOMAXPROCS(0)/2)
	}
	runtime.GOMAXPROCS(n + 1)
	return n
}
