package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fenceproxy/fenceproxy/cmd/fenceproxy/internal/config"
)

// reloadLimit bounds how long a proxy may take to read its configuration.
const reloadLimit = 15 * time.Second

func newReload() *cobra.Command {
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "reload --admin ADDRESS",
		Short: "Have a running proxy read its configuration again",
		Long: `reload asks a proxy by its admin listener to read its file again, as SIGHUP does, and says what
has changed: settings that are in force now, settings that need a restart, and how many
sessions of the former configuration end with their transaction. A configuration that is wrong
changes nothing.

The proxy reads its own file, with its own flags and environment. --config is only for the
address: without --admin it is that of the file, or of FENCEPROXY_ADMIN.

Exit code 3: the configuration is wrong, and the former one stays in force.`,
		Example: `  fenceproxy reload --admin 127.0.0.1:9432
  fenceproxy reload --config fenceproxy.yaml`,
		Args: noArguments,
	}
	flags := config.AddFlags(cmd.Flags(), "admin")
	cmd.Flags().StringVar(&file, "config", os.Getenv("FENCEPROXY_CONFIG"), "configuration `FILE` that names the admin listener")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		address, err := adminAddress(cmd, file, flags)
		if err != nil {
			return err
		}
		body, err := postReload(cmd.Context(), address)
		if err != nil {
			return err
		}
		if asJSON {
			_, err := cmd.OutOrStdout().Write(body)
			return err
		}
		var r reloaded
		if err := json.Unmarshal(body, &r); err != nil {
			return fmt.Errorf("%s does not answer as a fenceproxy does", address)
		}
		return r.write(cmd.OutOrStdout())
	}
	return cmd
}

// adminAddress is that of --admin, else that of the configuration, which may be wrong everywhere else: it is the proxy's
// to say so.
func adminAddress(cmd *cobra.Command, file string, flags *config.Flags) (string, error) {
	if cmd.Flags().Changed("admin") {
		file = ""
	}
	c, _, err := config.Load(config.Source{File: file, Environment: adminEnvironment(), Flags: flags, Partial: true})
	if err != nil {
		return "", wrongConfig(fmt.Errorf("%w\nname the admin listener: --admin ADDRESS", err))
	}
	if c.Admin == "" {
		return "", usageError(cmd, errors.New("which proxy? name its admin listener: --admin ADDRESS"))
	}
	return c.Admin, nil
}

func adminEnvironment() []string {
	return []string{"FENCEPROXY_ADMIN=" + os.Getenv("FENCEPROXY_ADMIN")}
}

func postReload(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, reloadLimit)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		network, to := "tcp", address
		if strings.HasPrefix(to, "/") {
			network = "unix"
		}
		return new(net.Dialer).DialContext(ctx, network, to)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://fenceproxy/reload", nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the admin listener %s: %w", address, errors.Unwrap(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	switch {
	case err != nil:
		return nil, fmt.Errorf("no answer from the admin listener %s: %w", address, err)
	case response.StatusCode == http.StatusUnprocessableEntity:
		return nil, refused(fmt.Errorf("not reloaded, the former configuration stays in force:\n%s", strings.TrimRight(string(body), "\n")))
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the admin listener %s says: %s", address, response.Status)
	}
	return body, nil
}

func (r *reloaded) write(out io.Writer) error {
	if len(r.Changed) == 0 {
		fmt.Fprintln(out, "reloaded: nothing has changed")
	} else {
		fmt.Fprintf(out, "reloaded: %s\n", strings.Join(r.Changed, ", "))
	}
	if r.Within != "" {
		fmt.Fprintf(out, "%s of the former configuration: ended with their transaction, at the latest in %s\n", count(r.Ending, "session"), r.Within)
	}
	if len(r.Restart) > 0 {
		fmt.Fprintf(out, "needs a restart: %s\n", strings.Join(r.Restart, ", "))
	}
	return nil
}
